"""Anthropic Messages: the reasons for which the API refuses a request.

Two neighbours decide most of it: the user message right after an assistant message opens with one result for each of
its tool uses. Cache marks are the one thing counted over the whole request, in the order tools, system, messages.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from foveal.dialects import rules as common
from foveal.dialects.json_values import elements, fields, mapping, sequence, string
from foveal.dialects.rules import RequestProblem, numbered, quote, shape

MAX_MESSAGES: Final = 100_000
MAX_BYTES: Final = 32_000_000  # of the body; above it the API answers 413 request_too_large
MAX_CACHE_MARKS: Final = 4
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")  # as the API's own refusal prints it
_ROLES: Final = ("user", "assistant", "system")
_THINKING: Final = frozenset({"thinking", "redacted_thinking"})
_TTLS: Final = (None, "5m", "1h")

# The rule that a block breaks in a message of another role than its own.
_HOME: Final[Mapping[str, tuple[str, str]]] = {
    "tool_use": ("assistant", "A2"),
    "server_tool_use": ("assistant", "A2"),
    "thinking": ("assistant", "A5"),
    "redacted_thinking": ("assistant", "A5"),
    "compaction": ("assistant", "A12"),
    "tool_result": ("user", "A2"),
}
_SYSTEM_BLOCKS: Final = frozenset({"text", "tool_addition", "tool_removal"})


def problems(request: Mapping[str, Any], since: int = 0) -> list[RequestProblem]:
    """Return the problems of the request; messages before `since` are known to be right."""
    messages = sequence(request.get("messages"))
    if not messages:
        return [shape("messages", "a list of messages", request.get("messages"))]
    since = min(max(since, 0), len(messages))
    found: list[RequestProblem] = []
    if since == 0:
        found += _head(request, messages)
    if len(messages) > MAX_MESSAGES:
        found.append(
            RequestProblem("A13", "messages", f"At most {MAX_MESSAGES} messages are taken, found {len(messages)}.")
        )
    for index in range(since, len(messages)):
        where = f"messages[{index}]"
        found += _message(messages[index], where)
        found += _neighbours(messages, index, where)
    found += _ending(messages)
    found += _loop_thinking(request, messages, since)
    found += _cache_marks(request, messages, since)
    return found


def _head(request: Mapping[str, object], messages: Sequence[object]) -> Iterator[RequestProblem]:
    """Yield the problems of tools and system prompt, and those that only a look at all messages can tell."""
    yield from _tools(request.get("tools"))
    system = request.get("system")
    yield from common.value_problems(system, "system")
    if isinstance(system, str):
        yield from common.text_problems(system, "system")
    for block, place in numbered(system, "system"):
        yield from common.text_problems(fields(block).get("text"), f"{place}.text")
        yield from _cache_mark(fields(block), place)
    ids = (_use_ids(message, where) for message, where in numbered(messages, "messages"))
    yield from common.repeated_id_problems(ids, "tool use id", "message")
    if (size := common.least_bytes([system, request.get("tools"), messages])) > MAX_BYTES:
        yield RequestProblem(
            "A13", "messages", f"The strings alone take {size} bytes; the limit of a body is {MAX_BYTES}."
        )


def _tools(value: object) -> Iterator[RequestProblem]:
    named: list[tuple[object, str]] = []
    for definition, where in numbered(value, "tools"):
        tool = fields(definition)
        yield from common.value_problems(tool, where)
        if tool.get("type") in (None, "custom"):
            yield from common.name_problems(tool.get("name"), f"{where}.name", _TOOL_NAME)
            yield from common.schema_problems(tool.get("input_schema"), f"{where}.input_schema", required=True)
        yield from _cache_mark(tool, where)
        named.append((tool.get("name"), f"{where}.name"))
    yield from common.unique_name_problems(named)


# One message.


def _message(value: object, where: str) -> Iterator[RequestProblem]:
    message = mapping(value)
    role = string(message.get("role")) if message is not None else None
    if message is None or role not in _ROLES:
        yield shape(where, f"a message with one of the roles {', '.join(_ROLES)}", value if message is None else role)
        return
    yield from common.value_problems(message, where)
    content = message.get("content")
    if isinstance(content, str):
        yield from common.text_problems(content, f"{where}.content")
        return
    if not sequence(content):
        yield RequestProblem("G6", f"{where}.content", f"The {role} message has no content.")
        return
    for block, place in numbered(content, f"{where}.content"):
        yield from _block(block, role, place)
    seen: set[object] = set()
    for use_id, place in _use_ids(message, where):
        if isinstance(use_id, str):
            if use_id in seen:
                yield RequestProblem("G3", place, f"The tool use id {quote(use_id)} is used twice in this message.")
            seen.add(use_id)


def _block(value: object, role: str, where: str) -> Iterator[RequestProblem]:
    block = fields(value)
    kind = string(block.get("type"))
    if kind is None:
        yield shape(where, "a content block with a type", value)
        return
    home, rule = _HOME.get(kind, (role, ""))
    if home != role:
        yield RequestProblem(
            rule, where, f"A {kind} block belongs in a message of the {home}, found it in one of the {role}."
        )
    if role == "system" and kind not in _SYSTEM_BLOCKS:
        yield RequestProblem("A11", where, f"A system message in the list takes text, found {kind}.")
    yield from _cache_mark(block, where)
    if (check := _BLOCKS.get(kind)) is not None:
        yield from check(block, where)


def _text(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    yield from common.text_problems(block.get("text"), f"{where}.text")


def _image(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    source = fields(block.get("source"))
    place = f"{where}.source"
    match source.get("type"):
        case "base64":
            yield from common.image_problems(source.get("media_type"), source.get("data"), place)
        case "url" | "file":
            pass
        case other:
            yield RequestProblem("G15", place, f"An image comes from base64, url or file, found {quote(other)}.")


def _document(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    source = fields(block.get("source"))
    if source.get("type") == "base64":
        yield from common.data_problems(source.get("data"), f"{where}.source")


def _thinking(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    # The thinking itself may be empty: some models send only the signature.
    if not isinstance(block.get("thinking"), str):
        yield shape(f"{where}.thinking", "a string", block.get("thinking"))
    if not (string(block.get("signature")) or "").strip():
        yield RequestProblem("A5", f"{where}.signature", "The thinking has no signature; leave the block out.")


def _redacted_thinking(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    if not string(block.get("data")):
        yield RequestProblem("A5", f"{where}.data", "The redacted thinking has no data; leave the block out.")


def _tool_use(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    yield from _call_id(block.get("id"), f"{where}.id")
    yield from common.name_problems(block.get("name"), f"{where}.name", _TOOL_NAME)
    if mapping(block.get("input")) is None:
        yield RequestProblem("G5", f"{where}.input", f"The input is a JSON object, found {quote(block.get('input'))}.")


def _tool_result(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    yield from _call_id(block.get("tool_use_id"), f"{where}.tool_use_id")
    content = block.get("content")
    if content is None or isinstance(content, str):  # empty is fine: a tool may have nothing to say
        return
    if sequence(content) is None:
        yield shape(f"{where}.content", "a string or a list of blocks", content)
    for inner, place in numbered(content, f"{where}.content"):
        kind = fields(inner).get("type")
        if kind in ("tool_use", "tool_result"):
            yield shape(place, "text, images or documents in a tool result", kind)
            continue
        if block.get("is_error") is True and kind != "text":
            yield RequestProblem("A8", place, f"The result of a failed tool is text only, found {quote(kind)}.")
        yield from _block(inner, "user", place)


def _compaction(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    content = block.get("content")
    if content is not None and not string(content):  # null is the content of a compaction that failed
        yield RequestProblem("A12", f"{where}.content", "The compaction is empty; send it as it came, or null.")


_BLOCKS: Final[Mapping[str, Callable[[Mapping[str, object], str], Iterator[RequestProblem]]]] = {
    "text": _text,
    "image": _image,
    "document": _document,
    "thinking": _thinking,
    "redacted_thinking": _redacted_thinking,
    "tool_use": _tool_use,
    "server_tool_use": _tool_use,
    "tool_result": _tool_result,
    "compaction": _compaction,
}


def _call_id(value: object, where: str) -> Iterator[RequestProblem]:
    if not isinstance(value, str) or _CALL_ID.fullmatch(value) is None:
        yield RequestProblem("A4", where, f"The id {quote(value)} does not match {_CALL_ID.pattern}.")


# A message and the one before it.


def _role(messages: Sequence[object], index: int) -> object:
    return fields(messages[index]).get("role")


def _blocks(message: object, where: str, kind: str) -> Iterator[tuple[Mapping[str, object], str]]:
    for value, place in numbered(fields(message).get("content"), f"{where}.content"):
        if (block := fields(value)).get("type") == kind:
            yield block, place


def _uses(message: object, where: str) -> Iterator[tuple[Mapping[str, object], str]]:
    return _blocks(message, where, "tool_use")


def _use_ids(message: object, where: str) -> Iterator[tuple[object, str]]:
    return ((use.get("id"), f"{place}.id") for use, place in _uses(message, where))


def _neighbours(messages: Sequence[object], index: int, where: str) -> Iterator[RequestProblem]:
    role = _role(messages, index)
    before = _role(messages, index - 1) if index else None
    if role == "system":
        if before != "user":
            yield RequestProblem("A11", where, "A system message in the list follows a user message.")
    elif before == "system":
        if role != "assistant":
            yield RequestProblem("A11", where, "After a system message in the list the assistant speaks.")
    elif index == 0 and role != "user":
        yield RequestProblem("A1", where, f"The first message is the user's, found {quote(role)}.")
    elif role == before:
        yield RequestProblem("A1", where, f"Two messages of the {quote(role)} in a row; merge them.")
    yield from _pairing(messages, index, where)


def _pairing(messages: Sequence[object], index: int, where: str) -> Iterator[RequestProblem]:
    before = messages[index - 1] if index else None
    uses = _uses(before, f"messages[{index - 1}]")
    open_uses = {use_id: place for use, place in uses if isinstance(use_id := use.get("id"), str)}
    waiting = dict(open_uses)
    results = list(_blocks(messages[index], where, "tool_result"))
    for result, place in results:
        use_id = string(result.get("tool_use_id"))
        if use_id is not None and use_id in waiting:
            del waiting[use_id]
        else:
            why = "is answered twice" if use_id in open_uses else "is not in the message before"
            yield RequestProblem("A3", f"{place}.tool_use_id", f"The tool use {quote(use_id)} {why}.")
    for use_id, place in waiting.items():
        yield RequestProblem("A3", where, f"The tool use {quote(use_id)} of {place} has no result in this message.")
    content = elements(fields(messages[index]).get("content"))
    leading = next((i for i, block in enumerate(content) if fields(block).get("type") != "tool_result"), len(content))
    if leading < len(results):
        yield RequestProblem("A2", f"{where}.content[{leading}]", "Tool results stand before every other block.")


# The end of the list.


def _ending(messages: Sequence[object]) -> Iterator[RequestProblem]:
    where = "messages[-1]"
    last = fields(messages[-1])
    if last.get("role") != "assistant":
        return
    yield RequestProblem("A7", where, "The last message is the assistant's; newer models and thinking take no prefill.")
    for use, place in _uses(last, where):
        yield RequestProblem(
            "A3", where, f"The tool use {quote(use.get('id'))} of {place} has no result: the list ends."
        )
    content = last.get("content")
    final = content if isinstance(content, str) else fields((elements(content) or (None,))[-1]).get("text")
    if isinstance(final, str) and final != final.rstrip():
        yield RequestProblem("A9", where, "The final assistant text ends in white space.")


def _answers(messages: Sequence[object], index: int) -> bool:
    return any(_blocks(messages[index], "", "tool_result"))


def _past_system(messages: Sequence[object], index: int) -> int:
    return index - 1 if index > 0 and _role(messages, index) == "system" else index


def _loop_thinking(request: Mapping[str, object], messages: Sequence[object], since: int) -> Iterator[RequestProblem]:
    """Yield a problem if the assistant message that opened the running tool loop lacks thinking, which a budget demands."""
    if fields(request.get("thinking")).get("type") != "enabled":
        return
    index, first = _past_system(messages, len(messages) - 1), None
    while index > since and _answers(messages, index):
        first = index - 1
        index = _past_system(messages, first - 1)
    if first is None or (index >= 0 and _answers(messages, index)):
        return  # no loop is running, or it began before the messages that are new
    opening = fields(next(iter(elements(fields(messages[first]).get("content"))), None)).get("type")
    if string(opening) not in _THINKING:
        where = f"messages[{first}].content[0]"
        yield RequestProblem("A5", where, f"The running tool loop starts with its thinking, found {quote(opening)}.")


# Cache marks.


def _cache_mark(block: Mapping[str, object], where: str) -> Iterator[RequestProblem]:
    if block.get("cache_control") is None:
        return
    mark = fields(block.get("cache_control"))
    place = f"{where}.cache_control"
    if mark.get("type") != "ephemeral" or mark.get("ttl") not in _TTLS:
        yield RequestProblem("A10", place, "A cache mark is ephemeral, with a ttl of 5m or 1h.")
    if string(block.get("type")) in _THINKING:
        yield RequestProblem("A10", place, "A thinking block takes no cache mark.")
    elif block.get("type") == "text" and not (string(block.get("text")) or "").strip():
        yield RequestProblem("A10", place, "An empty text block takes no cache mark.")


def _marked(values: object, where: str, *, is_inner: bool = False) -> Iterator[tuple[object, str]]:
    """Yield the ttl and place of every cache mark on the blocks, and on the inner blocks of their tool results."""
    for value, place in numbered(values, where):
        block = fields(value)
        if block.get("type") == "tool_result" and not is_inner:
            yield from _marked(block.get("content"), f"{place}.content", is_inner=True)
        if (mark := mapping(block.get("cache_control"))) is not None:
            yield mark.get("ttl"), f"{place}.cache_control"


def _cache_marks(request: Mapping[str, object], messages: Sequence[object], since: int) -> Iterator[RequestProblem]:
    marks: list[tuple[object, str]] = []
    if since == 0:
        marks += [*_marked(request.get("tools"), "tools"), *_marked(request.get("system"), "system")]
    for index in range(since, len(messages)):
        marks += _marked(fields(messages[index]).get("content"), f"messages[{index}].content")
    if (mark := mapping(request.get("cache_control"))) is not None:
        marks.append((mark.get("ttl"), "cache_control"))  # the API puts this one on the last block by itself
    if len(marks) > MAX_CACHE_MARKS:
        what = f"At most {MAX_CACHE_MARKS} cache marks are taken, found {len(marks)}."
        yield RequestProblem("A10", marks[MAX_CACHE_MARKS][1], what)
    short = False
    for ttl, where in marks:
        if ttl == "1h" and short:
            yield RequestProblem("A10", where, "A cache mark of one hour stands after one of five minutes.")
        short = short or ttl != "1h"
