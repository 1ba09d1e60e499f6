"""OpenAI Responses: the reasons for which the API refuses a request.

The input is a flat list of items. A stretch of items the model produced (reasoning, messages, calls) is followed by
the outputs of its calls; both together are a step. A step is over when the model produces again after an output, or
when anybody else speaks, and then every call has its output. Whether a call is open can be told from its step alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from foveal.dialects import rules as common
from foveal.dialects.json_values import fields, mapping, sequence, string
from foveal.dialects.rules import RequestProblem, numbered, quote, shape

# Calls the client executes, and the item that answers each.
_OUTPUT_OF: Final[Mapping[str, str]] = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
_OUTPUTS: Final = frozenset(_OUTPUT_OF.values())
_SEARCH: Final = frozenset({"tool_search_call", "tool_search_output"})  # paired only when the client executes them

# An id names a stored item, and its prefix says of which type.
_PREFIXES: Final[Mapping[str, str]] = {
    "message": "msg_",
    "reasoning": "rs_",
    "function_call": "fc_",
    "custom_tool_call": "ctc_",
    "function_call_output": "fc",
    "custom_tool_call_output": "ctc",
}
_ITEM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")

_INPUT_PARTS: Final = frozenset({"input_text", "input_image", "input_file", "input_audio"})
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "user": _INPUT_PARTS,
    "system": _INPUT_PARTS,
    "developer": _INPUT_PARTS,
    "assistant": frozenset({"output_text", "refusal"}),
}
_OUTPUT_PARTS: Final = frozenset({"input_text", "input_image", "input_file"})

# Items that neither the model produced nor a tool returned.
_OTHERS: Final = frozenset(
    {"compaction", "compaction_trigger", "additional_tools", "configuration_update", "mcp_approval_response"}
)
_Part = Literal["model", "output", "other"]


def problems(request: Mapping[str, Any], since: int = 0) -> list[RequestProblem]:
    """Return the problems of the request; items before `since` are known to be right."""
    found: list[RequestProblem] = []
    if since <= 0:
        found += common.value_problems(request.get("instructions"), "instructions")
        found += _tools(request.get("tools"), "tools")
    given = request.get("input")
    if isinstance(given, str):
        return [*found, *common.text_problems(given, "input"), *common.value_problems(given, "input")]
    items = sequence(given)
    # Items that the server has stored may hold the call that an output answers, or replace the whole input.
    stored = any(request.get(key) is not None for key in ("previous_response_id", "conversation", "prompt"))
    if items is None or not (items or stored):
        return [*found, shape("input", "a list of items", given)]
    return found + _list_problems(items, min(max(since, 0), len(items)), stored=stored)


def _list_problems(items: Sequence[object], since: int, *, stored: bool) -> list[RequestProblem]:
    found: list[RequestProblem] = []
    step = _Step(set() if since == 0 else None, stored=stored)
    ids: set[str] = set()
    for index in range(_step_start(items, since), len(items)):
        where = f"input[{index}]"
        item = fields(items[index])
        sequel = list(step.take(item, where))
        if index >= since:
            found += sequel
            found += _item(items[index], where)
        if since == 0 and isinstance(item_id := item.get("id"), str) and _type(item) != "item_reference":
            if item_id in ids:
                found.append(RequestProblem("G3", f"{where}.id", f"The item id {quote(item_id)} is used twice."))
            ids.add(item_id)
    found += step.finish()
    return found


def _type(item: Mapping[str, object]) -> str:
    kind = item.get("type")
    if kind is None:  # the two kinds of item whose type may be left out
        return "message" if "role" in item else "item_reference"
    return kind if isinstance(kind, str) else ""


def _is_paired(item: Mapping[str, object]) -> bool:
    return _type(item) not in _SEARCH or item.get("execution") == "client"


def _part_in_step(item: Mapping[str, object]) -> _Part:
    kind = _type(item)
    if kind in _OUTPUTS and _is_paired(item):
        return "output"
    if (kind == "message" and item.get("role") != "assistant") or kind in _OTHERS:
        return "other"
    return "model"


def _step_start(items: Sequence[object], since: int) -> int:
    """Return the index of the first item of the step that holds the item before `since`."""
    index = max(since - 1, 0)
    while index > 0 and _part_in_step(fields(items[index])) == "output":
        index -= 1
    while index > 0 and _part_in_step(fields(items[index])) == _part_in_step(fields(items[index - 1])) == "model":
        index -= 1
    return index


class _Step:
    """The calls that are open, and the reasoning that still waits for the item it led to."""

    def __init__(self, seen: set[str] | None, *, stored: bool) -> None:
        self._seen = seen  # call ids of the whole list; None when only its tail is checked
        self._stored = stored
        self._reasoning: str | None = None
        self._begin()

    def _begin(self) -> None:
        self._pending: dict[tuple[str, str], str] = {}
        self._answered: set[tuple[str, str]] = set()
        self._answering = False
        self._referring = False

    def take(self, item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
        yield from self._follow(item, where)
        part = _part_in_step(item)
        if part == "other" or (part == "model" and self._answering):
            yield from self._unanswered(where, quote(_type(item)))
            self._begin()
        if part == "output":
            self._answering = True
            yield from self._answer(item, where)
        elif _type(item) in _OUTPUT_OF and _is_paired(item):
            yield from self._open(item, where)
        elif _type(item) == "item_reference":
            self._referring = True

    def finish(self) -> Iterator[RequestProblem]:
        yield from self._unanswered("input[-1]", "the list ends")
        if self._reasoning is not None:
            yield RequestProblem("R3", "input[-1]", f"The reasoning of {self._reasoning} is followed by nothing.")

    def _follow(self, item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
        if _type(item) == "reasoning":
            self._reasoning = where
        elif self._reasoning is not None:
            if _part_in_step(item) != "model":
                what = f"The reasoning of {self._reasoning} is followed by {quote(_type(item))}, not by what it led to."
                yield RequestProblem("R3", where, what)
            self._reasoning = None

    def _unanswered(self, where: str, before: str) -> Iterator[RequestProblem]:
        for (kind, call_id), call in self._pending.items():
            rule = "R2" if kind == "function_call_output" else "R6"
            yield RequestProblem(rule, where, f"The call {quote(call_id)} of {call} has no {kind} before {before}.")

    def _open(self, item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
        call_id = item.get("call_id")
        if not isinstance(call_id, str):
            return  # reported with the shape of the item
        key = (_OUTPUT_OF[_type(item)], call_id)
        if key in self._pending or (self._seen is not None and call_id in self._seen):
            yield RequestProblem("G3", f"{where}.call_id", f"The call id {quote(call_id)} is used twice.")
        self._pending[key] = where
        if self._seen is not None:
            self._seen.add(call_id)

    def _answer(self, item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
        kind, call_id = _type(item), _answered_id(item)
        key = (kind, call_id or "")
        if key in self._pending:
            del self._pending[key]
            self._answered.add(key)
        elif key in self._answered:
            yield RequestProblem("G1", where, f"The call {quote(call_id)} has an output already.")
        elif not (self._stored or self._referring):
            rule = "R1" if kind == "function_call_output" else "R6"
            yield RequestProblem(rule, where, f"The {kind} for {quote(call_id)} has no call right before it.")


def _answered_id(item: Mapping[str, object]) -> str | None:
    # The SDK types of a local shell output have no call_id; its id is that of the call.
    key = "id" if _type(item) == "local_shell_call_output" and "call_id" not in item else "call_id"
    return string(item.get(key))


def _item(value: object, where: str) -> Iterator[RequestProblem]:
    item = mapping(value)
    if item is None or not _type(item):
        yield shape(where, "an item with a type or a role", value)
        return
    kind = _type(item)
    yield from common.value_problems(item, where)
    yield from _item_id(item.get("id"), _PREFIXES.get(kind), f"{where}.id")
    if kind in _OUTPUTS and _is_paired(item):
        yield from common.id_problems(_answered_id(item), f"{where}.call_id")
    elif kind in _OUTPUT_OF and _is_paired(item):
        yield from common.id_problems(item.get("call_id"), f"{where}.call_id")
    if (check := _ITEMS.get(kind)) is not None:
        yield from check(item, where)


def _item_id(value: object, prefix: str | None, where: str) -> Iterator[RequestProblem]:
    if value is None or prefix is None:
        return
    if not isinstance(value, str) or _ITEM_ID.fullmatch(value) is None:
        yield RequestProblem(
            "R4", where, f"An item id is 1 to {common.ID_LENGTH} letters, digits or underscores, found {quote(value)}."
        )
    elif not value.startswith(prefix):
        yield RequestProblem(
            "R4", where, f"The item id {quote(value)} does not start with {prefix}; leave foreign ids out."
        )


def _message(item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    role = string(item.get("role"))
    if role not in _PARTS:
        yield shape(f"{where}.role", f"one of {', '.join(_PARTS)}", item.get("role"))
        return
    content = item.get("content")
    if isinstance(content, str):
        yield from common.text_problems(content, f"{where}.content")
        return
    if not sequence(content):
        yield RequestProblem("G6", f"{where}.content", f"The {role} message has no content.")
    for part, place in numbered(content, f"{where}.content"):
        if string(fields(part).get("type")) not in _PARTS[role]:
            yield shape(f"{place}.type", f"one of {', '.join(sorted(_PARTS[role]))}", fields(part).get("type"))
        else:
            yield from _part(fields(part), place)


def _part(part: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    match part.get("type"):
        case "input_text":
            yield from common.text_problems(part.get("text"), f"{where}.text")
        case "output_text" if not isinstance(part.get("text"), str):  # the model's own empty text goes back as it came
            yield shape(f"{where}.text", "a string", part.get("text"))
        case "input_image" if part.get("file_id") is None:
            yield from common.image_url_problems(part.get("image_url"), f"{where}.image_url")
        case _:
            pass


def _reasoning(item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    if sequence(item.get("summary")) is None:
        yield shape(f"{where}.summary", "a list, which may be empty", item.get("summary"))


def _function_call(item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    yield from common.name_problems(item.get("name"), f"{where}.name")
    yield from common.argument_problems(item.get("arguments"), f"{where}.arguments")


def _custom_call(item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    yield from common.name_problems(item.get("name"), f"{where}.name")
    if not isinstance(item.get("input"), str):
        yield shape(f"{where}.input", "a string", item.get("input"))


def _output(item: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    output = item.get("output")
    if isinstance(output, str):  # empty is fine: a tool may have nothing to say
        return
    if sequence(output) is None:
        yield RequestProblem(
            "R8", f"{where}.output", f"An output is a string or a list of parts, found {quote(output)}."
        )
    for value, place in numbered(output, f"{where}.output"):
        part = fields(value)
        if string(part.get("type")) not in _OUTPUT_PARTS:
            allowed = ", ".join(sorted(_OUTPUT_PARTS))
            yield RequestProblem("R8", place, f"An output holds {allowed} parts, found {quote(part.get('type'))}.")
        elif part.get("type") == "input_image":
            yield from _part(part, place)


_ITEMS: Final[Mapping[str, Callable[[Mapping[str, object], str], Iterator[RequestProblem]]]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
}


def _tools(value: object, where: str) -> Iterator[RequestProblem]:
    if value is None:
        return
    if sequence(value) is None:
        yield shape(where, "a list of tools", value)
    named: list[tuple[object, str]] = []
    for definition, place in numbered(value, where):
        tool = fields(definition)
        if where == "tools":  # nested tools are walked with the namespace that holds them
            yield from common.value_problems(tool, place)
        if tool.get("type") not in ("function", "custom", "namespace"):
            continue  # tools the server runs have no names to check
        named.append((tool.get("name"), f"{place}.name"))
        yield from common.name_problems(*named[-1])
        yield from common.schema_problems(tool.get("parameters"), f"{place}.parameters")
        if tool.get("type") == "namespace" and where == "tools":  # namespaces do not nest
            yield from _tools(tool.get("tools"), f"{place}.tools")
    yield from common.unique_name_problems(named)
