"""Anthropic Messages, filtered: replies and streams without the calls to own tools.

Blocks of all rounds are counted on. Of the frame, `message_start` is that of the first round, `message_delta` and `message_stop`
are those of the last. The first `message_start` is sent before it is known how many rounds follow: the input that it counts is
corrected by the last `message_delta`, which clients take over.
"""

from collections.abc import Mapping
from typing import Any

from foveal.dialects.hiding import Places, join_usage, with_json
from foveal.dialects.json_values import JsonObject, elements, fields
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_COUNTED = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_MADE = ("output_tokens", "output_tokens_details")
_FOR_CALLS = frozenset({"tool_use", "end_turn"})
"""Stop reasons of a reply whose calls are whole. Others tell of one that was cut short, or that the provider continues."""


class AnthropicFilter:
    """Hides the calls to own tools."""

    def __init__(self, own: frozenset[str], request: Mapping[str, Any]) -> None:
        self._own = own
        self._earlier: Wire | None = None
        self._places = Places()
        self._begin()

    def _begin(self) -> None:
        self.tail: list[SseEvent] = []
        self._own_calls = self._other_calls = 0
        self._is_hiding_end = False
        self._counted: JsonObject = {}

    def hide(self, body: Wire) -> Wire:
        blocks = [fields(block) for block in elements(body.get("content"))]
        kept = [block for block in blocks if not self._is_own(block)]
        if len(kept) == len(blocks):
            return body
        return {**body, "content": kept, "stop_reason": _reason(body.get("stop_reason"), any(map(_is_call, kept)))}

    def join(self, earlier: Wire, later: Wire) -> Wire:
        first = {key: earlier[key] for key in ("id", "model") if key in earlier}
        content = [*elements(earlier.get("content")), *elements(later.get("content"))]
        return {**later, **first, "content": content, "usage": _joined(earlier.get("usage"), later.get("usage"))}

    def asks_again(self, body: Wire) -> bool:
        calls = [block for block in map(fields, elements(body.get("content"))) if _is_call(block)]
        return bool(calls) and all(map(self._is_own, calls)) and body.get("stop_reason") in _FOR_CALLS

    def begin_round(self, earlier: Wire) -> None:
        self._earlier = earlier
        self._places.begin_round()
        self._begin()

    def feed(self, event: SseEvent, data: Wire | None) -> list[SseEvent]:
        if data is None:
            return [event]
        match data.get("type"):
            case "message_start":
                self._counted = fields(fields(data.get("message")).get("usage"))
                return [] if self._earlier else [event]
            case "message_delta":
                return self._end(with_json(event, data, self._last_delta(data)))
            case "message_stop":
                return self._end(event)
            case "content_block_start":
                self._meet(data)
            case _:
                pass
        if not self._own_calls and not self._earlier:
            return [event]
        return self._renumbered(event, data)

    def release(self) -> list[SseEvent]:
        return []

    def _meet(self, data: Wire) -> None:
        """Learn of a new block."""
        index, block = data.get("index"), fields(data.get("content_block"))
        if self._is_own(block):
            self._own_calls += 1
        elif _is_call(block):
            self._other_calls += 1
        if isinstance(index, int):
            if self._is_own(block):
                self._places.hide(index)
            self._places.place(index)

    def _renumbered(self, event: SseEvent, data: Wire) -> list[SseEvent]:
        index = data.get("index")
        if not isinstance(index, int):
            return [event]
        place = self._places.place(index)
        return [] if place is None else [with_json(event, data, {**data, "index": place})]

    def _last_delta(self, data: Wire) -> Wire:
        """Return the event with the reason and the usage of the exchange."""
        delta = fields(data.get("delta"))
        reason = delta.get("stop_reason")
        self._is_hiding_end = bool(self._own_calls) and not self._other_calls and reason in _FOR_CALLS
        shown = {**data}
        if self._own_calls:
            shown["delta"] = {**delta, "stop_reason": _reason(reason, bool(self._other_calls))}
        if self._earlier and (counted := fields(data.get("usage"))):
            known = {key: value for key, value in counted.items() if value is not None}
            before = {key: self._counted[key] for key in _COUNTED if key in self._counted}
            shown["usage"] = _joined(self._earlier.get("usage"), {**counted, **before, **known})
        return shown

    def _end(self, event: SseEvent) -> list[SseEvent]:
        if not self._is_hiding_end:
            return [event]
        self.tail.append(event)
        return []

    def _is_own(self, block: JsonObject) -> bool:
        return _is_call(block) and block.get("name") in self._own


def _is_call(block: JsonObject) -> bool:
    """Return whether the host answers the block; the provider answers calls of its server tools itself."""
    return block.get("type") == "tool_use"


def _reason(reason: object, has_calls: bool) -> object:
    return "end_turn" if reason == "tool_use" and not has_calls else reason


def _joined(earlier: object, later: object) -> Wire | None:
    return join_usage(earlier, later, made=_MADE, counted=())
