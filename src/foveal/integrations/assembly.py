"""A prompt in the client's own words: messages that are shown whole are the client's, to the byte; the others are written anew.

Clients put more into a message than Foveal knows of: marks for the cache, blocks of new kinds, fields of their own. All of that
stays as it came as long as the message is shown whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from foveal.dialects.port import Dialect, Wire
from foveal.session.follow import Followed
from foveal.text.repair import settle
from foveal.values.entry import Message, ToolCall, ToolResult
from foveal.values.shown import Atom, Item


class Assembled(NamedTuple):
    """The messages of a request that is sent."""

    wires: list[bytes]
    is_unchanged: bool
    """Whether they are the client's, all of them and in the client's order."""


class ClientWords:
    """The messages of one client's list, and the bytes that each of them came in."""

    def __init__(self, dialect: Dialect, followed: Followed, wires: Sequence[bytes]) -> None:
        self._dialect, self._wires = dialect, wires
        self._spans = [one.span for one in followed.messages]
        self._told = {entry: place for place, entry in enumerate(followed.entries)}
        self._decoded: dict[int, Wire] = {}

    def assemble(self, atoms: Sequence[Atom]) -> Assembled:
        """Return the messages that show these atoms."""
        places = self._places(atoms)
        whole = self._whole_wires(frozenset(places.values()))
        made: list[Wire] = []
        sent: set[int] = set()
        lead = self._spans[0][0] if self._spans else len(self._wires)
        for number in range(lead):  # the system prompt, where it is a part of the list
            made.append(self._wire(number))
        for atom in atoms:
            if atom.kind != "system":
                self._add(made, atom, places, whole, sent)
        raw = {id(wire): self._wires[number] for number, wire in self._decoded.items()}
        wires = [raw.get(id(wire)) or msgspec.json.encode(wire) for wire in made]
        return Assembled(wires, wires == list(self._wires))

    def _add(
        self, made: list[Wire], atom: Atom, places: Mapping[str, int], whole: frozenset[int], sent: set[int]
    ) -> None:
        """Add the messages of one atom to those before it."""
        for items, messages, reply in _pieces(atom):
            numbers = [n for item in items if item.id in places for n in range(*self._spans[places[item.id]])]
            is_native = bool(items) and all(item.id in places for item in items) and whole.issuperset(numbers)
            if not is_native:
                # Results are written behind their reply, which some formats take the names of the tools from.
                chunk = self._dialect.chunk((*reply, *messages))
                self._dialect.join(made, chunk[len(self._dialect.chunk(reply)) :])
                continue
            for number in numbers:
                if number not in sent:
                    sent.add(number)
                    self._add_native(made, number)

    def _add_native(self, made: list[Wire], number: int) -> None:
        """Add one of the client's messages. Behind its neighbour it is joined to nothing: the client's order is the client's."""
        wire = self._wire(number)
        if number and made and made[-1] is self._decoded.get(number - 1):
            made.append(wire)
        else:
            self._dialect.join(made, [wire])

    def _wire(self, number: int) -> Wire:
        if number not in self._decoded:
            self._decoded[number] = msgspec.json.decode(self._wires[number])
        return self._decoded[number]

    def _places(self, atoms: Sequence[Atom]) -> dict[str, int]:
        """Return the place in the list of each entry that is shown as the client told it."""
        places: dict[str, int] = {}
        is_after_own_round = False
        for atom in atoms:
            told = [item for item in atom.items if item.id in self._told]
            if atom.kind != "system" and _has_own_ids(atom):
                # The client knows less of a reply that called own tools as well, and more of one after a round of its own.
                is_mixed = atom.kind == "tools" and any(
                    answer and atom.items[answer.item].id not in self._told for answer in atom.answers
                )
                skipped = is_mixed or is_after_own_round
                places |= {
                    item.id: self._told[item.id]
                    for item in told
                    if _is_whole(item) and not (skipped and item.role == "assistant")
                }
            is_after_own_round = atom.kind == "tools" and not told
        return places

    def _whole_wires(self, told: frozenset[int]) -> frozenset[int]:
        """Return the numbers of the wire messages of which everything is shown whole."""
        broken = {n for place, span in enumerate(self._spans) if place not in told for n in range(*span)}
        return frozenset(range(len(self._wires))) - broken


class _Piece(NamedTuple):
    items: list[Item]
    messages: tuple[Message, ...]
    """The messages that show the items."""
    reply: tuple[Message, ...] = ()
    """The reply that the messages answer."""


def _pieces(atom: Atom) -> Iterator[_Piece]:
    """Yield the items of an atom, each with the messages that show it: a reply and its results, or all that there is."""
    messages = settle(atom)
    if atom.kind != "tools":
        yield _Piece(list(atom.items[:1]), messages)
        return
    reply, results = messages
    yield _Piece([item for item in atom.items if item.role == "assistant"], (reply,))
    by_call = {part.call: part for part in results.parts if isinstance(part, ToolResult)}
    answered = [atom.items[answer.item] if answer else None for answer in atom.answers]
    if None in answered or len({item.id for item in answered if item}) != len(answered):
        items = [item for item in atom.items if item.role == "tool"] if None not in answered else []
        yield _Piece(items, (results,), (reply,))
        return
    for item, wire_id in zip(answered, atom.wire_ids, strict=True):
        if item is not None:
            yield _Piece([item], (Message("tool", (by_call[wire_id],)),), (reply,))


def _is_whole(item: Item) -> bool:
    """Return whether nothing of an item was made smaller or safe. Parts that only the client's words have room for are whole."""
    return not item.repair and all(
        one.part is None or (one.level == "full" and one.policy != "frame") for one in item.shown
    )


def _has_own_ids(atom: Atom) -> bool:
    """Return whether the calls of an atom are sent under the ids that they came with."""
    parts = (one.part for item in atom.items if item.role == "assistant" for one in item.shown)
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    return atom.kind != "tools" or ids == list(atom.wire_ids) or not any(ids)
