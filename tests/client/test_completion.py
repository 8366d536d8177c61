import pytest

from tools.client.completion import Chunk, Completion, CompletionBuilder
from tools.client.request import Target

ASKED = Target("llm_bf16")


def chunk(at: float, text: str = "", tokens: int | None = 0, finish: str = "None", **more: object) -> Chunk:
    outputs = {"text_output": [text], "finish_reason": [finish], **more}
    if tokens is not None:
        outputs["num_output_tokens"] = [tokens]
    return Chunk.from_outputs(outputs, at, Target("llm_bf16", 3))


def complete(*chunks: Chunk, streamed: bool = True) -> Completion:
    builder = CompletionBuilder(ASKED, streamed=streamed, num_input_tokens=5, template_s=0.5)
    builder.start(100.0)
    for each in chunks:
        builder.add(each)
    return builder.build()


def test_tokens_are_the_servers_count_not_the_number_of_responses() -> None:
    completion = complete(chunk(101, "Hello", 3), chunk(102, " world", 4), chunk(104, "!", 1, "stop"))

    assert completion.text == "Hello world!"
    assert completion.num_output_tokens == 8
    assert completion.num_responses == 3
    assert completion.ttft_s == 1
    assert completion.e2e_s == 4
    assert completion.tpot_s == pytest.approx((4 - 1) / (8 - 1))
    assert completion.tokens_per_s == pytest.approx(8 / 4)
    assert completion.itl_s == (1, 2)
    assert completion.finish_reason == "stop"
    assert completion.served_by == Target("llm_bf16", 3)
    assert completion.num_input_tokens == 5
    assert completion.template_s == 0.5


def test_a_token_without_text_starts_the_clock_and_an_empty_final_response_does_not_stop_it() -> None:
    half_a_character = chunk(101, "", 1)
    empty_final = Chunk.from_outputs({}, 109, None, final=True)

    completion = complete(half_a_character, chunk(103, "好", 1), chunk(105, "", 0, "stop"), empty_final)

    assert completion.ttft_s == 1
    assert completion.e2e_s == 3
    assert completion.itl_s == (2,)
    assert completion.served_by == Target("llm_bf16", 3)


def test_without_the_servers_count_text_starts_the_clock_and_nothing_is_counted() -> None:
    completion = complete(chunk(101, "", None), chunk(102, "a", None), chunk(103, "b", None, "stop"))

    assert completion.ttft_s == 2
    assert completion.num_output_tokens is None
    assert completion.tpot_s is None
    assert completion.tokens_per_s is None


def test_one_token_has_no_tpot() -> None:
    completion = complete(chunk(101, "a", 1, "length"))

    assert completion.ttft_s == 1
    assert completion.tpot_s is None


def test_an_answer_without_tokens_has_no_ttft() -> None:
    completion = complete(chunk(101, "", 0, "stop"))

    assert completion.ttft_s is None
    assert completion.e2e_s == 1
    assert completion.num_output_tokens == 0


def test_one_response_with_everything_has_no_ttft() -> None:
    completion = complete(chunk(104, "Hello world", 4, "stop"), streamed=False)

    assert completion.ttft_s is None
    assert completion.tpot_s is None
    assert completion.tokens_per_s == 1


def test_several_sequences() -> None:
    first = Chunk.from_outputs(
        {"text_output": ["a", "x"], "num_output_tokens": [1, 2], "finish_reason": ["None", "None"]}, 101, ASKED
    )
    second = Chunk.from_outputs(
        {"text_output": ["b", ""], "num_output_tokens": [1, 0], "finish_reason": ["length", "stop"]}, 102, ASKED
    )

    completion = complete(first, second)

    assert completion.texts == ("ab", "x")
    assert completion.finish_reasons == ("length", "stop")
    assert completion.num_output_tokens == 4
    assert completion.tpot_s is None


def test_a_finish_reason_stays_once_it_is_known() -> None:
    completion = complete(chunk(101, "a", 1, "stop"), chunk(102, "", 0, "None"))

    assert completion.finish_reason == "stop"


def test_the_server_knows_the_prompts_length_best() -> None:
    assert complete(chunk(101, "a", 1, num_input_tokens=[9])).num_input_tokens == 9


def test_the_prompts_logprobs_are_those_of_the_response_that_had_them() -> None:
    completion = complete(chunk(101, "a", 1, prompt_logprobs=["[null]"]), chunk(102, "b", 1))

    assert completion.prompt_logprobs == "[null]"


def test_logprobs_are_kept_in_order_of_arrival() -> None:
    completion = complete(
        chunk(101, "a", 1, logprobs=["[1]"], cumulative_logprob=[-0.5]),
        chunk(102, "b", 1, logprobs=["[2]"], cumulative_logprob=[-0.75]),
    )

    assert completion.logprobs == ("[1]", "[2]")
    assert completion.cumulative_logprobs == (-0.75,)


def test_a_router_says_whose_answer_it_hands_on() -> None:
    first = chunk(101, "Hi", 1, served_model=["llm_awq"], served_version=[2])
    last = Chunk.from_outputs({}, 103, None, final=True)
    # Only the first response has it.
    assert complete(first, chunk(102, " there", 1), last).served_by == Target("llm_awq", 2)
