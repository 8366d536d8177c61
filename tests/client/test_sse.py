import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.client.sse import SSEParser

# Everything but the characters that end a line.
TEXTS = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


def parse(parser: SSEParser, pieces: list[bytes]) -> list[str]:
    return [event for piece in pieces for event in parser.feed(piece)]


@st.composite
def streams_in_pieces(draw: st.DrawFn) -> tuple[list[str], list[bytes]]:
    """Events, and their stream cut anywhere: within characters, within line ends."""
    # One kind a stream: CR followed by LF would be one line end, not two.
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    events = draw(st.lists(st.lists(TEXTS, min_size=1, max_size=3).map("\n".join), max_size=5))
    stream = b""
    for event in events:
        for line in event.split("\n"):
            field = draw(st.sampled_from(["data: ", "data:"])) if not line.startswith(" ") else "data: "
            stream += f"{field}{line}{end}".encode()
            other = draw(st.sampled_from(["", ": comment", "event: message", "id: 7", "data2: no"]))
            stream += f"{other}{end}".encode() if other else b""
        stream += end.encode()
    if draw(st.booleans()):
        stream = b"\xef\xbb\xbf" + stream
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    bounds = [0, *cuts, len(stream)]
    return events, [stream[start:end] for start, end in itertools.pairwise(bounds)]


@given(streams_in_pieces())
def test_events_survive_any_cut(case: tuple[list[str], list[bytes]]) -> None:
    events, pieces = case
    parser = SSEParser()

    assert parse(parser, pieces) == events
    assert parser.unfinished == ""


def test_a_stream_of_triton_cut_at_every_byte() -> None:
    stream = 'data: {"text_output":"你好 👋🏽"}\n\ndata: {"text_output":"é"}\n\n'.encode()
    expected = ['{"text_output":"你好 👋🏽"}', '{"text_output":"é"}']

    for cut in range(len(stream) + 1):
        assert parse(SSEParser(), [stream[:cut], stream[cut:]]) == expected
    assert parse(SSEParser(), [bytes([byte]) for byte in stream]) == expected


def test_unicode_line_separators_do_not_end_a_line() -> None:
    assert SSEParser().feed("data: a\u2028b\u0085c\x0bd\n\n".encode()) == ["a\u2028b\u0085c\x0bd"]


def test_an_event_is_complete_only_after_its_blank_line() -> None:
    parser = SSEParser()

    assert parser.feed(b"data: half\n") == []
    assert parser.unfinished == "half"
    assert parser.feed(b"\n") == ["half"]


def test_a_cut_line_is_unfinished() -> None:
    parser = SSEParser()
    parser.feed(b"data: whole\n\ndata: cu")

    assert parser.unfinished == "data: cu"


def test_a_blank_line_without_data_is_no_event() -> None:
    assert SSEParser().feed(b"\n\n: ping\n\nevent: x\n\n") == []


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        SSEParser().feed(b"data: \xff\n\n")
