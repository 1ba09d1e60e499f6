"""A view as bytes, so that opening a session costs what its prompt holds and not what its history holds.

A snapshot keeps what was decided (levels, stand-ins, sizes, ids) and not what can be read from the log: parts that are
shown in full are fetched again by their place. It is a shortcut; a snapshot that does not fit the lens is ignored and the log
read instead.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from foveal.project.projection import Projection
from foveal.project.view import Frozen, View
from foveal.values.entry import Entry, Message, Part, Setup
from foveal.values.pins import NO_PINS, Pins
from foveal.values.shown import Item, Shown

Fetch = Callable[[Iterable[int]], Mapping[int, Entry]]


_decoder = msgspec.msgpack.Decoder(Frozen)


def dump(view: View) -> bytes | None:
    """The view as bytes; None for the rare view whose stand-ins hold text that cannot be written plainly."""
    atoms = tuple(msgspec.structs.replace(atom, items=tuple(map(_emptied, atom.items))) for atom in view.atoms)
    try:
        return msgspec.msgpack.encode(view.freeze(atoms))
    except UnicodeEncodeError:
        return None


def load(data: bytes, lens: Projection, fetch: Fetch) -> View | None:
    """The view again, its full parts read through `fetch`; None if it was made through another lens."""
    try:
        frozen = _decoder.decode(data)
    except msgspec.DecodeError:
        return None
    if frozen.key != lens.key or frozen.pins != lens.pins:
        return None
    wanted = [item.seq for atom in frozen.atoms for item in atom.items if any(map(_is_missing, item.shown))]
    rows = fetch([*wanted, frozen.setup_seq] if frozen.setup_seq else wanted)
    if any(seq not in rows for seq in wanted):
        return None
    atoms = [
        msgspec.structs.replace(atom, items=tuple(_filled(item, rows, lens) for item in atom.items))
        for atom in frozen.atoms
    ]
    setup = rows[frozen.setup_seq].body if frozen.setup_seq else None
    return View.thawed(lens, frozen, atoms, setup if isinstance(setup, Setup) else None)


def pins_in(data: bytes) -> Pins:
    """The pins that a snapshot was made with."""
    try:
        return _decoder.decode(data).pins
    except msgspec.DecodeError:
        return NO_PINS


def setup_seq_in(data: bytes) -> int:
    """Where the log says what the snapshot's prompts were built for; 0 if it does not."""
    try:
        return _decoder.decode(data).setup_seq
    except msgspec.DecodeError:
        return 0


def _is_missing(shown: Shown) -> bool:
    return shown.level == "full" and shown.part is None


def _emptied(item: Item) -> Item:
    shown = tuple(msgspec.structs.replace(s, part=None) if s.level == "full" else s for s in item.shown)
    return msgspec.structs.replace(item, shown=shown)


def _filled(item: Item, rows: Mapping[int, Entry], lens: Projection) -> Item:
    if not any(map(_is_missing, item.shown)):
        return item
    body = rows[item.seq].body
    parts: tuple[Part, ...] = body.parts if isinstance(body, Message) else ()
    shown = tuple(
        msgspec.structs.replace(s, part=lens.normal(parts[i], item.role)[0]) if _is_missing(s) else s
        for i, s in enumerate(item.shown)
    )
    return msgspec.structs.replace(item, shown=shown)
