from __future__ import annotations

from tools.serving.speculation import speculation_at, speculation_in

METRICS = """\
# HELP vllm:spec_decode_num_drafts_total Speculative decoding: drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{model="llm_eagle",version="1"} 200
vllm:spec_decode_num_drafts_total{model="llm_idle",version="1"} 0
# HELP vllm:spec_decode_num_draft_tokens_total Speculative decoding: tokens in drafts.
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{model="llm_eagle",version="1"} 600
# HELP vllm:spec_decode_num_accepted_tokens_total Speculative decoding: accepted tokens.
# TYPE vllm:spec_decode_num_accepted_tokens_total counter
vllm:spec_decode_num_accepted_tokens_total{model="llm_eagle",version="1"} 240
# HELP vllm:spec_decode_num_accepted_tokens_per_pos_total Accepted tokens by their place in the draft.
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter
vllm:spec_decode_num_accepted_tokens_per_pos_total{model="llm_eagle",position="1",version="1"} 80
vllm:spec_decode_num_accepted_tokens_per_pos_total{model="llm_eagle",position="0",version="1"} 120
vllm:spec_decode_num_accepted_tokens_per_pos_total{model="llm_eagle",position="2",version="1"} 40
# HELP vllm:num_requests_running Requests in the batch.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model="llm_eagle",version="1"} 3
"""


def test_length_and_rates_follow_from_the_counters() -> None:
    (status,) = speculation_in(METRICS)
    assert (status.name, status.version, status.drafts) == ("llm_eagle", 1, 200)
    assert status.mean_acceptance_length == 2.2
    assert status.acceptance_rate == 0.4
    assert status.by_position == [0.6, 0.4, 0.2]


def test_without_speculation_there_is_nothing() -> None:
    assert speculation_in("") == []


def test_a_server_that_does_not_answer_has_none() -> None:
    assert speculation_at(1) == []
