"""Sessions as files: one line of JSON for each entry, with all artifacts, verified on the way out and on the way in.

    {"foveal": "session", "format": 1, "session": "fix-login", "created_ms": …, "entries": 2, "chain": "…", "secret": "…", …}
    {"artifact": "<sha256>", "data": "<base64>"}                            a piece of an artifact, in order; one or more
    {"id": "…", "parent": null, "time_ms": …, "author": "…", "payload": "={…}"}       or "payload_base64"
    {"end": "<sha256 of all lines before>"}

`chain` is the hash of the last entry, computed as in a store. A file that was cut off, changed or put together by hand is refused
before anything of it is written, and so is one that a store could not keep, or would call damaged.
"""

import time
from base64 import b64decode, b64encode
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import groupby
from typing import BinaryIO

import msgspec

from foveal.stores.chain import link, seed
from foveal.stores.checks import check_drafts, check_scope, check_secret, check_session
from foveal.stores.format import ENVELOPE
from foveal.stores.labels import Labels
from foveal.stores.port import Draft, Row, Store, Writer
from foveal.stores.references import artifacts_in
from foveal.stores.rows import check_readable, to_entry
from foveal.values.codec import decode
from foveal.values.errors import BadEntry, BadInput, FovealError, LeaseLost, NotFound, SessionHeld

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
    scope: str | None = None
    updated_ms: int | None = None
    """The time of the last use, by which sessions expire; files of Foveal 0.1 have none."""


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
    """Write a session to a stream, each row and each artifact verified. It may be written to in the meantime; `NotFound` if it is
    deleted, `StoreCorrupt` if one of its rows is no entry."""
    card = next(iter(store.cards(session)), None)
    if card is None:
        raise NotFound(f"there is no session {session!r}")
    check_readable(store, session)
    chain, artifacts = seed(session), dict[str, None]()
    for row in store.rows(session, upto=card.entries):
        chain = link(chain, row)
        artifacts |= dict.fromkeys(artifacts_in(to_entry(row, session).body))
    secret = b64encode(store.secret(session)).decode()
    counts = (card.created_ms, card.entries, chain.hex(), secret, len(artifacts))
    portrait = Portrait(FORMAT, session, *counts, card.title, card.tags, card.scope, card.updated_ms)
    digest = sha256()
    for line in _lines(store, portrait, artifacts):
        digest.update(line)
        stream.write(line)
    stream.write(_encode({"end": digest.hexdigest()}) + b"\n")
    return portrait


def verify_export(stream: BinaryIO) -> Portrait:
    """Read a file to its end and return its first line; `BadInput` unless it is whole and any store can keep it. The stream must
    be seekable, and is left where it was."""
    start = stream.tell()
    portrait, lines = _read(stream)
    _check_portrait(portrait)
    chain = seed(portrait.session)
    ids, artifacts, named = set[str](), set[str](), set[str]()
    for artifact, group in groupby(lines, key=lambda line: line.artifact):
        if artifact is not None:
            if _digest(group) != artifact:
                raise BadInput(f"the artifact {artifact} does not match its name; the file was changed")
            artifacts.add(artifact)
            continue
        for draft in map(_draft, group):
            check_drafts([draft])
            if draft.id in ids:
                raise BadInput(f"the file has two entries of the id {draft.id}; it was changed")
            ids.add(draft.id)
            chain = link(chain, Row(len(ids), draft.id, draft.parent, draft.time_ms, draft.author, draft.payload))
            try:
                named.update(artifacts_in(decode(draft.payload)))
            except BadEntry as error:
                raise BadInput(f"entry {len(ids):,} of the file, {draft.id}: {error}") from None
    if (len(ids), chain.hex(), len(artifacts)) != (portrait.entries, portrait.chain, portrait.artifacts):
        raise BadInput(
            f"the file promises {portrait.entries:,} entries and {portrait.artifacts:,} artifacts, and holds {len(ids):,} and "
            f"{len(artifacts):,}, or others than those; it was changed"
        )
    if named != artifacts:
        raise BadInput(
            f"the entries of the file name {len(named):,} artifacts, of which it lacks {len(named - artifacts):,}, and it holds "
            f"{len(artifacts - named):,} that none of them names; it was changed"
        )
    stream.seek(start)
    return portrait


def _check_portrait(portrait: Portrait) -> None:
    """Raise `BadInput` if a store would refuse the name, the labels, the scope or the secret of a file, or misunderstand them."""
    check_session(portrait.session)
    check_scope(portrait.scope)
    Labels().entitled(portrait.title).tagged(portrait.tags, ())
    secret = _secret(portrait)
    check_secret(secret)
    if secret.startswith(ENVELOPE):
        raise BadInput("the secret in line 1 is an encrypted one, which no export holds; the file was changed")


def _secret(portrait: Portrait) -> bytes:
    try:
        return b64decode(portrait.secret, validate=True)
    except ValueError:
        raise BadInput("the secret in line 1 is not in base64; the file was changed") from None


def import_session(store: Store, stream: BinaryIO, *, name: str | None = None) -> Portrait:
    """Add an exported session to a store, under its own name or another one: whole, or not at all. It is verified first, so
    the stream must be seekable. `BadInput` if there is such a session already."""
    return import_verified(store, stream, verify_export(stream), name=name)


def import_verified(store: Store, stream: BinaryIO, portrait: Portrait, *, name: str | None = None) -> Portrait:
    """Add a session whose file was verified, like `import_session`.

    Scope, labels and times come with it: it expires when the original would.
    """
    if name is not None:
        check_session(name)
    session = portrait.session if name is None else name
    drafts: list[Draft] = []  # all of them, for one commit
    with _new_session(store, session, secret=_secret(portrait), scope=portrait.scope) as writer:
        kept = store.artifacts_for(session)
        for artifact, group in groupby(_read(stream)[1], key=lambda line: line.artifact):
            if artifact is not None:
                kept.put(line.data or b"" for line in group)
            else:
                drafts.extend(map(_draft, group))
        store.entitle(session, portrait.title)
        store.tag(session, add=portrait.tags)
        writer.append(drafts)
    now_ms = time.time_ns() // 1_000_000
    used_ms = portrait.updated_ms
    if used_ms is None:
        used_ms = max([portrait.created_ms, *(draft.time_ms for draft in drafts)])
    times_ms = [min(max(each, 0), now_ms) for each in (portrait.created_ms, used_ms)]  # a file's clock may be wrong
    with suppress(SessionHeld):  # it is in use already
        store.backdate(session, created_ms=times_ms[0], updated_ms=times_ms[1])
    return portrait


def add_session(store: Store, session: str, drafts: Sequence[Draft], *, secret: bytes) -> None:
    """Make a session of these entries: all of them or none. `BadInput` if there is such a session already."""
    with _new_session(store, session, secret=secret) as writer:
        writer.append(drafts)


@contextmanager
def _new_session(store: Store, session: str, *, secret: bytes, scope: str | None = None) -> Generator[Writer]:
    """Make a session and yield its writer; if the block fails, the session is deleted. `BadInput` if there is one already.

    One without entries that has this secret is what an import left that was killed, and is taken for new.
    """

    def check_new() -> None:
        card = next(iter(store.cards(session)), None)
        if card is not None and (card.entries or store.secret(session) != secret):
            raise BadInput(f"the store has a session {session!r} already; name a new file, or another session")

    check_new()  # before a scope is given to it
    writer = store.acquire(session, secret=secret, scope=scope)
    try:
        check_new()  # while nobody else can write
        try:
            yield writer
        except LeaseLost:  # it belongs to somebody else now
            raise
        except BaseException:
            with suppress(FovealError):  # the first error says more
                store.delete([session], takeover=True)
            raise
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
    chain = seed(portrait.session)
    for row in store.rows(portrait.session, upto=portrait.entries):
        chain = link(chain, row)
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
    if chain.hex() != portrait.chain:
        raise NotFound(f"session {portrait.session!r} was deleted and made again while it was exported")


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
