"""OpenAI Responses, filtered: replies and streams without the calls to own tools.

Output items and sequence numbers of all rounds are counted on. The response keeps the id and the time of its first round; the
last event holds the items of all rounds. Responses echo their request: own tools are taken out of the echo as well.
"""

from collections.abc import Mapping
from typing import Any

from foveal.dialects.hiding import Places, join_usage, with_json
from foveal.dialects.json_values import JsonObject, elements, fields, mapping, string
from foveal.dialects.openai_responses.read import is_client_call
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_FIRST = ("id", "created_at")
"""Fields of the response that clients know from its first event."""


class ResponsesFilter:
    """Hides the calls to own tools."""

    def __init__(self, own: frozenset[str], request: Mapping[str, Any]) -> None:
        self._own = own
        self._instructions = request.get("instructions")
        self._earlier: Wire | None = None
        self._places = Places()
        self._last_number = -1
        self._begin()

    def _begin(self) -> None:
        self.tail: list[SseEvent] = []
        self._items: list[JsonObject] = []
        self._hidden_ids: set[str] = set()
        self._shift: int | None = None

    def hide(self, body: Wire) -> Wire:
        shown = self._without_echo(body)
        items = elements(body.get("output"))
        kept = [item for item in items if not self._is_own(fields(item))]
        return shown if len(kept) == len(items) else {**shown, "output": kept}

    def join(self, earlier: Wire, later: Wire) -> Wire:
        first = {key: earlier[key] for key in _FIRST if key in earlier}
        output = [*elements(earlier.get("output")), *elements(later.get("output"))]
        made = ("output_tokens", "output_tokens_details")
        usage = join_usage(earlier.get("usage"), later.get("usage"), made=made, counted=made[:1], total="total_tokens")
        return {**later, **first, "output": output, "usage": usage}

    def asks_again(self, body: Wire) -> bool:
        items = [fields(item) for item in elements(body.get("output"))]
        return body.get("status") in ("completed", None) and self._waits_for_own(items)

    def begin_round(self, earlier: Wire) -> None:
        self._earlier = earlier
        self._places.begin_round()
        self._begin()

    def feed(self, event: SseEvent, data: Wire | None) -> list[SseEvent]:
        if data is None:
            return [event]
        if not (self._earlier or self._hidden_ids or "item" in data or "response" in data):
            self._last_number = data.get("sequence_number", self._last_number)
            return [event]  # nearly all events
        kind, response = data.get("type"), mapping(data.get("response"))
        shift = self._shift_of(data)
        if self._is_hidden(data) or (kind in _BEGINNINGS and self._earlier):
            self._shift = None if shift is None else shift - 1
            return []
        shown = {**data}
        if response is not None:
            shown["response"] = self._shown_response(dict(response), kind in _ENDS)
        if isinstance(index := data.get("output_index"), int):
            shown["output_index"] = self._places.place(index)
        if shift is not None:
            shown["sequence_number"] = data["sequence_number"] + shift
        if kind == "response.completed" and response is not None and self._waits_for_own(self._output(response)):
            self.tail.append(with_json(event, data, shown))
            return []
        self._last_number = shown.get("sequence_number", self._last_number)
        return [with_json(event, data, shown)]

    def release(self) -> list[SseEvent]:
        return []

    def _shift_of(self, data: Wire) -> int | None:
        """Return the difference between the client's numbers and the provider's; None for an event without a number."""
        number = data.get("sequence_number")
        if not isinstance(number, int):
            return None
        if self._shift is None:
            self._shift = self._last_number + 1 - number if self._earlier else 0
        return self._shift

    def _is_hidden(self, data: Wire) -> bool:
        """Return whether an event tells of an own call."""
        index, item = data.get("output_index"), mapping(data.get("item"))
        if item is not None and isinstance(index, int):
            if self._is_own(item):
                self._places.hide(index)
                self._hidden_ids.add(string(item.get("id")) or "")
            if data.get("type") == "response.output_item.done":
                self._items.append(item)
        if isinstance(index, int):
            return self._places.place(index) is None
        item_id = data.get("item_id")
        return isinstance(item_id, str) and item_id in self._hidden_ids

    def _output(self, response: JsonObject) -> list[JsonObject]:
        """Return the items of a response; servers that leave them out of the last event have sent them before."""
        return [fields(item) for item in elements(response.get("output"))] or self._items

    def _shown_response(self, response: Wire, ends: bool) -> Wire:
        if not ends:
            return self._without_echo(response)
        if self._earlier is None:
            return self.hide(response)
        return self.join(self._earlier, self.hide({**response, "output": self._output(response)}))

    def _without_echo(self, response: Wire) -> Wire:
        """Return the response without the traces of own tools in the fields that repeat the request."""
        changed: Wire = {}
        if len(tools := self._other_tools(response)) != len(elements(response.get("tools"))):
            changed["tools"] = tools
        choice = fields(response.get("tool_choice"))
        if len(allowed := self._other_tools(choice)) != len(elements(choice.get("tools"))):
            changed["tool_choice"] = {**choice, "tools": allowed}
        told = response.get("instructions")
        if isinstance(told, str) and any(name in told for name in self._own):
            changed["instructions"] = self._instructions
        return {**response, **changed} if changed else response

    def _other_tools(self, holder: JsonObject) -> list[object]:
        return [
            tool
            for tool in elements(holder.get("tools"))
            if fields(tool).get("type") != "function" or fields(tool).get("name") not in self._own
        ]

    def _waits_for_own(self, items: list[JsonObject]) -> bool:
        """Return whether own calls, and no others, are open. Calls with an output in the same response are answered."""
        answered = {item.get("call_id") for item in items if str(item.get("type")).endswith("_output")}
        open_calls = [item for item in items if _is_call(item) and item.get("call_id") not in answered]
        return bool(open_calls) and all(map(self._is_own, open_calls))

    def _is_own(self, item: JsonObject) -> bool:
        """Return whether an item calls an own tool. A function in a namespace is another's, whatever its name."""
        return item.get("type") == "function_call" and item.get("name") in self._own and not item.get("namespace")


def _is_call(item: JsonObject) -> bool:
    """Return whether the host has to answer an item. Calls that the provider answers have no id of their own."""
    kind = str(item.get("type"))
    if kind == "mcp_approval_request":
        return True
    return kind.endswith("_call") and bool(item.get("call_id")) and is_client_call(item)
