"""Sessions as files: one line of JSON for each entry, with all artifacts, verified on the way out and on the way in.

    {"foveal": "session", "format": 1, "session": "fix-login", "created_ms": …, "entries": 2, "chain": "…", "secret": "…"}
    {"artifact": "<sha256>", "data": "<base64>"}                            a piece of an artifact, in order; one or more
    {"id": "…", "parent": null, "time_ms": …, "author": "…", "payload": "={…}"}       or "payload_base64"
    {"end": "<sha256 of all lines before>"}

`chain` is the hash of the last entry, computed as in a store. A file that was cut off, changed or put together by hand is refused
before anything of it is written.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from typing import BinaryIO

import msgspec

from foveal.stores.chain import link, seed
from foveal.stores.checks import check_drafts, check_session
from foveal.stores.port import Draft, Row, Store
from foveal.stores.references import artifacts_named
from foveal.stores.rows import check_readable
from foveal.values.errors import BadInput, NotFound

FORMAT = 1
"""The version of this format, in the first line of each file."""

_encode = msgspec.json.Encoder().encode


class Portrait(msgspec.Struct, frozen=True, tag_field="foveal", tag="session"):
    """The first line of a file: the session that it holds."""

    format: int
    session: str
    created_ms: int
    entries: int
    chain: str
    secret: str
    artifacts: int
    title: str | None = None
    tags: tuple[str, ...] = ()


class _Line(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A line after the first: a piece of an artifact, an entry, or the end."""

    artifact: str | None = None
    data: bytes | None = None
    id: str | None = None
    parent: str | None = None
    time_ms: int = 0
    author: str = ""
    payload: str | None = None
    payload_base64: bytes | None = None
    end: str | None = None


_decoder = msgspec.json.Decoder(_Line)


def export_session(store: Store, session: str, stream: BinaryIO) -> Portrait:
    """Write a session to a stream, each row and each artifact verified. It may be written to in the meantime."""
    card = next(iter(store.cards(session)), None)
    if card is None:
        raise NotFound(f"there is no session {session!r}")
    check_readable(store, session)
    chain, artifacts = seed(session), dict[str, None]()
    for row in store.rows(session, upto=card.entries):
        chain = link(chain, row)
        artifacts |= dict.fromkeys(artifacts_named([row]))
    secret = b64encode(store.secret(session)).decode()
    counts = (card.created_ms, card.entries, chain.hex(), secret, len(artifacts))
    portrait = Portrait(FORMAT, session, *counts, card.title, card.tags)
    digest = sha256()
    for line in _lines(store, portrait, artifacts):
        digest.update(line)
        stream.write(line)
    stream.write(_encode({"end": digest.hexdigest()}) + b"\n")
    return portrait


def verify_export(stream: BinaryIO) -> Portrait:
    """Read a file to its end and return its first line; `BadInput` unless it is whole."""
    portrait, lines = _read(stream)
    check_session(portrait.session)
    chain = seed(portrait.session)
    entries = artifacts = 0
    for artifact, group in groupby(lines, key=lambda line: line.artifact):
        if artifact is not None:
            if _digest(group) != artifact:
                raise BadInput(f"the artifact {artifact} does not match its name; the file was changed")
            artifacts += 1
            continue
        for draft in map(_draft, group):
            check_drafts([draft])
            entries += 1
            chain = link(chain, Row(entries, draft.id, draft.parent, draft.time_ms, draft.author, draft.payload))
    if (entries, chain.hex(), artifacts) != (portrait.entries, portrait.chain, portrait.artifacts):
        raise BadInput(
            f"the file promises {portrait.entries:,} entries and {portrait.artifacts:,} artifacts, and holds {entries:,} and "
            f"{artifacts:,}, or others than those; it was changed"
        )
    return portrait


def import_session(store: Store, stream: BinaryIO, *, name: str | None = None) -> Portrait:
    """Add an exported session to a store, under its own name or another one: whole, or not at all. It is verified first, so
    the stream must be seekable. `BadInput` if there is such a session already."""
    start = stream.tell()
    portrait = verify_export(stream)
    stream.seek(start)
    drafts: list[Draft] = []
    kept = store.artifacts_for(name or portrait.session)
    for artifact, group in groupby(_read(stream)[1], key=lambda line: line.artifact):
        if artifact is not None:
            kept.put(line.data or b"" for line in group)
        else:
            drafts.extend(map(_draft, group))
    add_session(store, name or portrait.session, drafts, secret=b64decode(portrait.secret))
    store.entitle(name or portrait.session, portrait.title)
    store.tag(name or portrait.session, add=portrait.tags)
    return portrait


def add_session(store: Store, session: str, drafts: Sequence[Draft], *, secret: bytes) -> None:
    """Make a session of these entries: all of them or none. `BadInput` if there is such a session already."""
    writer = store.acquire(session, secret=secret)
    try:
        if store.cards(session)[0].entries:  # read while nobody else can write
            raise BadInput(f"the store has a session {session!r} already; name a new file, or another session")
        writer.append(drafts)
    finally:
        writer.release()


def _lines(store: Store, portrait: Portrait, artifacts: Iterable[str]) -> Iterator[bytes]:
    yield _encode(portrait) + b"\n"
    for name in artifacts:
        is_empty = True
        for chunk in store.artifacts_for(portrait.session).read(name):
            is_empty = False
            yield _encode({"artifact": name, "data": chunk}) + b"\n"
        if is_empty:
            yield _encode({"artifact": name, "data": b""}) + b"\n"
    for row in store.rows(portrait.session, upto=portrait.entries):
        line: dict[str, object] = {
            "id": row.id,
            "parent": row.parent,
            "time_ms": row.time_ms,
            "author": row.author,
        }
        try:
            line["payload"] = row.payload.decode()
        except UnicodeDecodeError:
            line["payload_base64"] = row.payload
        yield _encode(line) + b"\n"


def _read(stream: BinaryIO) -> tuple[Portrait, Iterator[_Line]]:
    """Return the first line, and the lines after it; these raise `BadInput` at their end unless the file is whole."""
    first = stream.readline()
    try:
        portrait = msgspec.json.decode(first, type=Portrait)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"this is not an exported session: line 1: {error}") from None
    if portrait.format != FORMAT:
        raise BadInput(f"this file has format {portrait.format}; this Foveal reads format {FORMAT}. Upgrade Foveal.")
    return portrait, _rest(stream, first)


def _rest(stream: BinaryIO, first: bytes) -> Iterator[_Line]:
    digest = sha256(first)
    for number, raw in enumerate(stream, start=2):
        try:
            line = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"the exported session is damaged in line {number}: {error}") from None
        if line.end is not None:
            if line.end != digest.hexdigest() or stream.read(1):
                raise BadInput(
                    f"the exported session was changed: the hash in line {number}, its last, is of other lines"
                )
            return
        digest.update(raw)
        yield line
    raise BadInput("the exported session is cut off: its last line is missing. Export it again.")


def _draft(line: _Line) -> Draft:
    if line.id is None or (line.payload is None) == (line.payload_base64 is None):
        raise BadInput("the exported session has a line that is neither an entry nor a piece of an artifact")
    payload = line.payload.encode() if line.payload is not None else line.payload_base64
    return Draft(line.id, line.parent, line.time_ms, line.author, payload or b"")


def _digest(lines: Iterable[_Line]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line.data or b"")
    return digest.hexdigest()
