"""Gemini, filtered: replies and streams without the calls to own tools.

Each chunk of a stream is a reply with the next parts. Chunks keep the id of the first round, and the reason for which a round
ended is sent once, at the end of the last. Clients run texts together: a blank line is put between those of two rounds. Every
chunk may count tokens: the output of the earlier rounds is added to each of a later one.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foveal.dialects.gemini.read import either
from foveal.dialects.gemini.spelling import both_spellings, camel_case
from foveal.dialects.gemini.stream import add_part
from foveal.dialects.hiding import gap_between, join_usage, with_json
from foveal.dialects.json_values import JsonObject, elements, fields, mapping
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_MADE = tuple(sorted(both_spellings("candidates_token_count", "thoughts_token_count")))
_FRAME = frozenset({"content", "index"})
_ENDED = "STOP"
"""Reason of a reply whose calls are whole."""


class GeminiFilter:
    """Hides the calls to own tools."""

    def __init__(self, own: frozenset[str], request: Mapping[str, Any]) -> None:
        self._own = own
        self._earlier: Wire | None = None
        self._begin("")

    def _begin(self, text: str) -> None:
        self.tail: list[SseEvent] = []
        self._own_calls = self._other_calls = 0
        self._is_in_own = False
        self._is_ending = False
        self._text_before = text

    def hide(self, body: Wire) -> Wire:
        candidates = elements(body.get("candidates"))
        shown = [self._hidden_in(fields(candidate)) for candidate in candidates]
        return body if shown == [*candidates] else {**body, "candidates": shown}

    def _hidden_in(self, candidate: JsonObject) -> JsonObject:
        parts = _parts(candidate)
        kept = [part for part in parts if not self._is_own(part)]
        return candidate if len(kept) == len(parts) else _with_parts(candidate, _run_together(kept))

    def join(self, earlier: Wire, later: Wire) -> Wire:
        said = _parts(fields(next(iter(elements(earlier.get("candidates"))), None)))
        first = {key: earlier[key] for key in ("responseId", "response_id") if key in earlier}
        candidates: list[JsonObject] = []
        for candidate in map(fields, elements(later.get("candidates"))):
            added, _ = _spaced(_parts(candidate), _text(said))
            candidates.append(_with_parts(candidate, _run_together([*said, *added])))
        return {**later, **first, "candidates": candidates, **_usage(earlier, later)}

    def asks_again(self, body: Wire) -> bool:
        candidate = fields(next(iter(elements(body.get("candidates"))), None))
        calls = [part for part in _parts(candidate) if _call(part) is not None]
        is_only_own = bool(calls) and all(map(self._is_own, calls))
        return is_only_own and either(candidate, "finish_reason") == _ENDED

    def begin_round(self, earlier: Wire) -> None:
        self._earlier = earlier
        self._begin(_text(_parts(fields(next(iter(elements(earlier.get("candidates"))), None)))))

    def feed(self, event: SseEvent, data: Wire | None) -> list[SseEvent]:
        if data is None or data.get("error"):
            return [event]
        candidates = [fields(candidate) for candidate in elements(data.get("candidates"))]
        shown = [self._shown_candidate(candidate) for candidate in candidates]
        frame = {**data}
        if self._earlier:
            frame |= {key: self._earlier[key] for key in ("responseId", "response_id") if key in self._earlier}
            frame |= _usage(self._earlier, data)
        if candidates:
            frame["candidates"] = shown
        is_only_own = bool(self._own_calls) and not self._other_calls
        if is_only_own and candidates and either(candidates[0], "finish_reason") == _ENDED and not self._is_ending:
            self._is_ending = True
            return self._split(event, data, frame)
        if self._is_ending:
            self.tail.append(with_json(event, data, frame))
            return []
        return [with_json(event, data, frame)] if frame == data or _says(frame) else []

    def release(self) -> list[SseEvent]:
        return []

    def _split(self, event: SseEvent, data: Wire, frame: Wire) -> list[SseEvent]:
        """Return the words of the chunk that ends a round. Its reason and its usage are for the end of the exchange."""
        words = [{key: one[key] for key in _FRAME if key in one} for one in frame["candidates"] if _parts(one)]
        ended = [_with_parts(candidate, []) for candidate in frame["candidates"]]
        self.tail.append(with_json(event, data, {**frame, "candidates": ended}))
        return [with_json(event, data, {**frame, "candidates": words})] if words else []

    def _shown_candidate(self, candidate: JsonObject) -> JsonObject:
        parts = _parts(candidate)
        kept = [part for part in parts if not self._is_hidden(part)]
        if self._text_before:
            kept, has_text = _spaced(kept, self._text_before)
            self._text_before = "" if has_text else self._text_before
        return candidate if kept == parts else _with_parts(candidate, kept)

    def _is_hidden(self, part: JsonObject) -> bool:
        """Return whether the part is of an own call. The arguments of a call may follow in parts without its name."""
        call = _call(part)
        if call is None:
            return False
        if call.get("name") is not None:
            self._is_in_own = self._is_own(part)
            self._own_calls += self._is_in_own
            self._other_calls += not self._is_in_own
        return self._is_in_own

    def _is_own(self, part: JsonObject) -> bool:
        return fields(_call(part)).get("name") in self._own


def _call(part: JsonObject) -> JsonObject | None:
    return mapping(either(part, "function_call"))


def _parts(candidate: JsonObject) -> list[JsonObject]:
    return [fields(part) for part in elements(fields(candidate.get("content")).get("parts"))]


def _with_parts(candidate: JsonObject, parts: Sequence[JsonObject]) -> JsonObject:
    return {**candidate, "content": {**fields(candidate.get("content")), "parts": list(parts)}}


def _run_together(parts: Sequence[JsonObject]) -> list[Wire]:
    """Return the parts as a stream of them is assembled: texts that have become neighbours are one."""
    joined: list[Wire] = []
    for part in parts:
        add_part(joined, {**part})
    return joined


def _spaced(parts: Sequence[JsonObject], before: str) -> tuple[list[JsonObject], bool]:
    """Return the parts with a blank line before their first text, where it follows a text, and whether they have a text."""
    for position, part in enumerate(parts):
        text = part.get("text")
        if isinstance(text, str) and text and not part.get("thought"):
            gap = gap_between(before, text)
            return [*parts[:position], *([{"text": gap}] if gap else []), *parts[position:]], True
    return list(parts), False


def _text(parts: Sequence[JsonObject]) -> str:
    return "".join(str(part["text"]) for part in parts if part.get("text") and not part.get("thought"))


def _usage(earlier: JsonObject, later: JsonObject) -> Wire:
    """Return the field of the usage of both; empty where the later one has none."""
    key = next((key for key in ("usageMetadata", "usage_metadata") if later.get(key)), None)
    if key is None:
        return {}
    total = camel_case("total_token_count") if key == "usageMetadata" else "total_token_count"
    details = ("candidatesTokensDetails",)
    return {
        key: join_usage(
            either(earlier, "usage_metadata"), later[key], made=(*_MADE, *details), counted=_MADE, total=total
        )
    }


def _says(chunk: JsonObject) -> bool:
    """Return whether a chunk holds more than its frame."""
    candidates = [fields(candidate) for candidate in elements(chunk.get("candidates"))]
    has_words = any(_parts(one) or any(one[key] for key in one.keys() - _FRAME) for one in candidates)
    return has_words or bool(either(chunk, "usage_metadata") or either(chunk, "prompt_feedback"))
