"""Server-sent events, as far as tritonserver's generate_stream speaks them."""

import re

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_FEED = 0x0A
_LINE_END = re.compile(rb"\r\n|\r|\n")


class SSEParser:
    """Cuts a byte stream into the `data` of its events, however the network has cut it.

    Works on bytes and decodes whole lines only, so a character or a line end split over two reads is no special case.
    Line ends may be LF, CR or CR LF; comments and fields other than `data` are skipped, as the standard demands.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._data: list[str] = []
        self._at_start = True
        self._line_feed_is_due = False

    def feed(self, received: bytes) -> list[str]:
        """The events completed by these bytes, oldest first.

        Raises:
            UnicodeDecodeError: a line is not UTF-8.
        """
        self._pending += received
        if self._at_start:
            if len(self._pending) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(self._pending):
                return []
            if self._pending.startswith(_BYTE_ORDER_MARK):
                del self._pending[: len(_BYTE_ORDER_MARK)]
            self._at_start = False
        events = []
        for line in self._take_lines():
            if line:
                self._read_field(line)
            elif self._data:
                events.append("\n".join(self._data))
                self._data = []
        return events

    @property
    def unfinished(self) -> str:
        """What has arrived of an event that is not complete; empty at the end of a whole stream."""
        rest = self._pending.decode("utf-8", errors="replace")
        return "\n".join([*self._data, *([rest] if rest else [])])

    def _take_lines(self) -> list[str]:
        buffer = self._pending
        if self._line_feed_is_due and buffer:
            self._line_feed_is_due = False
            if buffer[0] == _LINE_FEED:
                del buffer[0]
        lines = []
        start = 0
        while end := _LINE_END.search(buffer, start):
            lines.append(buffer[start : end.start()].decode("utf-8"))
            start = end.end()
            # A CR at the end of what has arrived may be the first half of CR LF.
            self._line_feed_is_due = end.group() == b"\r" and start == len(buffer)
        del buffer[:start]
        return lines

    def _read_field(self, line: str) -> None:
        name, _, value = line.partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
