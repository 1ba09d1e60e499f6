"""From a view to wire messages: the renderer, which renders only the atoms that are new since the last prompt."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeAlias

import msgspec

from foveal.dialects.port import CannotSay, Dialect, Wire
from foveal.project.view import View
from foveal.text.repair import settle
from foveal.values.entry import Block, Message, Role, Text, ToolCall
from foveal.values.errors import Unrepresentable
from foveal.values.shown import Atom

BlockMessages: TypeAlias = dict[str, tuple[tuple[Message, ...], tuple[Message, ...]]]
"""The messages before and after an atom, by the id of its first entry."""


class Renderer:
    """Keeps the wire messages of the atoms that can no longer change, until a fold moves the prefix."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wires: list[Wire] = []
        self._lead: list[Message] = []
        self._done = 0
        self._version = 0
        """The version of the transcript that was rendered last."""
        self._around: BlockMessages = {}

    def render(self, view: View, blocks: Sequence[Block] = ()) -> "Rendered":
        """Return the view on the wire, with these blocks beside the conversation."""
        tail = [block for block in blocks if block.placement == "tail"]
        among = [block for block in blocks if block.placement != "tail"]
        around = _around(view, among)
        if view.transcript.changed_since(self._version) < self._done or around != self._around:
            self.forget()
        self._around = around
        since = max(0, len(self._wires) - 1)
        reader = view.facts.setup.model if view.facts.setup else None
        # Rendered before anything is kept: an error half-way leaves the renderer as it was.
        chunks = [self._chunk(atom, reader) for atom in view.atoms[self._done :]]
        settled = max(0, view.transcript.settled - self._done)
        for system, chunk in chunks[:settled]:
            self._lead.extend(system)
            self._dialect.join(self._wires, chunk)
        self._done += settled
        self._version = view.transcript.version
        lead, wires = list(self._lead), list(self._wires)
        for system, chunk in chunks[settled:]:
            lead.extend(system)
            self._dialect.join(wires, chunk)
        lead += [_said("system", block) for block in among if block.placement == "after_system"]
        return Rendered(lead, wires, self._dialect.chunk(_joined(tail)), since)

    def forget(self) -> None:
        """Render everything anew the next time, and have all of it checked."""
        self._wires, self._lead, self._done = [], [], 0

    def _chunk(self, atom: Atom, reader: str | None) -> tuple[list[Message], list[Wire]]:
        """Return one atom rendered alone: its messages for the system prompt, and those for the conversation."""
        before, after = self._around.get(atom.first, ((), ()))
        messages = [_unsigned(message, reader) for message in settle(atom)]
        if atom.kind == "system":
            return [*before, *messages, *after], []
        try:
            # The messages around an atom are rendered apart from it: a dialect may split a reply with many calls.
            return [], [wire for said in (before, messages, after) for wire in self._dialect.chunk(said)]
        except CannotSay as error:
            raise Unrepresentable(self._dialect.name, atom.first, str(error)) from None


class Rendered(NamedTuple):
    """A view on the wire."""

    lead: list[Message]
    """The system messages before the conversation."""
    wires: list[Wire]
    tail: list[Wire]
    """Messages after the conversation, which change from call to call."""
    since: int
    """Number of wire messages that the last prompt had too."""


class SentMessage(NamedTuple):
    """A message of a prompt in its place: one of the conversation, or a block beside it."""

    message: Message
    block: Block | None = None


def sent_messages(view: View, blocks: Sequence[Block] = ()) -> Iterator[SentMessage]:
    """Yield the messages of a prompt in the order in which they are sent, before a dialect gives them its form."""
    placed = placed_blocks(view, blocks)
    is_lead = True
    for atom in view.atoms:
        if is_lead and atom.kind != "system":
            is_lead = False
            yield from _sent_blocks(block for block in blocks if block.placement == "after_system")
        before, after = placed.get(atom.first, ((), ()))
        yield from _sent_blocks(before)
        yield from (SentMessage(message) for message in settle(atom))
        yield from _sent_blocks(after)
    if is_lead:
        yield from _sent_blocks(block for block in blocks if block.placement == "after_system")
    yield from _sent_blocks(block for block in blocks if block.placement == "tail")


def _sent_blocks(blocks: Iterable[Block]) -> Iterator[SentMessage]:
    for block in blocks:
        yield SentMessage(_said("system" if block.placement == "after_system" else block.role, block), block)


def _around(view: View, blocks: Sequence[Block]) -> BlockMessages:
    """Return the messages of the blocks before or after an atom."""
    return {
        atom: (tuple(_said(block.role, block) for block in before), tuple(_said(block.role, block) for block in after))
        for atom, (before, after) in placed_blocks(view, blocks).items()
    }


def placed_blocks(view: View, blocks: Sequence[Block]) -> dict[str, tuple[list[Block], list[Block]]]:
    """Return the blocks before or after an atom: the first or the current request, or the newest calls with their results."""
    found: dict[str, tuple[list[Block], list[Block]]] = {}
    if not blocks:
        return {}
    request = view.place(view.facts.last_user)
    results = next((i for i in range(len(view.atoms) - 1, -1, -1) if view.atoms[i].kind == "tools"), None)
    for block in blocks:
        match block.placement:
            case "before_conversation":
                place = view.place(view.facts.first_user)
            case "before_request" | "after_request":
                place = request
            case "after_result":
                place = request if results is None else results
            case "after_system" | "tail":
                continue
        if place is not None:
            sides = found.setdefault(view.atoms[place].first, ([], []))
            sides[block.placement not in ("before_conversation", "before_request")].append(block)
    return found


def _joined(blocks: Sequence[Block]) -> list[Message]:
    """Return the messages after the conversation: blocks of one role in a row are one message, each block in its frame."""
    runs = groupby(blocks, key=_role)
    return [Message(role, (Text("\n\n".join([block.text for block in run])),)) for role, run in runs]


def _role(block: Block) -> Role:
    return block.role


def _said(role: Role, block: Block) -> Message:
    return Message(role, (Text(block.text),))


def _unsigned(message: Message, reader: str | None) -> Message:
    """Return the message without the signatures of its parts, if another model wrote it: only that model can read them."""
    if message.model == reader or not any(getattr(part, "signature", None) for part in message.parts):
        return message
    parts = [
        msgspec.structs.replace(part, signature=None) if isinstance(part, Text | ToolCall) else part
        for part in message.parts
    ]
    return msgspec.structs.replace(message, parts=tuple(parts))
