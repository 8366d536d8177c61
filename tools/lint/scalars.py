"""Whether a plain value suits its field in the schema, and what to write where it does not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.lint.mistakes import Mistake, SyntaxProblem, nearest
from tools.lint.tokens import Token, TokenKind

_TRUE_OR_FALSE = {"true", "True", "t", "1", "false", "False", "f", "0"}

_BAD_ESCAPE = re.compile(r"""(?:^|[^\\])(?:\\\\)*(\\[^\\abfnrtv?'"0-7xXuU])""")
"""A backslash in front of what protobuf knows no escape for, as in a Windows path."""

_DATA_TYPE_ALIASES = {
    "FLOAT": "TYPE_FP32",
    "FLOAT32": "TYPE_FP32",
    "FLOAT16": "TYPE_FP16",
    "HALF": "TYPE_FP16",
    "FLOAT64": "TYPE_FP64",
    "DOUBLE": "TYPE_FP64",
    "BFLOAT16": "TYPE_BF16",
    "INT": "TYPE_INT32",
    "LONG": "TYPE_INT64",
    "BYTES": "TYPE_STRING",
    "STR": "TYPE_STRING",
    "BOOLEAN": "TYPE_BOOL",
}
"""Names that other frameworks and Triton's own wire protocol use for Triton's data types."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """`mended` is the text that the strict parser takes, None where that would be a guess."""

    mended: str | None
    problem: SyntaxProblem | None = None


def judge_scalar(token: Token, schema: Any) -> Judgement:
    """Judges a value for a field that is no message; `schema` is the field's descriptor."""
    if token.kind is TokenKind.PLACEHOLDER:
        return Judgement(None, placeholder_problem(token))
    if token.kind is TokenKind.OPEN_STRING:
        message = f"the quote of '{token.text[:40]}' is not closed on its line"
        return Judgement(None, SyntaxProblem(Mistake.OTHER, message, "Close the quote.", token.line, token.column))
    if schema.enum_type is not None:
        return _judge_enum(token, schema)
    match schema.cpp_type:
        case schema.CPPTYPE_STRING:
            return _judge_text(token, schema)
        case schema.CPPTYPE_BOOL:
            return _judge_flag(token, schema)
        case schema.CPPTYPE_FLOAT | schema.CPPTYPE_DOUBLE:
            return _judge_number(token, schema, "a number", is_whole=False)
        case _:
            return _judge_number(token, schema, "a whole number", is_whole=True)


def placeholder_problem(token: Token) -> SyntaxProblem:
    return SyntaxProblem(
        Mistake.PLACEHOLDER,
        f"'{token.text[:60]}' is a template placeholder that was not rendered",
        "Render the template before Triton reads the file, with undefined variables as errors.",
        token.line,
        token.column,
    )


def type_problem(token: Token, schema: Any, wanted: str, fix: str | None = None) -> SyntaxProblem:
    """The value is of another kind than the field takes."""
    shown = token.text[:40] or "end of file"
    shown = shown if token.kind is TokenKind.STRING else f"'{shown}'"
    message = f"'{schema.name}' is {shown}, but takes {wanted}"
    return SyntaxProblem(
        Mistake.WRONG_TYPE, message, fix or f"Give '{schema.name}' {wanted}.", token.line, token.column
    )


def _judge_text(token: Token, schema: Any) -> Judgement:
    if token.kind is TokenKind.STRING:
        escape = _BAD_ESCAPE.search(token.text)
        return Judgement(token.text) if escape is None else Judgement(None, _escape_problem(token, schema, escape[1]))
    quoted = f'"{token.text}"'
    problem = type_problem(token, schema, "text in quotes", f"Write '{schema.name}: {quoted}'.")
    return Judgement(quoted if token.kind in {TokenKind.NAME, TokenKind.NUMBER} else None, problem)


def _escape_problem(token: Token, schema: Any, escape: str) -> SyntaxProblem:
    message = f"'{schema.name}' has '{escape}', which is no escape sequence"
    fix = f"Write a backslash as '\\\\': '\\{escape}'."
    return SyntaxProblem(Mistake.ESCAPE, message, fix, token.line, token.column)


def _judge_flag(token: Token, schema: Any) -> Judgement:
    if token.kind is not TokenKind.STRING and token.text in _TRUE_OR_FALSE:
        return Judgement(token.text)
    fix = f"Write '{schema.name}: true' or '{schema.name}: false', without quotes."
    inner = token.text.strip("\"'").lower()
    return Judgement(inner if inner in {"true", "false"} else None, type_problem(token, schema, "true or false", fix))


def _judge_number(token: Token, schema: Any, wanted: str, *, is_whole: bool) -> Judgement:
    is_special = not is_whole and token.text.lstrip("-").lower() in {"inf", "infinity", "nan"}
    if is_special or (token.kind is TokenKind.NUMBER and (not is_whole or _is_whole(token.text))):
        return Judgement(token.text)
    inner = token.text.strip("\"'")
    return Judgement(inner if _is_whole(inner) else None, type_problem(token, schema, wanted))


def _judge_enum(token: Token, schema: Any) -> Judgement:
    names = [value.name for value in schema.enum_type.values]
    inner = token.text.strip("\"'")
    if token.kind is TokenKind.NUMBER or (token.kind is TokenKind.NAME and inner in names):
        return Judgement(token.text)
    if token.kind is TokenKind.STRING and inner in names:
        message = f"enum value {token.text} of '{schema.name}' is quoted"
        fix = f"Write '{schema.name}: {inner}'."
        return Judgement(inner, SyntaxProblem(Mistake.QUOTED_ENUM, message, fix, token.line, token.column))
    near = _nearest_enum(inner, names)
    is_case = near == inner.upper()
    message = f"'{inner}' is no value of '{schema.name}'" + ("; enum values are upper case" if is_case else "")
    fix = f"Write '{schema.name}: {near}'." if near else f"Known values: {', '.join(names)}."
    return Judgement(
        near if is_case else None, SyntaxProblem(Mistake.UNKNOWN_ENUM, message, fix, token.line, token.column)
    )


def _nearest_enum(written: str, names: Sequence[str]) -> str | None:
    upper = written.upper()
    alias = _DATA_TYPE_ALIASES.get(upper.removeprefix("TYPE_"))
    candidates = [upper, f"TYPE_{upper}", f"KIND_{upper}", alias]
    return next((name for name in candidates if name in names), None) or nearest(written, names)


def _is_whole(text: str) -> bool:
    return re.fullmatch(r"-?(?:0[xX][0-9a-fA-F]+|[0-9]+)", text) is not None
