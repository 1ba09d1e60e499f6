"""OpenAI Responses, streamed: events of one reply, assembled.

Items are added, grow by deltas and are done; the event of a finished item holds it whole, and so does the last event all items.
The deltas matter for a stream that ends early.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from foveal.dialects.openai_responses.read import read_reply
from foveal.dialects.port import Wire, WireReply
from foveal.values.entry import Stop

_ENDS: dict[str, Stop] = {
    "response.completed": "done",
    "response.incomplete": "done",
    "response.failed": "error",
    "error": "error",
}

# Deltas by their event: the item's list of parts, the index in it, the field of the part, the kind of the part.
_PART_DELTAS = {
    "response.output_text.delta": ("content", "content_index", "text", "output_text"),
    "response.refusal.delta": ("content", "content_index", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "text", "reasoning_text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "text", "summary_text"),
}
_ITEM_DELTAS = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
}


class ResponsesStream:
    """Assembles the events of one reply."""

    def __init__(self) -> None:
        self._frame: Wire = {}
        self._items: dict[int, Wire] = {}
        self.stop: Stop = "aborted"

    def feed(self, event: Mapping[str, Any]) -> None:
        kind = str(event.get("type") or "")
        self.stop = _ENDS.get(kind, self.stop)
        if isinstance(response := event.get("response"), Mapping):
            self._frame |= response
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._items[event["output_index"]] = dict(event["item"])
        elif kind in _PART_DELTAS:
            self._extend_part(event, *_PART_DELTAS[kind])
        elif kind in _ITEM_DELTAS:
            item, key = self._items[event["output_index"]], _ITEM_DELTAS[kind]
            item[key] = (item.get(key) or "") + event["delta"]

    def _extend_part(self, event: Mapping[str, Any], parts_key: str, index_key: str, key: str, kind: str) -> None:
        item = self._items[event["output_index"]]
        parts: list[Wire] = [*(item.get(parts_key) or ())]
        index: int = event[index_key]
        while len(parts) <= index:
            parts.append({"type": kind, key: ""})
        parts[index] = {**parts[index], key: (parts[index].get(key) or "") + event["delta"]}
        item[parts_key] = parts

    @property
    def body(self) -> Wire:
        items = [dict(self._items[index]) for index in sorted(self._items)]
        return {**self._frame, "output": list(self._frame.get("output") or ()) or items}

    def reply(self) -> WireReply:
        message, usage = read_reply(self.body)
        return WireReply(msgspec.structs.replace(message, stop=self.stop), usage)
