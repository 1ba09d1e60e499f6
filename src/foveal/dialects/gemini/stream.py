"""Gemini, streamed: each event is a reply with the next parts, assembled.

Texts in a row are one part, unless one of them is signed: a signature belongs to the part that it came with, which may be an
empty text at the end.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from foveal.dialects.gemini.read import either, read_reply
from foveal.dialects.port import Wire, WireReply
from foveal.values.entry import Stop


class GeminiStream:
    """Assembles the events of one reply."""

    def __init__(self) -> None:
        self._frame: Wire = {}
        self._candidate: Wire = {}
        self._parts: list[Wire] = []
        self._failed = False

    def feed(self, event: Mapping[str, Any]) -> None:
        self._failed = self._failed or bool(event.get("error"))
        self._frame |= {key: value for key, value in event.items() if key != "candidates" and value is not None}
        for candidate in (event.get("candidates") or ())[:1]:
            self._candidate |= {key: value for key, value in candidate.items() if value is not None}
            content: Mapping[str, Any] = candidate.get("content") or {}
            for part in content.get("parts") or ():
                add_part(self._parts, {key: value for key, value in part.items() if value is not None})

    @property
    def body(self) -> Wire:
        if not self._candidate:
            return {"candidates": [], **self._frame}
        content = {**(self._candidate.get("content") or {"role": "model"}), "parts": list(self._parts)}
        return {**self._frame, "candidates": [{**self._candidate, "content": content}]}

    @property
    def stop(self) -> Stop:
        """`done` after the reason for which the candidate ended, or for which the prompt was blocked."""
        if self._failed:
            return "error"
        ended = either(self._candidate, "finish_reason")
        return "done" if ended or either(self._frame, "prompt_feedback") else "aborted"

    def reply(self) -> WireReply:
        message, usage = read_reply(self.body)
        return WireReply(msgspec.structs.replace(message, stop=self.stop), usage)


def add_part(parts: list[Wire], part: Wire) -> None:
    """Add the next part of a reply: to the text before it, or as a new one."""
    last = parts[-1] if parts else {}
    is_text = _is_unsigned_text(last) and _is_unsigned_text(part)
    if is_text and bool(last.get("thought")) == bool(part.get("thought")):
        parts[-1] = {**last, "text": last["text"] + part["text"]}
    else:
        parts.append(part)


def _is_unsigned_text(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and not either(part, "thought_signature")
