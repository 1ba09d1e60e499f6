"""The originals behind references, as blocks of text: however large one is, one block of it is in memory.

A reference names a part of an entry (`ID`, `ID.PART`) or a range of entries (`FIRST..LAST`), and it means something only in
its own session: what is absent, malformed, ambiguous or another session's is `NotFound` with the same words.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from foveal.recall.offsets import artifact_texts
from foveal.stores import rows as log
from foveal.stores.port import Artifacts, Row, Store
from foveal.text.shorten.reference import as_text
from foveal.values.entry import (
    Content,
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Role,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from foveal.values.errors import NotFound, StoreCorrupt
from foveal.values.shown import entry_ref

GIVEN = "given:"
"""Prefix of the id of an entry that a child session was given by its parent; the reference follows it."""

NOTHING_THERE = "session {session!r} has nothing under the reference {ref!r}"
"""The words of `NotFound`, the same for what is absent and for what may not be reached."""

MOST_REF_CHARACTERS = 1_100
"""Longest reference: an id has at most 512 bytes, and a range has two of them."""


class Located(NamedTuple):
    """One part of an entry, with the seq and the role of the entry, and its place for error messages."""

    part: Part
    place: str
    seq: int
    role: Role


def read(store: Store, session: str, ref: str) -> str:
    """Return the whole original behind a reference."""
    return "".join(blocks(store, session, ref))


def blocks(store: Store, session: str, ref: str) -> Iterator[str]:
    """Return the original behind a reference, block by block. `NotFound` comes from this call, not from the first block."""
    found = range_blocks(store, session, ref)
    if found is None:
        part, place, *_ = locate(store, session, ref)
        return part_blocks(store.artifacts_for(session), part, place)
    return found


def locate(store: Store, session: str, ref: str) -> Located:
    """Return the part that a reference names."""
    given = given_id(ref)
    for entry, index in (*_part_places(ref), (given, 0)):
        row = _find(store, session, entry)
        if row is None or (entry == given and row.id != given):
            continue
        body = log.to_entry(row, session).body
        if isinstance(body, Message) and index < len(body.parts):
            return Located(body.parts[index], place_of(session, row), row.seq, body.role)
    raise NotFound(NOTHING_THERE.format(session=session, ref=ref[:120]) + _near(store, session, ref))


def _near(store: Store, session: str, ref: str) -> str:
    """Return a hint with references that begin like this one; empty if there are none."""
    for length in range(len(entry_ref(ref)) - 1, 2, -1):
        if found := store.find(session, ref[:length]):
            return f"; near it: {', '.join(dict.fromkeys(entry_ref(row.id) for row in found[:3]))}"
    return ""


def given_id(ref: str) -> str:
    """Return the id of the entry that hands over a reference: the same for all spellings of one reference, and for no other."""
    first, range_, last = ref.partition("..")
    if range_:
        return f"{GIVEN}{entry_ref(first)}..{entry_ref(last)}"
    entry, _, part = ref.rpartition(".")
    if not entry or not _is_number(part):
        return GIVEN + entry_ref(ref)
    return GIVEN + entry_ref(entry) + (f".{int(part)}" if int(part) else "")


def part_blocks(artifacts: Artifacts, part: Part, place: str) -> Iterator[str]:
    """Yield the text of one part; `place` names it in the error if its artifact is gone."""
    match part:
        case Text(text) | Thinking(text):
            yield text
        case ToolCall(_, name, arguments):
            yield f"{name}({arguments})"
        case ToolResult(_, content):
            for number, item in enumerate(content):
                if number:
                    yield "\n"
                yield from _content_blocks(artifacts, item, place)
        case Stored() | Image() | File():
            yield from _content_blocks(artifacts, part, place)
        case Opaque(_, json):
            yield json
        case RedactedThinking(data):
            yield data


def place_of(session: str, row: Row) -> str:
    return f"session {session!r}, entry {row.seq}"


def _content_blocks(artifacts: Artifacts, item: Content, place: str) -> Iterator[str]:
    if not isinstance(item, Stored):
        yield as_text((item,))
        return
    try:
        chunks = artifacts.read(item.sha256)
    except NotFound:
        raise StoreCorrupt(place, f"the artifact {item.sha256} that it names is gone") from None
    yield from artifact_texts(artifacts, item, chunks)


def range_blocks(store: Store, session: str, ref: str) -> Iterator[str] | None:
    """Return the transcript of the entries from one to another; None if the reference names no such range."""
    for first_ref, last_ref in _range_ends(ref):
        first, last = _find(store, session, first_ref), _find(store, session, last_ref)
        if first and last and first.seq <= last.seq:
            return _transcript(store, session, _branch(store, session, first, last))
    return None


def _range_ends(ref: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs of ids that `first..last` may mean; an id of a caller's own making may hold dots itself."""
    at = ref.find("..")
    while at >= 0 and len(ref) <= MOST_REF_CHARACTERS:
        yield ref[:at], ref[at + 2 :]
        at = ref.find("..", at + 1)


def _part_places(ref: str) -> Iterator[tuple[str, int]]:
    """Yield the pairs of entry and part that `entry.part` may mean; the first part, if none is named."""
    entry, dot, part = ref.rpartition(".")
    if dot and _is_number(part):
        yield entry, int(part)
    yield ref, 0


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) < 9


def _branch(store: Store, session: str, first: Row, last: Row) -> Iterator[Row]:
    """Return the last row and its ancestors, down to the first: rows between them may belong to a branch that was left."""

    def rows() -> Iterator[Row]:
        return store.rows(session, after=first.seq - 1, upto=last.seq)

    # Nearly always there is no branch, and then nothing needs to be remembered while reading.
    if all(after.parent == before.id for before, after in pairwise(rows())):
        return rows()
    wanted, seqs = last.id, set[int]()
    for seq, entry, parent in reversed([(row.seq, row.id, row.parent) for row in rows()]):
        if entry == wanted:
            seqs.add(seq)
            wanted = parent or ""
    return (row for row in rows() if row.seq in seqs)


def _transcript(store: Store, session: str, rows: Iterable[Row]) -> Iterator[str]:
    artifacts, gap = store.artifacts_for(session), ""
    for row in rows:
        body = log.to_entry(row, session).body
        if isinstance(body, Message):
            yield f"{gap}[{body.role} {row.id[:10]}]\n"
            gap = "\n\n"
            for number, part in enumerate(body.parts):
                if number:
                    yield "\n"
                yield from part_blocks(artifacts, part, place_of(session, row))


def _find(store: Store, session: str, prefix: str) -> Row | None:
    found = store.find(session, prefix) if 0 < len(prefix) <= MOST_REF_CHARACTERS else []
    return found[0] if len(found) == 1 else None
