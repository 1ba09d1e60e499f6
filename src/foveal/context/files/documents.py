"""The text of a PDF or office document, read by a process of its own.

Parsers of documents are large and their input is untrusted: some files hang them, some make them take all memory. The kernel
enforces limits on the process that reads; whatever happens in it, the result is a text or a note.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import msgspec

from foveal.context.files.archives import listing
from foveal.context.files.read_options import ReadLimits
from foveal.values.errors import MissingExtra

_READER = Path(__file__).with_name("extract.py")
_CHARACTER_BYTES = 12
"""Most bytes that a character takes in JSON."""


class Document(msgspec.Struct, frozen=True):
    """The text of a document; if `text` is None, `note` gives the reason."""

    text: str | None = None
    pages: int = 0
    """The number of its `unit`s, read or not."""
    note: str = ""
    unit: str = "pages"


class _Format(msgspec.Struct, frozen=True):
    name: str
    """Its name for the reader."""
    module: str
    extra: str
    unit: str = "pages"


_PDF = _Format("pdf", "pypdf", "pdf")
_WORD = _Format("word", "docx", "office")
_SHEETS = _Format("sheets", "python_calamine", "office", "sheets")
_SLIDES = _Format("slides", "pptx", "office", "slides")

_FORMATS: dict[str, _Format] = {
    "application/pdf": _PDF,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": _WORD,
    "application/vnd.ms-word.document.macroEnabled.12": _WORD,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": _SHEETS,
    "application/vnd.ms-excel.sheet.macroEnabled.12": _SHEETS,
    "application/vnd.ms-excel.sheet.binary.macroEnabled.12": _SHEETS,
    "application/vnd.ms-excel": _SHEETS,
    "application/vnd.oasis.opendocument.spreadsheet": _SHEETS,
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": _SLIDES,
}


def read_document(stream: BinaryIO, media_type: str, limits: ReadLimits) -> Document:
    """Return the text of a document, or a note with the reason why there is none. Never raises for its content."""
    found = _FORMATS.get(media_type)
    if found is None:
        return Document(note=f"its text cannot be read: there is no reader for {media_type}")
    if find_spec(found.module) is None:
        return Document(note=f"its text cannot be read: {MissingExtra('reading it', found.extra)}")
    size = stream.seek(0, os.SEEK_END)
    if size > limits.document_bytes:
        return Document(note=f"its text was not read: {size:,} bytes are above the limit of {limits.document_bytes:,}")
    if found is not _PDF and (bomb := _bomb(stream, limits)):
        return Document(note=f"its text was not read: {bomb}")
    stream.seek(0)
    read = _read_apart(stream.read(), found.name, limits)
    return msgspec.structs.replace(read, unit=found.unit)


def _bomb(stream: BinaryIO, limits: ReadLimits) -> str:
    """Return the reason not to open an office document, which is an archive that may unpack to anything."""
    stream.seek(0)
    if stream.read(2) != b"PK":
        return ""  # the old formats, which are not packed
    found = listing(stream, "application/zip", 0)
    if found is None or found.note:
        return "its archive is damaged"
    if found.unpacked_bytes > limits.unpacked_bytes:
        return f"it unpacks to {found.unpacked_bytes:,} bytes, above the limit of {limits.unpacked_bytes:,}"
    return ""


def _read_apart(data: bytes, name: str, limits: ReadLimits) -> Document:
    numbers = (limits.pages, limits.characters, int(limits.seconds) + 1, limits.memory_bytes)
    command = [sys.executable, "-P", "-S", str(_READER), name, *map(str, numbers)]
    # The reader gets the document and the installed modules, and nothing else of this process.
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONUTF8": "1"}
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            command, input=data, capture_output=True, timeout=limits.seconds, check=False, env=variables, cwd="/"
        )
    except subprocess.TimeoutExpired:
        return Document(note=f"its text was not read: that took more than {limits.seconds:g} seconds")
    except OSError as error:
        return Document(note=f"its text was not read: no process could be started for it ({error})")
    if done.returncode != 0 or len(done.stdout) > limits.characters * _CHARACTER_BYTES + 4_096:
        return Document(note=f"its text was not read: the reader ended with code {done.returncode}; is it damaged?")
    try:
        return msgspec.json.decode(done.stdout, type=Document)
    except msgspec.DecodeError:
        return Document(note="its text was not read: the reader gave no answer; is it damaged?")
