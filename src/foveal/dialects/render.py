"""From a view to wire messages, rendering only what is new since the last prompt."""

from typing import NamedTuple

import msgspec

from foveal.core.entry import Message, Text, ToolCall
from foveal.core.errors import Unrepresentable
from foveal.core.project import View
from foveal.core.repair import settle
from foveal.core.view import Atom
from foveal.dialects.port import CannotSay, Dialect, Wire


class Renderer:
    """Keeps the wire messages of the atoms that can no longer change, until a fold moves the prefix."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wires: list[Wire] = []
        self._lead: list[Message] = []
        self._done = 0

    def render(self, view: View) -> tuple[list[Message], list[Wire], int]:
        """The leading system messages, the wire messages, and how many of the latter were there the last time."""
        if view.changed_from < self._done:
            self.forget()
        since = max(0, len(self._wires) - 1)
        reader = view.setup.model if view.setup else None
        # Rendered before anything is kept: what cannot be said stops us half-way.
        chunks = [self._chunk(atom, reader) for atom in view.atoms[self._done :]]
        settled = max(0, view.settled - self._done)
        for chunk in chunks[:settled]:
            self._add(chunk, self._lead, self._wires)
        self._done += settled
        view.changed_from = len(view.atoms)
        lead, wires = list(self._lead), list(self._wires)
        for chunk in chunks[settled:]:
            self._add(chunk, lead, wires)
        return lead, wires, since

    def forget(self) -> None:
        """Render everything anew the next time, and have all of it checked."""
        self._wires, self._lead, self._done = [], [], 0

    def _chunk(self, atom: Atom, reader: str | None) -> "_Chunk":
        messages = [_unsigned(message, reader) for message in settle(atom)]
        if atom.kind == "system":
            return _Chunk(messages, [])
        try:
            return _Chunk([], self._dialect.chunk(messages))
        except CannotSay as error:
            raise Unrepresentable(self._dialect.name, atom.first, str(error)) from None

    def _add(self, chunk: "_Chunk", lead: list[Message], wires: list[Wire]) -> None:
        lead.extend(chunk.lead)
        self._dialect.join(wires, chunk.wires)


class _Chunk(NamedTuple):
    """One atom rendered alone: what it adds to the system prompt, and to the conversation."""

    lead: list[Message]
    wires: list[Wire]


def _unsigned(message: Message, reader: str | None) -> Message:
    """The message without the signatures of its parts, where they are another model's: nobody else can read them."""
    if message.model == reader or not any(getattr(part, "signature", None) for part in message.parts):
        return message
    parts = [
        msgspec.structs.replace(part, signature=None) if isinstance(part, Text | ToolCall) else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))
