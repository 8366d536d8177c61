"""Peak memory and drafts out of a metrics page."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from tools.client.request import Target
from tools.reporting.server_metrics import Drafting, EngineMetrics, engine_metrics_at, engine_metrics_in

EAGLE = Target("llm_eagle", 1)
PAGE = """\
# HELP ladder_peak_memory_bytes Peak memory
# TYPE ladder_peak_memory_bytes gauge
ladder_peak_memory_bytes{model="llm_eagle",version="1"} 1.5e+09
ladder_peak_memory_bytes{model="llm_eagle",version="2"} 7
ladder_peak_memory_bytes{model="llm_bf16",version="1"} 0
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{model="llm_eagle",version="1"} 100
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{model="llm_eagle",version="1"} 300
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{model="llm_eagle",version="1"} 90
"""


@pytest.fixture
def page() -> Iterator[str]:
    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Metrics) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_engines_own_lines_are_read() -> None:
    drafting = Drafting(drafts=100, drafted=300, accepted=90)
    assert engine_metrics_in(PAGE, EAGLE) == EngineMetrics(peak_memory_bytes=1_500_000_000, drafting=drafting)
    assert drafting.acceptance_length == 1.9
    assert drafting.acceptance_rate == 0.3


def test_a_peak_of_zero_is_none() -> None:
    assert engine_metrics_in(PAGE, Target("llm_bf16", 1)) == EngineMetrics()
    assert Drafting().acceptance_length is None
    assert Drafting().acceptance_rate is None


def test_what_was_counted_meanwhile() -> None:
    before, after = Drafting(drafts=10, drafted=30, accepted=9), Drafting(drafts=25, drafted=75, accepted=20)
    assert after.since(before) == Drafting(drafts=15, drafted=45, accepted=11)
    # A new engine counts from 0.
    assert before.since(after) == before


@pytest.mark.slow
def test_a_page_is_fetched(page: str) -> None:
    assert engine_metrics_at(f"{page}/metrics", EAGLE).peak_memory_bytes == 1_500_000_000


@pytest.mark.slow
def test_a_page_that_cannot_be_had_says_nothing(page: str) -> None:
    assert engine_metrics_at(f"{page}/other", EAGLE) == EngineMetrics()
    assert engine_metrics_at("http://127.0.0.1:9/metrics", EAGLE) == EngineMetrics()
