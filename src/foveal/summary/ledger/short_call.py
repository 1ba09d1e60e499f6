"""A call small enough to be carried until its result comes."""

import json
from typing import Any, cast

from foveal.summary.ledger.events import Fields
from foveal.text.calls.read_tools import fields_of
from foveal.values.entry import ToolCall

_WHOLE_CHARS, _VALUE_CHARS, _MOST_FIELDS = 700, 300, 12


def slim(call: ToolCall, fields: Fields) -> tuple[str, Fields]:
    """The arguments as JSON text and as fields, with long values cut and deep ones left out."""
    if len(call.arguments) <= _WHOLE_CHARS:
        return call.arguments, fields
    kept = {key: value for key, value in map(_short, list(fields.items())[:_MOST_FIELDS]) if value is not None}
    text = json.dumps(kept)
    return text, fields_of(ToolCall(call.id, call.name, text))


def _short(field: tuple[str, Any]) -> tuple[str, Any]:
    key, value = field[0][:40], field[1]
    if isinstance(value, list):
        small = [item for item in cast("list[object]", value) if isinstance(item, str) and len(item) <= 80]
        return key, small[:6] or None
    return key, value[:_VALUE_CHARS] if isinstance(value, str) else value if isinstance(value, int | bool) else None
