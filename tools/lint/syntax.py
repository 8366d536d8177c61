"""A forgiving parser for config.pbtxt: it explains what the strict parser only refuses.

It walks the text along the published schema, notes every mistake it knows with its position, mends it and goes on. The
result is a list of mistakes, the mended text (so that one run can report what lies behind the first mistake), and where
each field stands. Whether a file *is* wrong is for protobuf's own parser to say; see config_file.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from tools.lint.mistakes import LOSSY, Mistake, SyntaxProblem, nearest
from tools.lint.scalars import judge_scalar, placeholder_problem, type_problem
from tools.lint.tokens import Token, TokenKind, tokenize

_MOST_PROBLEMS = 40
"""A file with more mistakes than this is no config.pbtxt; naming them all helps nobody."""

_MAP_FIX = 'Write field names without quotes, and a map entry as \'input_map { key: "a" value: "b" }\'.'


@dataclass(slots=True)
class Node:
    """One occurrence of a field: its position, its plain values and, for a message field, the fields inside."""

    name: str
    line: int
    column: int
    children: list[Node] = field(default_factory=list)
    values: list[Token] = field(default_factory=list)

    def find(self, name: str, index: int = 0) -> Node | None:
        """The `index`-th occurrence of field `name` directly below."""
        matching = [child for child in self.children if child.name == name]
        return matching[index] if index < len(matching) else None


@dataclass(frozen=True, slots=True)
class ParsedText:
    """`mended` is None where mending would have meant to guess or to leave something out."""

    problems: tuple[SyntaxProblem, ...]
    root: Node
    mended: str | None


class Descriptor(Protocol):
    """The part of protobuf's message descriptor that is used here."""

    name: str
    fields_by_name: Any


def parse_forgiving(text: str, descriptor: Descriptor) -> ParsedText:
    """Parses `text` as a message of `descriptor`. Never raises on any text."""
    parser = _Parser(tokenize(text))
    root = parser.parse(descriptor)
    return ParsedText(tuple(parser.problems), root, None if parser.lossy else "".join(parser.mended))


class _Parser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.problems: list[SyntaxProblem] = []
        self.mended: list[str] = []
        self.lossy = False

    @property
    def current(self) -> Token:
        return self.tokens[self.position]

    @property
    def following(self) -> Token:
        return self.tokens[min(self.position + 1, len(self.tokens) - 1)]

    def take(self) -> Token:
        token = self.current
        self.position = min(self.position + 1, len(self.tokens) - 1)
        return token

    def report(self, mistake: Mistake, token: Token, message: str, fix: str) -> None:
        self.note(SyntaxProblem(mistake, message, fix, token.line, token.column))

    def note(self, problem: SyntaxProblem | None) -> None:
        if problem is None:
            return
        self.problems.append(problem)
        self.lossy = self.lossy or problem.mistake in LOSSY
        if len(self.problems) >= _MOST_PROBLEMS:
            self.position = len(self.tokens) - 1

    # -- fields

    def parse(self, descriptor: Descriptor) -> Node:
        root = Node("", 1, 1)
        if self.current.is_punctuation("{"):
            message = "the file starts with '{': protobuf text format has no braces around the whole message"
            fix = "Drop the outer braces and write 'name: \"m\"', one field per line, no quotes around field names."
            self.report(Mistake.JSON, self.take(), message, fix)
        self.parse_fields(root, descriptor, None)
        return root

    def parse_fields(self, parent: Node, descriptor: Descriptor, opened: Token | None) -> None:
        """Fields up to the brace that closes `opened`, or to the end of the file."""
        seen: dict[str, str] = {}
        while True:
            token = self.current
            if token.kind is TokenKind.END:
                if opened is not None:
                    message = f"'{opened.text}' opened for '{parent.name}' is never closed"
                    self.report(Mistake.UNBALANCED, opened, message, "Add the missing closing brace.")
                return
            if token.is_punctuation("}>"):
                self.take()
                if opened is not None:
                    return
                message = f"'{token.text}' closes nothing"
                self.report(Mistake.UNBALANCED, token, message, f"Remove this '{token.text}'.")
            elif token.is_punctuation(",;"):
                self.take()
            elif token.kind is TokenKind.NAME:
                self.parse_field(parent, descriptor, seen)
            else:
                self.skip_non_field(parent)

    def skip_non_field(self, parent: Node) -> None:
        """Something stands where a field name belongs: name it and step over it."""
        token = self.take()
        where = f" in '{parent.name}'" if parent.name else ""
        shown = token.text[:40]
        if token.kind is TokenKind.PLACEHOLDER:
            self.note(placeholder_problem(token))
        elif token.kind is TokenKind.SLASH_COMMENT:
            message = f"'{shown}' is no comment in protobuf text format"
            self.report(Mistake.SLASH_COMMENT, token, message, "Start comments with '#'.")
        elif token.kind is TokenKind.STRING and self.current.is_punctuation(":{"):
            message = f"field name '{token.text[1:-1][:40]}'{where} is quoted, as in JSON"
            self.report(Mistake.JSON, token, message, _MAP_FIX)
            self.skip_value()
        else:
            message = f"unexpected '{shown}'{where}, where a field name belongs"
            self.report(Mistake.OTHER, token, message, "Remove or correct it.")

    def parse_field(self, parent: Node, descriptor: Descriptor, seen: dict[str, str]) -> None:
        token = self.take()
        name = self.join_blank(token, descriptor)
        schema = descriptor.fields_by_name.get(name)
        if schema is None:
            near = nearest(name, list(descriptor.fields_by_name))
            fix = f"Did you mean '{near}'?" if near else "Remove it, or look it up in Triton's model_config.proto."
            self.report(Mistake.UNKNOWN_FIELD, token, f"'{name}' is no field of '{descriptor.name}'", fix)
            self.skip_value()
            return
        keep = self.check_occurrence(token, schema, seen)
        is_message = schema.message_type is not None
        self.take_colon(name, is_needed=not is_message)
        length_before = len(self.mended)
        if self.current.is_punctuation("["):
            self.parse_list(parent, token, schema)
        elif is_message:
            self.parse_block(parent, token, schema)
        else:
            node = Node(name, token.line, token.column)
            parent.children.append(node)
            self.parse_scalar(node, schema)
        if not keep:
            del self.mended[length_before:]

    def join_blank(self, token: Token, descriptor: Descriptor) -> str:
        """`dynamic batching {`: two words that make a field's name when joined."""
        second = self.current
        joined = f"{token.text}_{second.text}"
        known = descriptor.fields_by_name
        if second.kind is not TokenKind.NAME or token.text in known or joined not in known:
            return token.text
        self.take()
        message = f"'{token.text} {second.text}' has a blank where the field name '{joined}' has an underscore"
        self.report(Mistake.BLANK_IN_NAME, token, message, f"Write '{joined}'.")
        return joined

    def check_occurrence(self, token: Token, schema: Any, seen: dict[str, str]) -> bool:
        """False where this occurrence must not be there: a second one of a scalar, or of another member of a oneof."""
        if schema.is_repeated:
            return True
        if schema.name in seen:
            message = f"'{schema.name}' is given twice in '{schema.containing_type.name}'"
            self.report(Mistake.REPEATED_SCALAR, token, message, f"Keep one '{schema.name}'.")
            return False
        seen[schema.name] = schema.name
        oneof = schema.containing_oneof
        first = schema.name if oneof is None else seen.setdefault(f"oneof {oneof.name}", schema.name)
        if first == schema.name:
            return True
        message = f"'{schema.name}' stands beside '{first}', but only one of them may be set"
        self.report(Mistake.SECOND_OF_ONEOF, token, message, f"Keep either '{first}' or '{schema.name}'.")
        return False

    def take_colon(self, name: str, *, is_needed: bool) -> None:
        if self.current.is_punctuation(":"):
            self.take()
        elif self.current.is_punctuation("="):
            self.report(Mistake.PUNCTUATION, self.take(), f"'=' after '{name}'", f"Write '{name}: ...', with a colon.")
        elif is_needed and not self.current.is_punctuation("["):
            message = f"no ':' between '{name}' and its value"
            self.report(Mistake.PUNCTUATION, self.current, message, f"Write '{name}: ...'.")

    # -- values

    def parse_block(self, parent: Node, name: Token, schema: Any) -> None:
        node = Node(schema.name, name.line, name.column)
        parent.children.append(node)
        opened = self.current
        if opened.is_punctuation("{<"):
            self.take()
            self.mended.append(f"{schema.name} {{\n")
            self.parse_fields(node, schema.message_type, opened)
            self.mended.append("}\n")
        elif schema.message_type.name == "ModelParameter" and opened.kind in {
            TokenKind.STRING,
            TokenKind.NUMBER,
            TokenKind.NAME,
        }:
            self.take()
            quoted = opened.text if opened.kind is TokenKind.STRING else f'"{opened.text}"'
            self.mended.append(f"{schema.name} {{ string_value: {quoted} }}\n")
            message = f"parameter value {opened.text} stands without 'string_value'"
            self.report(Mistake.BARE_PARAMETER, opened, message, f"Write 'value: {{ string_value: {quoted} }}'.")
        else:
            self.refuse_value(opened, schema, "a message in braces")

    def parse_list(self, parent: Node, name: Token, schema: Any) -> None:
        opened = self.take()
        if not schema.is_repeated:
            message = f"'{schema.name}' takes one value, not a list"
            self.report(Mistake.WRONG_TYPE, opened, message, f"Write '{schema.name}' without '[' and ']'.")
        node = Node(schema.name, name.line, name.column)
        if schema.message_type is None:
            parent.children.append(node)
        while not self.current.is_punctuation("]"):
            token, before = self.current, self.position
            if token.kind is TokenKind.END or token.is_punctuation("}"):
                message = f"the list of '{schema.name}' is never closed"
                self.report(Mistake.UNBALANCED, opened, message, "Add the missing ']'.")
                return
            if schema.message_type is None:
                self.parse_scalar(node, schema)
            else:
                self.parse_block(parent, token if token.is_punctuation("{<") else name, schema)
            self.take_comma(schema)
            if self.position == before:
                self.take()
        self.take()

    def take_comma(self, schema: Any) -> None:
        if self.current.is_punctuation(","):
            comma = self.take()
            if self.current.is_punctuation("]"):
                message = f"comma after the last element of '{schema.name}'"
                fix = "Remove the comma; in a Jinja2 loop write '{{ \",\" if not loop.last }}'."
                self.report(Mistake.TRAILING_COMMA, comma, message, fix)
        elif not self.current.is_punctuation("]}") and self.current.kind is not TokenKind.END:
            message = f"no comma between two elements of '{schema.name}'"
            self.report(Mistake.PUNCTUATION, self.current, message, "Separate list elements by commas.")

    def parse_scalar(self, node: Node, schema: Any) -> None:
        token = self.current
        if token.is_punctuation("}],;") or token.kind is TokenKind.END:
            fix = f"Give '{schema.name}' a value or remove it."
            self.report(Mistake.OTHER, token, f"'{schema.name}' has no value", fix)
            return
        if token.is_punctuation("{<["):
            self.refuse_value(token, schema, "a plain value")
            return
        self.take()
        text = token.text
        kind = token.kind
        if token.is_punctuation("-") and self.current.kind in {TokenKind.NUMBER, TokenKind.NAME}:
            text, kind = text + self.take().text, TokenKind.NUMBER
        while kind is TokenKind.STRING and self.current.kind is TokenKind.STRING:
            text = f"{text} {self.take().text}"
        value = Token(kind, text, token.line, token.column)
        node.values.append(value)
        judgement = judge_scalar(value, schema)
        self.note(judgement.problem)
        self.lossy = self.lossy or judgement.mended is None
        self.mended.append(f"{schema.name}: {judgement.mended}\n")

    def refuse_value(self, token: Token, schema: Any, wanted: str) -> None:
        is_placeholder = token.kind is TokenKind.PLACEHOLDER
        self.note(placeholder_problem(token) if is_placeholder else type_problem(token, schema, wanted))
        self.lossy = True
        self.skip_value()

    def skip_value(self) -> None:
        """Steps over a value whose field is not understood, with all that is inside."""
        is_two_words = self.current.kind is TokenKind.NAME and self.following.is_punctuation("{:")
        if is_two_words or self.current.is_punctuation(":="):
            self.take()
        depth = 0
        while self.current.kind is not TokenKind.END:
            if self.current.is_punctuation("{[<"):
                depth += 1
            elif self.current.is_punctuation("}]>"):
                if depth == 0:
                    return
                depth -= 1
            self.take()
            if depth == 0:
                return
