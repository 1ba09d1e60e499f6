"""OpenAI Chat Completions: the reasons for which the API refuses a request.

An assistant message opens calls, the tool messages right after it answer them, and the next message of another role finds them
all answered. Nothing else in the list depends on a neighbour.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from foveal.dialects import rules as common
from foveal.dialects.json_values import elements, fields, mapping, sequence, string
from foveal.dialects.rules import RequestProblem, numbered, quote, shape

MAX_CALLS: Final = 128  # "array too long. Expected an array with maximum length 128"

# The content parts each role may send. A tool message carries text only; images of a result go into a user message.
_PARTS: Final[Mapping[str, frozenset[str]]] = {
    "system": frozenset({"text"}),
    "developer": frozenset({"text"}),
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": frozenset({"text"}),
    "function": frozenset({"text"}),
}


def problems(request: Mapping[str, Any], since: int = 0) -> list[RequestProblem]:
    """Return the problems of the request; messages before `since` are known to be right."""
    messages = sequence(request.get("messages"))
    if not messages:
        return [shape("messages", "a list of messages", request.get("messages"))]
    since = min(max(since, 0), len(messages))
    found: list[RequestProblem] = []
    if since == 0:
        found += _tools(request.get("tools"))
    calls = _Calls(set() if since == 0 else None)
    for index in range(_turn_start(messages, since), len(messages)):
        message = fields(messages[index])
        pairing = list(calls.step(message, index))
        if index >= since:
            found += pairing
            found += _message(messages[index], f"messages[{index}]")
    found += calls.unanswered("messages[-1]", "the list ends")
    return found


def _turn_start(messages: Sequence[object], since: int) -> int:
    """Return the index of the assistant message whose calls may still be open at `since`."""
    index = since
    while index > 0 and fields(messages[index - 1]).get("role") == "tool":
        index -= 1
    return max(index - 1, 0)


class _Calls:
    """The calls of the latest assistant message, and which of them are answered."""

    def __init__(self, seen: set[str] | None) -> None:
        self._seen = seen  # ids of the whole list; None when only its tail is checked
        self._pending: dict[str, str] = {}
        self._answered: set[str] = set()

    def step(self, message: Mapping[str, object], index: int) -> Iterator[RequestProblem]:
        where = f"messages[{index}]"
        if message.get("role") == "tool":
            yield from self._answer(message, where)
            return
        if self._pending:
            yield from self.unanswered(where, f"the {quote(message.get('role'))} message")
        self._pending, self._answered = {}, set()
        if message.get("role") == "assistant":
            for call, place in numbered(message.get("tool_calls"), f"{where}.tool_calls"):
                yield from self._open(fields(call).get("id"), place)

    def unanswered(self, where: str, before: str) -> Iterator[RequestProblem]:
        for call_id, call in self._pending.items():
            yield RequestProblem(
                "C1", where, f"The call {quote(call_id)} of {call} has no tool message before {before}."
            )

    def _open(self, call_id: object, where: str) -> Iterator[RequestProblem]:
        if not isinstance(call_id, str):
            return  # reported with the shape of the call
        if call_id in self._pending or (self._seen is not None and call_id in self._seen):
            yield RequestProblem("G3", f"{where}.id", f"The call id {quote(call_id)} is used twice.")
        self._pending[call_id] = where
        if self._seen is not None:
            self._seen.add(call_id)

    def _answer(self, message: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
        call_id = string(message.get("tool_call_id"))
        if not self._pending and not self._answered:
            yield RequestProblem(
                "C2", where, f"The tool message for {quote(call_id)} follows no assistant message with calls."
            )
        elif call_id is not None and call_id in self._pending:
            del self._pending[call_id]
            self._answered.add(call_id)
        else:
            why = "is answered already" if call_id in self._answered else "is not among the calls before it"
            yield RequestProblem("G1", f"{where}.tool_call_id", f"The call {quote(call_id)} {why}.")


def _message(value: object, where: str) -> Iterator[RequestProblem]:
    message = mapping(value)
    if message is None:
        yield shape(where, "a message", value)
        return
    role = string(message.get("role"))
    if role not in _PARTS:
        yield shape(f"{where}.role", f"one of {', '.join(_PARTS)}", message.get("role"))
        return
    yield from common.value_problems(message, where)
    yield from _content(message, role, f"{where}.content")
    if role == "tool":
        yield from common.id_problems(message.get("tool_call_id"), f"{where}.tool_call_id")
    if message.get("tool_calls") is not None:
        yield from _tool_calls(message, role, f"{where}.tool_calls")


def _content(message: Mapping[str, object], role: str, where: str) -> Iterator[RequestProblem]:
    content = message.get("content")
    # An assistant may say nothing when it acts; a tool may have nothing to say.
    silent = role == "assistant" and any(
        message.get(key) for key in ("tool_calls", "function_call", "audio", "refusal")
    )
    if content is None:
        if not silent:
            yield RequestProblem("C3", where, f"The {role} message has no content.")
    elif isinstance(content, str):
        if role != "tool" and not (silent and not content):
            yield from common.text_problems(content, where)
    elif (parts := sequence(content)) is None:
        yield RequestProblem("C3", where, f"Content is a string or a list of parts, found {quote(content)}.")
    elif not parts:
        yield RequestProblem("G6", where, "The list of content parts is empty.")
    else:
        for part, place in numbered(parts, where):
            yield from _part(part, role, place)


def _part(value: object, role: str, where: str) -> Iterator[RequestProblem]:
    part = fields(value)
    kind = string(part.get("type"))
    if kind not in _PARTS[role]:
        allowed = ", ".join(sorted(_PARTS[role]))
        yield RequestProblem("C3", where, f"A {role} message takes {allowed} parts, found {quote(part.get('type'))}.")
    elif kind == "text":
        yield from common.text_problems(part.get("text"), f"{where}.text")
    elif kind == "image_url":
        yield from common.image_url_problems(fields(part.get("image_url")).get("url"), f"{where}.image_url.url")


def _tool_calls(message: Mapping[str, object], role: str, where: str) -> Iterator[RequestProblem]:
    if role != "assistant":
        yield shape(where, "no tool_calls outside an assistant message", message.get("tool_calls"))
        return
    calls = elements(message.get("tool_calls"))
    if not 0 < len(calls) <= MAX_CALLS:
        yield RequestProblem("C7", where, f"A message makes 1 to {MAX_CALLS} calls, found {len(calls)}.")
    for value, place in numbered(calls, where):
        call = fields(value)
        yield from common.id_problems(call.get("id"), f"{place}.id")
        check = _CALLS.get(string(call.get("type")) or "")
        if check is None:
            yield shape(f"{place}.type", f"one of {', '.join(_CALLS)}", call.get("type"))
        else:
            yield from check(call, place)


def _function_call(call: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    function = fields(call.get("function"))
    yield from common.name_problems(function.get("name"), f"{where}.function.name")
    yield from common.argument_problems(function.get("arguments"), f"{where}.function.arguments", "C4")


def _custom_call(call: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    custom = fields(call.get("custom"))
    yield from common.name_problems(custom.get("name"), f"{where}.custom.name")
    if not isinstance(custom.get("input"), str):
        yield RequestProblem(
            "C4", f"{where}.custom.input", f"The input is a string, found {quote(custom.get('input'))}."
        )


_CALLS: Final[Mapping[str, Callable[[Mapping[str, object], str], Iterator[RequestProblem]]]] = {
    "function": _function_call,
    "custom": _custom_call,
}


def _tools(value: object) -> Iterator[RequestProblem]:
    if value is None:
        return
    tools = sequence(value)
    if not tools:
        yield shape("tools", "at least one tool, or no tools at all", value)
        return
    named: list[tuple[object, str]] = []
    for tool, where in numbered(tools, "tools"):
        yield from common.value_problems(tool, where)
        kind = string(fields(tool).get("type")) or ""
        definition = fields(fields(tool).get(kind)) if kind in _CALLS else None
        if definition is None:
            yield shape(f"{where}.type", f"one of {', '.join(_CALLS)}", fields(tool).get("type"))
            continue
        named.append((definition.get("name"), f"{where}.{kind}.name"))
        yield from common.name_problems(*named[-1])
        yield from common.schema_problems(definition.get("parameters"), f"{where}.{kind}.parameters")
    yield from common.unique_name_problems(named)
