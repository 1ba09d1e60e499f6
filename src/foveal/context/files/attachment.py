"""One attached file: its kind, its text or image, and its excerpt for the prompt."""

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import msgspec

from foveal.context.file_names import FileKind, FileType
from foveal.context.files.archives import Listing, listing
from foveal.context.files.documents import read_document
from foveal.context.files.encodings import decode_text
from foveal.context.files.excerpts import FileBody, archive_body, table_body, text_body
from foveal.context.files.kinds import HEAD_BYTES, classify
from foveal.context.files.pictures import fit_image
from foveal.context.files.read_options import ReadLimits, ReadOptions, many
from foveal.context.workspace import StoredFile, Workspace
from foveal.models.counters import image_tokens
from foveal.stores.large_results import keep_stream
from foveal.stores.port import Store
from foveal.text.display import safe_file_name
from foveal.values.codec import sendable
from foveal.values.entry import Image, Message, Stored, Text

_LONGEST_TYPE = 40
"""Longer media types are not shown: those of office documents have 70 characters, and tell no more than the extension."""


class Attachment(msgspec.Struct, frozen=True):
    name: str
    """Safe to show: one line, visible, not too long."""
    kind: FileKind
    media_type: str
    """By content; by name if the content leaves it open."""
    size_bytes: int
    sha256: str
    shown: str
    """The text that the model is shown."""
    is_whole: bool
    """Whether `shown` holds all of `text`. If not, `text` has to be kept under the reference that `shown` names."""
    tokens: int
    """Tokens of `shown` and the image together."""
    text: str | None = None
    image: Image | None = None
    outline: str = ""
    """A description in a few lines, for lists and reminders."""
    notes: tuple[str, ...] = ()
    """Parts that could not be read or were cut, and contradictions."""
    file_id: str = ""
    """Its id in the workspace."""


class _Content(msgspec.Struct, frozen=True):
    """The content of a file."""

    text: str | None = None
    image: Image | None = None
    body: FileBody = FileBody("", "", is_whole=True)
    notes: tuple[str, ...] = ()
    tokens: int = 0
    facts: str = ""
    """Facts for the first line beside kind and size."""


def attach(
    workspace: Workspace,
    path: str | os.PathLike[str],
    reading: ReadOptions,
    *,
    name: str | None = None,
) -> Attachment:
    """Keep a file in the session's workspace and read it for the prompt.

    The file is in the workspace before it is read: if reading fails, the upload is not lost.
    """
    given = Path(path).name if name is None else name
    stored = workspace.put(path, given)
    with workspace.stream(stored.id) as stream:
        return read_file(stream, given, stored, reading)


def read_bytes(data: bytes, name: str, reading: ReadOptions) -> Attachment:
    """Read a file that is kept in no workspace."""
    stored = StoredFile("", name, "uploads", "", "", len(data), sha256(data).hexdigest())
    with TemporaryFile() as source:  # documents are read in another process, from a file
        source.write(data)
        source.seek(0)
        return read_file(source, name, stored, reading)


def message_of(file: Attachment, store: Store) -> Message:
    """Return the message that shows a file. A text that is not shown whole is kept in the store, behind the entry's reference."""
    first: Text | Stored = Text(file.shown)
    if file.text is not None and not file.is_whole:
        stored = keep_stream(store, [file.text.encode("utf-8", "surrogatepass")])
        first = msgspec.structs.replace(stored, shown=sendable(file.shown))
    return Message("user", (first, file.image) if file.image else (first,))


def read_file(source: BinaryIO, name: str, stored: StoredFile, reading: ReadOptions) -> Attachment:
    """Read an open file of a workspace, under the name that the user gave it.

    `MissingExtra` for an image that has to be changed and cannot be; all other problems become notes.
    """
    size = stored.size_bytes
    found, disagreement = _classified(source, name, reading.limits)
    reader = _READERS.get(found.kind)
    content = reader(source, name, found, reading) if reader and size else _Content(facts="" if size else "empty")
    notes = tuple(filter(None, (disagreement, *content.notes)))
    safe = safe_file_name(reading.redact(name))
    media_type = found.media_type if len(found.media_type) <= _LONGEST_TYPE else ""
    facts = ", ".join(filter(None, (found.kind, media_type, content.facts, f"{size:,} bytes")))
    place = f"; at {stored.place}" if stored.file else ""
    first = f"[file {safe}: {facts}; sha256 {stored.sha256[:16]}{place}]"
    head = "\n".join((first, *(f"[note: {note}]" for note in notes)))
    shown = f"{head}\n{content.body.shown}" if content.body.shown else head
    return Attachment(
        name=safe,
        kind=found.kind,
        media_type=found.media_type,
        size_bytes=size,
        sha256=stored.sha256,
        shown=shown,
        is_whole=content.body.is_whole,
        tokens=reading.count(shown) + content.tokens,
        text=content.text,
        image=content.image,
        outline=f"{first}\n{content.body.outline}" if content.body.outline else first,
        notes=notes,
        file_id=stored.id,
    )


def _classified(stream: BinaryIO, name: str, limits: ReadLimits) -> tuple[FileType, str]:
    head = stream.read(HEAD_BYTES)
    members: Sequence[str] = ()
    if head.startswith(b"PK") and (found := listing(stream, "application/zip", limits.members)):
        members = [member.name for member in found.members]
    stream.seek(0)
    return classify(name, head, members)


def _read_text(stream: BinaryIO, name: str, found: FileType, reading: ReadOptions) -> _Content:
    data = stream.read(reading.limits.text_bytes)
    is_cut = bool(stream.read(1))
    decoded = decode_text(data, is_cut=is_cut)
    if decoded is None:
        return _Content(notes=("its beginning is text, but the rest is not; it is not shown",))
    notes = [f"only its first {len(data):,} bytes were read"] if is_cut else []
    if decoded.is_guess:
        notes.append(f"it was read as {decoded.encoding}, which is a guess")
    text = reading.redact(decoded.text)
    body = table_body(text, found.media_type, reading) if found.kind == "table" else None
    lines = text.count("\n") + (not text.endswith("\n"))
    body = body or text_body(text, name, reading)
    return _Content(text, None, body, tuple(notes), facts=many(lines, "line"))


def _read_document(stream: BinaryIO, name: str, found: FileType, reading: ReadOptions) -> _Content:
    document = read_document(stream, found.media_type, reading.limits)
    if not document.text:
        return _Content(notes=(document.note,))
    pages = f"{document.pages:,} {document.unit}" if document.pages > 1 else ""
    text = reading.redact(document.text)
    body = text_body(text, name, reading)
    return _Content(text, None, body, (document.note,), facts=pages)


def _read_archive(stream: BinaryIO, name: str, found: FileType, reading: ReadOptions) -> _Content:
    held: Listing | None = listing(stream, found.media_type, reading.limits.members)
    if held is None:
        return _Content(notes=("what it holds cannot be listed here; it was not opened",))
    members = tuple(one._replace(name=reading.redact(one.name)) for one in held.members)
    text, body = archive_body(msgspec.structs.replace(held, members=members), reading)
    return _Content(text, None, body, (held.note,) if held.note else ())


def _read_image(stream: BinaryIO, name: str, found: FileType, reading: ReadOptions) -> _Content:
    most = reading.limits.document_bytes
    data = stream.read(most + 1)
    if len(data) > most:
        return _Content(notes=(f"the image is not shown: {most:,} bytes are the most that is opened",))
    picture = fit_image(data, found.media_type, reading)
    if picture.image is None:
        return _Content(notes=(f"the image is not shown: {picture.note}",))
    width, height = picture.image.width, picture.image.height
    tokens = image_tokens(reading.family, width, height)
    facts = ", ".join(filter(None, (f"{width:,}×{height:,} pixels", picture.note)))
    return _Content(None, picture.image, tokens=tokens, facts=facts)


_READERS: dict[FileKind, Callable[[BinaryIO, str, FileType, ReadOptions], _Content]] = {
    "text": _read_text,
    "code": _read_text,
    "table": _read_text,
    "pdf": _read_document,
    "office": _read_document,
    "archive": _read_archive,
    "image": _read_image,
}
