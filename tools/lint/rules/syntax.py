"""Rules on the text of config.pbtxt: one per known way to get protobuf text format wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tools.lint.findings import Place, Severity
from tools.lint.mistakes import Mistake
from tools.lint.registry import Check, Problem, Scope, rule
from tools.lint.repository import Model, Workspace


def _syntax_rule(rule_id: str, slug: str, mistake: Mistake, *, reason: str, fix: str) -> Check:
    def check(model: Model, _: Workspace) -> Iterator[Problem]:
        for file in [model.config_file, *model.alternatives]:
            for problem in file.problems if file is not None else ():
                if file is not None and problem.mistake is mistake:
                    yield Problem(problem.message, Place(file.path, problem.line, problem.column), problem.fix)

    register: Callable[[Check], Check] = rule(rule_id, slug, Scope.MODEL, Severity.ERROR, reason=reason, fix=fix)
    return register(check)


text_format = _syntax_rule(
    "TL200",
    "text-format",
    Mistake.OTHER,
    reason="Triton refuses a config.pbtxt that is not valid protobuf text format.",
    fix="Correct the text at this place.",
)
blank_in_field_name = _syntax_rule(
    "TL201",
    "blank-in-field-name",
    Mistake.BLANK_IN_NAME,
    reason="Field names are single words: 'dynamic batching' is read as an unknown field 'dynamic'.",
    fix="Write the name with an underscore.",
)
unknown_field = _syntax_rule(
    "TL202",
    "unknown-field",
    Mistake.UNKNOWN_FIELD,
    reason="A field that the schema does not have makes Triton refuse the whole file.",
    fix="Correct the name, or remove the field.",
)
quoted_enum = _syntax_rule(
    "TL203",
    "quoted-enum",
    Mistake.QUOTED_ENUM,
    reason="Enum values are bare words; in quotes they are text, which does not parse.",
    fix="Remove the quotes.",
)
unknown_enum_value = _syntax_rule(
    "TL204",
    "unknown-enum-value",
    Mistake.UNKNOWN_ENUM,
    reason="Enum values are matched exactly, in upper case.",
    fix="Write one of the schema's values.",
)
parameter_without_string_value = _syntax_rule(
    "TL205",
    "parameter-without-string-value",
    Mistake.BARE_PARAMETER,
    reason="The value of a parameter is a message with the field 'string_value'.",
    fix="Write 'value: { string_value: \"...\" }'.",
)
scalar_given_twice = _syntax_rule(
    "TL206",
    "field-given-twice",
    Mistake.REPEATED_SCALAR,
    reason="A field that is not repeated may be given once; a loop in a template easily writes it twice.",
    fix="Keep one.",
)
trailing_comma = _syntax_rule(
    "TL207",
    "trailing-comma",
    Mistake.TRAILING_COMMA,
    reason="Text format has no comma after the last element of a list.",
    fix="Remove the comma.",
)
exclusive_fields = _syntax_rule(
    "TL208",
    "exclusive-fields",
    Mistake.SECOND_OF_ONEOF,
    reason="A model has one scheduler and one version policy; the schema makes the choices exclude each other.",
    fix="Keep one of them.",
)
wrong_value_type = _syntax_rule(
    "TL209",
    "wrong-value-type",
    Mistake.WRONG_TYPE,
    reason="Text needs quotes; numbers and true or false must not have them.",
    fix="Write the value as the schema's type.",
)
unbalanced_braces = _syntax_rule(
    "TL210",
    "unbalanced-braces",
    Mistake.UNBALANCED,
    reason="An open brace swallows the rest of the file.",
    fix="Close every brace and bracket.",
)
json_syntax = _syntax_rule(
    "TL211",
    "json-syntax",
    Mistake.JSON,
    reason="config.pbtxt is protobuf text format, not JSON.",
    fix="Drop the outer braces and the quotes around field names.",
)
slash_comment = _syntax_rule(
    "TL212",
    "slash-comment",
    Mistake.SLASH_COMMENT,
    reason="Text format knows no '//' comments.",
    fix="Start comments with '#'.",
)
invalid_escape = _syntax_rule(
    "TL215",
    "invalid-escape",
    Mistake.ESCAPE,
    reason="In a string a backslash starts an escape sequence; Triton refuses one that it does not know.",
    fix="Double the backslash.",
)
punctuation = _syntax_rule(
    "TL213",
    "punctuation",
    Mistake.PUNCTUATION,
    reason="A plain field is 'name: value'; list elements are separated by commas.",
    fix="Add or correct the punctuation.",
)
unrendered_template = _syntax_rule(
    "TL214",
    "unrendered-template",
    Mistake.PLACEHOLDER,
    reason="The file is a template that was copied instead of rendered: 'Expected integer, got: $'.",
    fix="Render the template before Triton reads the file, with undefined variables as errors.",
)
