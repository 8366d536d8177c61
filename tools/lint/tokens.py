"""Cuts protobuf text format into tokens with positions, whatever the text holds.

Unlike a parser's own tokenizer this one never gives up: template placeholders, C-style comments and stray characters
are tokens too, so that the diagnosis can name them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto


class TokenKind(Enum):
    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    OPEN_STRING = auto()
    """A quote that is not closed on its line."""
    PLACEHOLDER = auto()
    """`{{ x }}`, `{% x %}` or `${x}`: a template that was not rendered."""
    SLASH_COMMENT = auto()
    PUNCTUATION = auto()
    JUNK = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    line: int
    column: int

    def is_punctuation(self, characters: str) -> bool:
        return self.kind is TokenKind.PUNCTUATION and self.text in characters


_PATTERN = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<blank>[^\S\n]+ | \#[^\n]*)
    | (?P<PLACEHOLDER>\{\{[^\n]*?\}\} | \{%[^\n]*?%\} | \$\{[^\n}]*\})
    | (?P<SLASH_COMMENT>//[^\n]*)
    | (?P<STRING>"(?:[^"\\\n]|\\[^\n])*" | '(?:[^'\\\n]|\\[^\n])*')
    | (?P<OPEN_STRING>["'][^\n]*)
    | (?P<NUMBER>-?\.?\d[\w.+]*)
    | (?P<NAME>[^\W\d][\w.]*)
    | (?P<PUNCTUATION>[{}<>\[\]:,;=-])
    | (?P<JUNK>.)
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[Token]:
    """All tokens of `text`, the last one of kind END. Lines and columns count from 1."""
    tokens: list[Token] = []
    line, line_start = 1, 0
    for match in _PATTERN.finditer(text):
        group = match.lastgroup or "JUNK"
        if group == "newline":
            line, line_start = line + 1, match.end()
        elif group != "blank":
            tokens.append(Token(TokenKind[group], match.group(), line, match.start() - line_start + 1))
    tokens.append(Token(TokenKind.END, "", line, max(1, len(text) - line_start + 1)))
    return tokens
