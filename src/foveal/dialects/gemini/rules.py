"""Gemini: the reasons for which the API refuses a request.

Turns of the user and of the model alternate. The user turn after a model turn opens with one function response for each
function call, in the order of the calls. Keys are read in the spelling of the Python SDK and in that of the wire.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from foveal.dialects import rules as common
from foveal.dialects.gemini.spelling import camel_case
from foveal.dialects.json_values import elements, fields, mapping, sequence, string
from foveal.dialects.rules import RequestProblem, numbered, quote, shape

# The SDK's description of a function declaration gives this alphabet and 128 characters.
_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
IMAGES: Final = (common.IMAGE_TYPES - {"image/gif"}) | {"image/heic", "image/heif"}
_MODEL_VERSION: Final = re.compile(r"gemini-(\d{1,4})")
_MEDIA_IN_RESPONSES_SINCE: Final = 3
_ROLES: Final = ("user", "model")

# A part is a union: one of these keys is set, and the other keys of a part say something about it.
_KINDS: Final = (
    "text",
    "inline_data",
    "file_data",
    "function_call",
    "function_response",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
)


def _get(value: object, key: str) -> object:
    """Return the field in either spelling; unset and None are the same to the SDK."""
    node = fields(value)
    found = node.get(key)
    return node.get(camel_case(key)) if found is None else found


def problems(request: Mapping[str, Any], since: int = 0, *, signatures: bool = False) -> list[RequestProblem]:
    """Return the problems of the request; contents before `since` are known to be right.

    `signatures` asks for the thought signatures that Gemini 3 and later refuse to go without.
    """
    found: list[RequestProblem] = []
    if since <= 0:
        found += _config(request.get("config"))
    contents = request.get("contents")
    if isinstance(contents, str):  # the SDK makes one user turn of it
        return [*found, *common.text_problems(contents, "contents"), *common.value_problems(contents, "contents")]
    turns = sequence(contents)
    if not turns:
        return [*found, shape("contents", "a list of contents", contents)]
    since = min(max(since, 0), len(turns))
    media = _takes_media(request.get("model"))
    for index in range(since, len(turns)):
        where = f"contents[{index}]"
        found += _content(turns[index], where, media=media, signatures=signatures)
        found += _neighbours(turns, index, where)
    if since == 0:
        ids = (_call_ids(turn, where) for turn, where in numbered(turns, "contents"))
        found += common.repeated_id_problems(ids, "call id", "turn")
    found += _ending(turns)
    return found


def _takes_media(model: object) -> bool:
    """Return whether function responses may hold media; an unknown model gets the benefit of the doubt."""
    version = _MODEL_VERSION.search(string(model) or "")
    return version is None or int(version[1]) >= _MEDIA_IN_RESPONSES_SINCE


def _config(config: object) -> Iterator[RequestProblem]:
    instruction = _get(config, "system_instruction")
    yield from common.value_problems(instruction, "config.system_instruction")
    if isinstance(instruction, str):
        yield from common.text_problems(instruction, "config.system_instruction")
    named: list[tuple[object, str]] = []
    for tool, place in numbered(_get(config, "tools"), "config.tools"):
        yield from common.value_problems(tool, place)
        declarations = _get(tool, "function_declarations")
        for declaration, where in numbered(declarations, f"{place}.function_declarations"):
            named.append((_get(declaration, "name"), f"{where}.name"))
            yield from common.name_problems(*named[-1], _NAME)
            for key in ("parameters", "parameters_json_schema"):
                yield from common.schema_problems(_get(declaration, key), f"{where}.{key}")
    yield from common.unique_name_problems(named)


# One turn.


def _role(turn: object) -> object:
    role = fields(turn).get("role")
    return "user" if role is None else role  # as the SDK takes it


def _content(value: object, where: str, *, media: bool, signatures: bool) -> Iterator[RequestProblem]:
    turn = mapping(value)
    if turn is None or _role(turn) not in _ROLES:
        found = value if turn is None else _role(turn)
        yield shape(where, f"a content with one of the roles {', '.join(_ROLES)}", found)
        return
    yield from common.value_problems(turn, where)
    if not sequence(turn.get("parts")):
        yield RequestProblem("M8", f"{where}.parts", "A content has at least one part.")
        return
    for part, place in numbered(turn.get("parts"), f"{where}.parts"):
        yield from _part(part, place, media=media)
    yield from _calls(turn, where, signatures=signatures)


def _part(part: object, where: str, *, media: bool) -> Iterator[RequestProblem]:
    kinds = [kind for kind in _KINDS if _get(part, kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) or "nothing"
        yield RequestProblem("M8", where, f"A part holds exactly one thing, found {found}.")
        return
    kind = kinds[0]
    if kind == "text" and not (string(_get(part, "text")) or "").strip() and _get(part, "thought_signature"):
        return  # the signature is the content; the model sends such parts and wants them back
    if (check := _PARTS.get(kind)) is not None:
        yield from check(_get(part, kind), f"{where}.{kind}")
    if kind == "function_response" and not media and elements(_get(_get(part, kind), "parts")):
        yield RequestProblem("M11", f"{where}.{kind}.parts", "This model takes no media inside a function response.")


def _inline_data(blob: object, where: str) -> Iterator[RequestProblem]:
    media_type, data = _get(blob, "mime_type"), _get(blob, "data")
    if isinstance(media_type, str) and not media_type.startswith("image/"):
        yield from common.data_problems(data, where)  # sound, video and documents have types of their own
    else:
        yield from common.image_problems(media_type, data, where, IMAGES)


def _file_data(data: object, where: str) -> Iterator[RequestProblem]:
    if not string(_get(data, "file_uri")):
        yield shape(f"{where}.file_uri", "the address of a file", _get(data, "file_uri"))


def _function_call(call: object, where: str) -> Iterator[RequestProblem]:
    yield from common.name_problems(_get(call, "name"), f"{where}.name", _NAME)
    if (call_id := _get(call, "id")) is not None:
        yield from common.id_problems(call_id, f"{where}.id")
    if (args := _get(call, "args")) is not None and mapping(args) is None:
        yield RequestProblem("G5", f"{where}.args", f"The arguments are a JSON object, found {quote(args)}.")


def _function_response(response: object, where: str) -> Iterator[RequestProblem]:
    yield from common.name_problems(_get(response, "name"), f"{where}.name", _NAME)
    if (call_id := _get(response, "id")) is not None:
        yield from common.id_problems(call_id, f"{where}.id")
    if mapping(value := _get(response, "response")) is None:
        what = f'A function response is an object such as {{"output": …}}, found {quote(value)}.'
        yield RequestProblem("M10", f"{where}.response", what)
    for part, place in numbered(_get(response, "parts"), f"{where}.parts"):
        if (blob := _get(part, "inline_data")) is not None:
            yield from _inline_data(blob, f"{place}.inline_data")


_PARTS: Final[Mapping[str, Callable[[object, str], Iterator[RequestProblem]]]] = {
    "text": common.text_problems,
    "inline_data": _inline_data,
    "file_data": _file_data,
    "function_call": _function_call,
    "function_response": _function_response,
}


def _held(turn: object, where: str, kind: str) -> Iterator[tuple[object, str]]:
    """Yield the values of one kind among the parts, each with the place of its part."""
    for part, place in numbered(fields(turn).get("parts"), f"{where}.parts"):
        if (value := _get(part, kind)) is not None:
            yield value, place


def _call_ids(turn: object, where: str) -> Iterator[tuple[object, str]]:
    calls = _held(turn, where, "function_call")
    return ((_get(call, "id"), f"{place}.function_call.id") for call, place in calls)


def _calls(turn: Mapping[str, object], where: str, *, signatures: bool) -> Iterator[RequestProblem]:
    seen: set[str] = set()
    for call, place in _held(turn, where, "function_call"):
        if _role(turn) != "model":
            yield RequestProblem("M4", place, "A function call stands in a turn of the model.")
        if isinstance(call_id := _get(call, "id"), str):
            if call_id in seen:
                yield RequestProblem(
                    "G3", f"{place}.function_call.id", f"The call id {quote(call_id)} is used twice in this turn."
                )
            seen.add(call_id)
    if signatures and (unsigned := _unsigned_call(turn, where)) is not None:
        yield RequestProblem("M6", unsigned, "The first function call of a turn carries its thought signature.")


def _unsigned_call(turn: Mapping[str, object], where: str) -> str | None:
    for part, place in numbered(turn.get("parts"), f"{where}.parts"):
        if _get(part, "function_call") is not None:
            # Calls made in parallel share the signature of the first.
            return None if _get(part, "thought_signature") else place
    return None


# A turn and the one before it.


def _neighbours(turns: Sequence[object], index: int, where: str) -> Iterator[RequestProblem]:
    role = _role(turns[index])
    if index == 0 and role != "user":
        yield RequestProblem("M1", where, f"The first content is the user's, found {quote(role)}.")
    if index > 0 and role == _role(turns[index - 1]):
        yield RequestProblem("M3", where, f"Two contents of the {quote(role)} in a row; merge them.")
    yield from _pairing(turns, index, where)
    parts = elements(fields(turns[index]).get("parts"))
    kinds = [_get(part, "function_response") is not None for part in parts]
    if True in kinds and False in kinds[: kinds.count(True)]:
        yield RequestProblem(
            "M5", f"{where}.parts[{kinds.index(False)}]", "Function responses stand before every other part."
        )


def _pairing(turns: Sequence[object], index: int, where: str) -> Iterator[RequestProblem]:
    before = turns[index - 1] if index else None
    calls = [call for call, _ in _held(before, "", "function_call")]
    responses = list(_held(turns[index], where, "function_response"))
    if responses and _role(turns[index]) != "user":
        yield RequestProblem("M4", where, "Function responses stand in a turn of the user.")
    if len(calls) != len(responses):
        what = f"The turn before made {len(calls)} function calls, this one holds {len(responses)} function responses."
        yield RequestProblem("M4", where, what)
        return
    known = {(string(_get(call, "name")), string(_get(call, "id"))) for call in calls}
    for call, (response, place) in zip(calls, responses, strict=True):
        if _answers(call, response):
            continue
        name, call_id = string(_get(response, "name")), string(_get(response, "id"))
        if (name, call_id) in known:
            yield RequestProblem("M5", place, f"The response of {quote(name)} is not in the order of the calls.")
        else:
            yield RequestProblem(
                "M4", place, f"The response of {quote(name)} with the id {quote(call_id)} answers no call."
            )


def _answers(call: object, response: object) -> bool:
    ids = (_get(call, "id"), _get(response, "id"))
    # Ids are optional on both sides; names are not.
    return _get(call, "name") == _get(response, "name") and (None in ids or ids[0] == ids[1])


# The end of the list.


def _ending(turns: Sequence[object]) -> Iterator[RequestProblem]:
    where = "contents[-1]"
    if _role(turns[-1]) != "user":
        yield RequestProblem("M2", where, "The last content is the user's.")
    if calls := sum(1 for _ in _held(turns[-1], where, "function_call")):
        yield RequestProblem("M4", where, f"{calls} function calls have no function responses: the list ends.")
