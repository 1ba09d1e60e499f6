"""OpenAI Chat Completions, streamed: chunks of one reply, assembled.

A chunk holds a delta for each choice; only the first choice is read, as of an unstreamed reply. Texts grow by their deltas, tool
calls by the index of each, and the usage is in a last chunk without choices, if it was asked for.
"""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from foveal.dialects.json_values import fields
from foveal.dialects.openai_chat.read import read_reply
from foveal.dialects.port import Wire, WireReply
from foveal.values.entry import Stop

_FRAME = ("id", "created", "model", "system_fingerprint", "service_tier")
_SAME = ("index", "type")


class ChatStream:
    """Assembles the chunks of one reply. The line `[DONE]` after them is no chunk and is not fed."""

    def __init__(self) -> None:
        self._frame: Wire = {}
        self._message: Wire = {"role": "assistant", "content": None}
        self._calls: dict[int, Wire] = {}
        self._places: dict[int, int] = {}
        """Places of the newest calls of those indexes that several calls have."""
        self._finish: str | None = None
        self._failed = False

    def feed(self, event: Mapping[str, Any]) -> None:
        self._frame |= {key: event[key] for key in (*_FRAME, "usage") if event.get(key) is not None}
        self._failed = self._failed or bool(event.get("error"))
        for choice in event.get("choices") or ():
            if choice.get("index", 0) == 0:
                self._extend(choice.get("delta") or {})
                self._finish = choice.get("finish_reason") or self._finish

    def _extend(self, delta: Mapping[str, Any]) -> None:
        """Add a delta: texts and lists grow, any other field is replaced."""
        for key, piece in delta.items():
            if key == "tool_calls":
                for call in piece or ():
                    self._extend_call(call)
            elif key == "function_call" and piece:
                grow(self._message.setdefault("function_call", {}), piece)
            elif key == "reasoning_details" and isinstance(piece, list):
                for detail in cast("list[Wire]", piece):
                    _extend_details(self._message.setdefault("reasoning_details", []), detail)
            elif key != "role" and piece is not None:
                grow(self._message, {key: piece})

    def _extend_call(self, piece: Mapping[str, Any]) -> None:
        call = self._calls.setdefault(self._place(piece), {})
        for key, value in piece.items():
            if key in ("function", "custom"):
                grow(call.setdefault(key, {}), value or {})
            elif key != "index" and value is not None:
                call[key] = value

    def _place(self, piece: Mapping[str, Any]) -> int:
        """Return the place of a call. Servers that leave the index out begin a call with its id or its name, and so do those that
        give all calls of a reply one index, as Gemini's compatible endpoint does."""
        newest, index = max(self._calls, default=-1), piece.get("index")
        known = self._places.get(index, index) if isinstance(index, int) else max(0, newest)
        begins = _begins_another(self._calls.get(known, {}), piece)
        if not isinstance(index, int):
            return newest + 1 if begins or piece.get("id") else known
        if begins:
            self._places[index] = newest + 1
        return self._places.get(index, index)

    @property
    def body(self) -> Wire:
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [_whole(self._calls[index], index) for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {**self._frame, "object": "chat.completion", "choices": [choice]}

    @property
    def stop(self) -> Stop:
        if self._failed:
            return "error"
        return "done" if self._finish else "aborted"

    def reply(self) -> WireReply:
        message, usage = read_reply(self.body)
        return WireReply(msgspec.structs.replace(message, stop=self.stop), usage)


def _begins_another(call: Wire, piece: Mapping[str, Any]) -> bool:
    """Return whether a piece begins another call than this one: it has a name, as that has, and not its id. Names come in
    pieces, too, and some servers give each piece an id."""
    held, come = (fields(one.get("function") or one.get("custom")) for one in (call, piece))
    if not (held.get("name") and come.get("name")):
        return False
    if call.get("id") and piece.get("id"):
        return call["id"] != piece["id"]
    return not call.get("id") and not piece.get("id") and bool(held.get("arguments") or held.get("input"))


def _whole(call: Wire, index: int) -> Wire:
    """Return a copy of a call, with an id and a name if the stream was cut off before it had them."""
    kind = "custom" if "custom" in call else "function"
    return {"id": f"call_{index}", **call, kind: {"name": "", **(call.get(kind) or {})}}


def _extend_details(details: list[Wire], piece: Wire) -> None:
    """Add a piece of reasoning: to the detail of the same index and type, or as a new one."""
    last = details[-1] if details else {}
    if piece.get("index") is None or [last.get(key) for key in _SAME] != [piece.get(key) for key in _SAME]:
        details.append(dict(piece))
    else:
        grow(last, {key: value for key, value in piece.items() if key not in (*_SAME, "format", "id") and value})


def grow(fields: Wire, pieces: Mapping[str, Any]) -> None:
    """Add pieces to their fields: texts and lists grow, any other value is replaced."""
    for key, piece in pieces.items():
        match fields.get(key), piece:
            case (str(held), str()):
                fields[key] = held + piece
            case (list(), list()):
                fields[key] = [*fields[key], *piece]
            case _:
                fields[key] = piece
