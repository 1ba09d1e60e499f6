"""OpenAI Chat Completions, filtered: replies and streams without the calls to own tools.

The name of a call may come in pieces. While it may still become that of an own tool, events wait in a queue; arguments, another
call or the end of the reply tell that the name is complete. Calls are renumbered, and chunks keep the id and the time of the
first round. A reply has one text: a blank line is put between the texts of two rounds.

The usage comes in a chunk of its own, which the client sees only if it asked for it: whoever drives the filter always does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foveal.dialects.hiding import Places, gap_between, join_usage, with_json
from foveal.dialects.json_values import JsonObject, elements, fields, string
from foveal.dialects.openai_chat.stream import grow
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_FIRST = ("id", "created")
_FOR_CALLS = frozenset({"tool_calls", "function_call", "stop"})
"""Finish reasons of a reply whose calls are whole; some servers say `stop`."""


class ChatFilter:
    """Hides the calls to own tools."""

    def __init__(self, own: frozenset[str], request: Mapping[str, Any]) -> None:
        self._own = own
        self._wants_usage = fields(request.get("stream_options")).get("include_usage") is True
        self._earlier: Wire | None = None
        self._choices: dict[int, _ChoiceCalls] = {}
        self._begin("", 0)

    def _begin(self, text: str, details: int) -> None:
        self.tail: list[SseEvent] = []
        self._waiting: list[tuple[SseEvent, Wire | None]] = []
        self._is_ending = False
        self._text_before, self._details_before = text, details

    def hide(self, body: Wire) -> Wire:
        choices = elements(body.get("choices"))
        shown = [self._hidden_in(fields(choice)) for choice in choices]
        return body if shown == [*choices] else {**body, "choices": shown}

    def _hidden_in(self, choice: JsonObject) -> JsonObject:
        message = fields(choice.get("message"))
        calls = elements(message.get("tool_calls"))
        kept = [call for call in calls if not self._is_own(fields(call))]
        if len(kept) == len(calls):
            return choice
        shown = {key: value for key, value in message.items() if key != "tool_calls"}
        if kept:
            shown["tool_calls"] = kept
        reason = _reason(choice.get("finish_reason"), bool(kept))
        return {**choice, "message": shown, "finish_reason": reason}

    def join(self, earlier: Wire, later: Wire) -> Wire:
        first = {key: earlier[key] for key in _FIRST if key in earlier}
        before = _first_message(earlier)
        choices = [
            {**fields(choice), "message": _join_messages(before, fields(fields(choice).get("message")))}
            for choice in elements(later.get("choices"))
        ]
        usage = _joined(earlier.get("usage"), later.get("usage"))
        return {**later, **first, "choices": choices, "usage": usage}

    def asks_again(self, body: Wire) -> bool:
        choice = fields(next(iter(elements(body.get("choices"))), None))
        message = fields(choice.get("message"))
        calls = [fields(call) for call in elements(message.get("tool_calls"))]
        is_only_own = bool(calls) and all(map(self._is_own, calls)) and not message.get("function_call")
        return is_only_own and choice.get("finish_reason") in _FOR_CALLS

    def begin_round(self, earlier: Wire) -> None:
        self._earlier = earlier
        for calls in self._choices.values():
            calls.begin_round()
        before = _first_message(earlier)
        self._begin(string(before.get("content")) or "", _details_end(before))

    def feed(self, event: SseEvent, data: Wire | None) -> list[SseEvent]:
        if data is not None:
            choices = [fields(choice) for choice in elements(data.get("choices"))]
            if not self._waiting and not self._earlier and not data.get("usage") and all(map(_is_plain, choices)):
                return [event]  # nearly all chunks
            for choice in choices:
                self._calls_of(choice).meet(choice)
        if event.data == b"[DONE]":
            self._name_all()
        self._waiting.append((event, data))
        return self._released() if not any(calls.is_undecided for calls in self._choices.values()) else []

    def release(self) -> list[SseEvent]:
        for calls in self._choices.values():
            calls.drop_undecided()
        return self._released()

    def _name_all(self) -> None:
        for calls in self._choices.values():
            calls.decide()

    def _released(self) -> list[SseEvent]:
        waiting, self._waiting = self._waiting, []
        return [shown for event, data in waiting for shown in self._shown(event, data)]

    def _shown(self, event: SseEvent, data: Wire | None) -> Iterator[SseEvent]:
        if data is None or data.get("error"):
            yield from self._end(event) if event.data == b"[DONE]" else [event]
            return
        choices = [fields(choice) for choice in elements(data.get("choices"))]
        usage = data.get("usage")
        if usage and not choices and not self._wants_usage:
            return
        kept = [shown for choice in choices for shown in self._shown_choice(choice)]
        if not self._earlier and not any(calls.has_own for calls in self._choices.values()):
            yield event
            return
        if choices and not kept and not (usage and self._wants_usage):
            return
        shown = {**data, "choices": kept} if choices else {**data}
        if self._earlier:
            shown |= {key: self._earlier[key] for key in _FIRST if key in self._earlier and key in data}
            shown |= {"usage": _joined(self._earlier.get("usage"), usage)} if usage else {}
        yield from self._split(event, data, shown)

    def _split(self, event: SseEvent, data: Wire, shown: Wire) -> Iterator[SseEvent]:
        """Yield a chunk whole; where the model is asked again, its words now, and the rest of it at the end of the exchange."""
        begins_end = any(
            choice.get("finish_reason") in _FOR_CALLS and self._calls_of(choice).are_own
            for choice in map(fields, elements(data.get("choices")))
            if choice.get("index", 0) == 0
        )
        if begins_end and not self._is_ending:
            self._is_ending = True
            words = [{**choice, "finish_reason": None} for choice in shown["choices"] if _says(choice.get("delta"))]
            if words:
                yield with_json(
                    event, data, {**shown, "choices": words, **({"usage": None} if "usage" in data else {})}
                )
            shown["choices"] = [{**choice, "delta": {}} for choice in shown["choices"]]
        if self._is_ending or shown.get("usage"):
            yield from self._end(with_json(event, data, shown))
        else:
            yield with_json(event, data, shown)

    def _end(self, event: SseEvent) -> list[SseEvent]:
        if not self._is_ending:
            return [event]
        self.tail.append(event)
        return []

    def _shown_choice(self, choice: JsonObject) -> Iterator[Wire]:
        """Yield the choice without own calls, its calls renumbered; none if nothing is left of it."""
        calls, delta = self._calls_of(choice), {**fields(choice.get("delta"))}
        if pieces := elements(delta.get("tool_calls")):
            delta["tool_calls"] = calls.shown(pieces)
            if not delta["tool_calls"]:
                del delta["tool_calls"]
        if self._earlier:
            self._continue(delta)
        reason = choice.get("finish_reason")
        if calls.has_own and reason:
            reason = _reason(reason, calls.has_others)
        if reason or delta == choice.get("delta") or _says(delta):
            yield {**choice, "delta": delta, **({"finish_reason": reason} if "finish_reason" in choice else {})}

    def _continue(self, delta: Wire) -> None:
        """Make a delta of a later round go on with the message that the client has."""
        delta.pop("role", None)
        text = delta.get("content")
        if isinstance(text, str) and text:
            delta["content"] = gap_between(self._text_before, text) + text
            self._text_before = ""
        if "reasoning_details" in delta:
            delta["reasoning_details"] = _later_details(elements(delta["reasoning_details"]), self._details_before)

    def _calls_of(self, choice: JsonObject) -> "_ChoiceCalls":
        index = choice.get("index")
        return self._choices.setdefault(index if isinstance(index, int) else 0, _ChoiceCalls(self._own))

    def _is_own(self, call: JsonObject) -> bool:
        return not call.get("custom") and fields(call.get("function")).get("name") in self._own


class _ChoiceCalls:
    """Tool calls of one choice: which of them are own, and the client's numbers of the others."""

    def __init__(self, own: frozenset[str]) -> None:
        self._own = own
        self._places = Places()
        self.begin_round()

    def begin_round(self) -> None:
        self._places.begin_round()
        self._names: dict[int, str] = {}
        self._is_own: dict[int, bool] = {}
        self._shown_last = -1
        self.has_others = False

    @property
    def has_own(self) -> bool:
        return any(self._is_own.values())

    @property
    def are_own(self) -> bool:
        """Whether there are calls, and all of them are own."""
        return self.has_own and not self.has_others

    @property
    def is_undecided(self) -> bool:
        return len(self._is_own) < len(self._names)

    def meet(self, choice: JsonObject) -> None:
        """Learn the names of calls from the next chunk."""
        delta = fields(choice.get("delta"))
        self.has_others = self.has_others or bool(delta.get("function_call"))
        for piece in map(fields, elements(delta.get("tool_calls"))):
            key = _key(piece, len(self._names))
            if key not in self._names:
                self.decide()
                self._names[key] = ""
            if key not in self._is_own:
                self._learn(key, piece)
        if choice.get("finish_reason"):
            self.decide()

    def _learn(self, key: int, piece: JsonObject) -> None:
        function = fields(piece.get("function"))
        self._names[key] += string(function.get("name")) or ""
        if piece.get("custom") or not any(name.startswith(self._names[key]) for name in self._own):
            self._judge(key, False)
        elif function.get("arguments"):
            self.decide()

    def decide(self) -> None:
        """Take the names that have come for complete."""
        for key in self._names.keys() - self._is_own.keys():
            self._judge(key, self._names[key] in self._own)

    def drop_undecided(self) -> None:
        """Hide a call that broke off within its name: nobody can do anything with it."""
        for key in self._names.keys() - self._is_own.keys():
            self._judge(key, True)

    def _judge(self, key: int, is_own: bool) -> None:
        self._is_own[key] = is_own
        self.has_others = self.has_others or not is_own
        if is_own:
            self._places.hide(key)

    def shown(self, pieces: Sequence[object]) -> list[Wire]:
        """Return the pieces of calls that are not own, renumbered."""
        kept: list[Wire] = []
        for piece in map(fields, pieces):
            key = _key(piece, self._shown_last + 1)
            self._shown_last = max(self._shown_last, key)
            place = self._places.place(key)
            if place is not None:
                kept.append({**piece, "index": place} if "index" in piece else {**piece})
        return kept


def _key(piece: JsonObject, known: int) -> int:
    """Return the provider's number of a call. Servers that leave it out begin a call with its id."""
    index = piece.get("index")
    if isinstance(index, int):
        return index
    return known if piece.get("id") else max(0, known - 1)


def _is_plain(choice: JsonObject) -> bool:
    """Return whether a choice neither calls nor ends."""
    delta = fields(choice.get("delta"))
    return not (choice.get("finish_reason") or delta.get("tool_calls") or delta.get("function_call"))


def _says(delta: object) -> bool:
    return any(value not in (None, "", []) for value in fields(delta).values())


def _reason(reason: object, has_calls: bool) -> object:
    return "stop" if reason == "tool_calls" and not has_calls else reason


def _joined(earlier: object, later: object) -> Wire | None:
    made = ("completion_tokens", "completion_tokens_details")
    return join_usage(earlier, later, made=made, counted=made[:1], total="total_tokens")


def _first_message(body: JsonObject) -> JsonObject:
    choice = fields(next(iter(elements(body.get("choices"))), None))
    return fields(choice.get("message"))


def _join_messages(earlier: JsonObject, later: JsonObject) -> Wire:
    """Return a message whose texts and lists go on with those of the later one."""
    joined, text = {**earlier}, string(later.get("content")) or ""
    gap = gap_between(string(earlier.get("content")) or "", text)
    pieces = {key: value for key, value in later.items() if value is not None and key != "role"}
    if gap:
        pieces["content"] = gap + text
    if "reasoning_details" in pieces:
        pieces["reasoning_details"] = _later_details(elements(pieces["reasoning_details"]), _details_end(earlier))
    grow(joined, pieces)
    return joined


def _details_end(message: JsonObject) -> int:
    """Return the number after the last piece of reasoning."""
    numbers = [fields(detail).get("index") for detail in elements(message.get("reasoning_details"))]
    return max((number + 1 for number in numbers if isinstance(number, int)), default=0)


def _later_details(details: Sequence[object], base: int) -> list[Wire]:
    """Return pieces of reasoning, counted on after those of the earlier rounds."""
    counted: list[Wire] = []
    for detail in map(fields, details):
        index = detail.get("index")
        counted.append({**detail, "index": index + base} if isinstance(index, int) else {**detail})
    return counted
