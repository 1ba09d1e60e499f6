"""A prompt in the client's own words: messages that are shown whole are the client's, to the byte; the others are written anew.

Clients put more into a message than Foveal knows of: marks for the cache, blocks of new kinds, fields of their own. All of that
stays as it came as long as the message is shown whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from foveal.dialects.port import Wire
from foveal.integrations.client_request import ClientRequest
from foveal.project.atom_maker import is_reduced
from foveal.record.client_list import has_call_ids
from foveal.record.fingerprint import fingerprint
from foveal.session.follow import Followed
from foveal.text.repair import settle
from foveal.values.entry import Message, ToolCall
from foveal.values.shown import Atom, Item


def shows_less(atom: Atom) -> bool:
    """Return whether a session shows less of an atom than the client does: then the client's own request is not sent."""
    return atom.gap is not None or any(map(is_reduced, atom.items))


class ClientWords:
    """The messages of one client's list, and the bytes that each of them came in."""

    def __init__(self, request: ClientRequest, followed: Followed) -> None:
        self._dialect, self._wires, self._decoded = request.dialect, request.messages.wires, request.messages
        self._numbers: dict[int, int] = {}
        """The numbers of the client's messages that were taken as they are, by the identity of their values."""
        self._spans = [one.span for one in followed.messages]
        self._marks = [one.fingerprint for one in followed.messages]
        self._told = {entry: place for place, entry in enumerate(followed.entries)}

    def assemble(self, atoms: Sequence[Atom]) -> list[bytes]:
        """Return the messages that show these atoms."""
        places = self._places(atoms)
        whole = self._whole_wires(frozenset(places.values()))
        made: list[Wire] = []
        sent: set[int] = set()
        lead = self._spans[0][0] if self._spans else len(self._wires)
        for number in range(lead):  # the system prompt, where it is a part of the list
            made.append(self._taken(number))
        for atom in atoms:
            if atom.kind != "system":
                self._add(made, atom, places, whole, sent)
        numbers = [self._numbers.get(id(wire)) for wire in made]
        return [
            msgspec.json.encode(wire) if number is None else self._wires[number]
            for wire, number in zip(made, numbers, strict=True)
        ]

    def _add(
        self, made: list[Wire], atom: Atom, places: Mapping[str, int], whole: frozenset[int], sent: set[int]
    ) -> None:
        """Add the messages of one atom to those before it."""
        for items, messages, after in pieces_of(atom):
            numbers = [n for item in items if item.id in places for n in range(*self._spans[places[item.id]])]
            is_native = bool(items) and all(item.id in places for item in items) and whole.issuperset(numbers)
            if not is_native:
                before = len(self._dialect.chunk(after)) if after else 0  # a result may need to know its call
                self._dialect.join(made, self._dialect.chunk((*after, *messages))[before:])
                continue
            for number in numbers:
                if number not in sent:
                    sent.add(number)
                    self._join(made, self._taken(number))

    def _taken(self, number: int) -> Wire:
        wire = self._decoded[number]
        self._numbers[id(wire)] = number
        return wire

    def _join(self, made: list[Wire], wire: Wire) -> None:
        """Add a message of the client's: as it is, unless it follows one of ours in the same role."""
        is_after_ours = bool(made) and id(made[-1]) not in self._numbers
        if is_after_ours and made[-1].get("role") == wire.get("role"):
            self._dialect.join(made, [wire])
        else:
            made.append(wire)

    def _places(self, atoms: Sequence[Atom]) -> dict[str, int]:
        """Return the place in the list of each entry that is shown as the client told it."""
        places: dict[str, int] = {}
        is_after_own_round = False
        for atom in atoms:
            told = [item for item in atom.items if item.id in self._told]
            if atom.kind != "system" and has_own_ids(atom):
                # Of a reply after a round of own calls, the client tells both rounds as one.
                known = [item for item in told if not (is_after_own_round and item.role == "assistant")]
                places |= {item.id: self._told[item.id] for item in known if self._is_told(item)}
            is_after_own_round = atom.kind == "tools" and not told
        return places

    def _is_told(self, item: Item) -> bool:
        """Return whether an item is shown whole and is all that the client tells: of some replies it was told another form."""
        if not is_whole(item) or item.role != "assistant":
            return is_whole(item)
        said = Message(item.role, tuple(one.part for one in item.shown if one.part is not None))
        return fingerprint(said, has_ids=has_call_ids(self._dialect.name)) == self._marks[self._told[item.id]]

    def _whole_wires(self, told: frozenset[int]) -> frozenset[int]:
        """Return the numbers of the wire messages of which everything is shown whole."""
        broken = {n for place, span in enumerate(self._spans) if place not in told for n in range(*span)}
        return frozenset(range(len(self._wires))) - broken


class AtomPiece(NamedTuple):
    """Items of an atom, and the messages that show them; the messages of `after` are before them, and are shown apart."""

    items: list[Item]
    messages: tuple[Message, ...]
    after: tuple[Message, ...] = ()


def pieces_of(atom: Atom) -> Iterator[AtomPiece]:
    """Yield a reply, and its results one by one, if each came in a message of its own; or all that there is."""
    messages = settle(atom)
    if atom.kind != "tools":
        yield AtomPiece(list(atom.items[:1]), messages)
        return
    reply, results = messages
    yield AtomPiece([item for item in atom.items if item.role == "assistant"], (reply,))
    answered = [atom.items[answer.item] if answer else None for answer in atom.answers]
    items = [item for item in answered if item is not None]
    if len(items) < len(answered) or len({item.id for item in items}) < len(items):
        told = [item for item in atom.items if item.role == "tool"] if len(items) == len(answered) else []
        yield AtomPiece(told, (results,), (reply,))
        return
    for item, part in zip(items, results.parts, strict=True):
        yield AtomPiece([item], (Message("tool", (part,)),), (reply,))


def is_whole(item: Item) -> bool:
    """Return whether nothing of an item was made smaller or safe. Parts that only the client's words have room for are whole."""
    return not item.repair and all(
        one.part is None or (one.level == "full" and one.policy != "frame") for one in item.shown
    )


def has_own_ids(atom: Atom) -> bool:
    """Return whether the calls of an atom are sent under the ids that they came with."""
    parts = (one.part for item in atom.items if item.role == "assistant" for one in item.shown)
    ids = [part.id for part in parts if isinstance(part, ToolCall)]
    return atom.kind != "tools" or ids == list(atom.wire_ids) or not any(ids)
