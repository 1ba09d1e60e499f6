"""A view as bytes, so that opening a session costs as much as its prompt holds and not as much as its history holds.

A snapshot keeps decisions (levels, stand-ins, sizes, ids) and leaves out text that can be read from the log: parts that are
shown in full and the newest `Setup` are fetched again by their position. It is a cache: a snapshot that does not decode or does
not fit the projection is ignored, and the log is read instead.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from foveal.project.facts import Facts
from foveal.project.projection import Projection
from foveal.project.transcript import Transcript
from foveal.project.view import View
from foveal.values.entry import ATTACHED, Entry, Message, Part, Setup
from foveal.values.pins import Pins
from foveal.values.shown import Atom, Item, Shown

Fetch = Callable[[Iterable[int]], Mapping[int, Entry]]
"""Reads the entries at these positions of the log."""


class ViewSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A view as one frozen value."""

    key: str
    pins: Pins
    facts: Facts
    atoms: tuple[Atom, ...]
    open_reply: int | None = None

    @staticmethod
    def of(view: View) -> "ViewSnapshot":
        """Return the snapshot of a view."""
        atoms = tuple(msgspec.structs.replace(atom, items=tuple(map(_emptied, atom.items))) for atom in view.atoms)
        facts = msgspec.structs.replace(view.facts, setup=None)
        projection = view.projection
        return ViewSnapshot(projection.key, projection.pins, facts, atoms, view.transcript.open_reply)

    @staticmethod
    def decode(payload: bytes) -> "ViewSnapshot | None":
        """Return the snapshot that these bytes hold; None if they hold none, or one of another encoding."""
        try:
            return _decoder.decode(payload)
        except msgspec.DecodeError:
            return None

    def encode(self) -> bytes | None:
        """Return the snapshot as bytes; None for the rare one whose stand-ins hold text that is not valid UTF-8."""
        try:
            return msgspec.msgpack.encode(self)
        except UnicodeEncodeError:
            return None

    def restore(self, projection: Projection, fetch: Fetch) -> View | None:
        """Return the view, its full parts read by `fetch`; None if it was made by another projection or parts are missing."""
        if self.key != projection.key or self.pins != projection.pins:
            return None
        wanted = [item.seq for atom in self.atoms for item in atom.items if any(map(_is_missing, item.shown))]
        setup_seq = self.facts.setup_seq
        rows = fetch([*wanted, setup_seq] if setup_seq else wanted)
        if any(seq not in rows for seq in wanted):
            return None
        atoms = [
            msgspec.structs.replace(atom, items=tuple(_filled(item, rows, projection) for item in atom.items))
            for atom in self.atoms
        ]
        setup = rows[setup_seq].body if setup_seq else None
        facts = msgspec.structs.replace(self.facts, setup=setup if isinstance(setup, Setup) else None)
        return View(projection, facts, Transcript(projection, atoms, self.open_reply))


_decoder = msgspec.msgpack.Decoder(ViewSnapshot)


def _is_missing(shown: Shown) -> bool:
    return shown.level == "full" and shown.part is None


def _emptied(item: Item) -> Item:
    shown = tuple(msgspec.structs.replace(s, part=None) if s.level == "full" else s for s in item.shown)
    return msgspec.structs.replace(item, shown=shown)


def _filled(item: Item, rows: Mapping[int, Entry], projection: Projection) -> Item:
    if not any(map(_is_missing, item.shown)):
        return item
    entry = rows[item.seq]
    parts: tuple[Part, ...] = entry.body.parts if isinstance(entry.body, Message) else ()
    prepared = projection.prepared(parts, item.role, is_file=entry.author == ATTACHED)
    shown = tuple(
        msgspec.structs.replace(s, part=prepared[i][0]) if _is_missing(s) else s for i, s in enumerate(item.shown)
    )
    return msgspec.structs.replace(item, shown=shown)
