"""Files that come with the words for a run: read and checked before anything is started or said, so that a bad one costs nothing
but an error.

What is shown of a file follows the rules of attachments: small texts whole, larger ones by an outline with a reference
under which all of it can be recalled, images scaled for the provider.
"""

from collections.abc import Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TypeAlias

import msgspec

from foveal.agent.model_port import ModelChoice
from foveal.context import FileEntry, files
from foveal.context.files.attachment import Attachment
from foveal.context.files.read_options import ReadLimits
from foveal.models.counters import counter_for
from foveal.session.options import Clock
from foveal.text.redaction import Redactor
from foveal.values.entry import File
from foveal.values.errors import BadInput

RunFile: TypeAlias = "str | PathLike[str] | File"
"""A path, or a file whose bytes are at hand: `foveal.File("image/png", "shot.png", data)`."""

MOST_FILES = 20
"""Files of one message: more are a folder, which an agent has tools for."""
MOST_BYTES = ReadLimits().text_bytes
"""Bytes of one file. Of a longer text, only the beginning would be read."""
MOST_POSTED_BYTES = 2 * MOST_BYTES
"""Bytes of the files that wait in an inbox with one message: it is one row of the store."""


def read_run_files(
    given: Sequence[RunFile],
    model: ModelChoice,
    redact: Redactor | None = None,
    *,
    clock: Clock = Clock(),  # noqa: B008 - a frozen value
) -> list[FileEntry]:
    """Read the files of a message for a model, without the secrets in their names and texts if somebody looks for them.

    `BadInput` for one that is not there, too large, or of no known type.
    """
    if isinstance(given, str):  # each of its letters may well be the name of a file
        raise BadInput(f"files is the text {given!r:.80}; give a list of files")
    if len(given) > MOST_FILES:
        raise BadInput(f"{len(given)} files come with one message; {MOST_FILES} are the most. Name a folder instead")
    return [_read(*_content(one), model, clock.new_id(), redact) for one in given]


class _PostedFile(msgspec.Struct, frozen=True):
    """A file that was read, and the id of the entry that will show it."""

    id: str
    file: Attachment


_POSTED = msgspec.json.Decoder(tuple[_PostedFile, ...])


def posted_files(given: Sequence[RunFile], model: ModelChoice, redact: Redactor | None = None) -> msgspec.Raw:
    """Read the files of a message for a run under way, and return them as they lie in its inbox. `BadInput` as in
    `read_run_files`, and if they are together larger than one may be."""
    read = tuple(_PostedFile(one.id, one.file) for one in read_run_files(given, model, redact))
    written = msgspec.json.encode(read)
    if len(written) > MOST_POSTED_BYTES:
        raise BadInput(
            f"the files are together too large for a run under way: {len(written):,} bytes as they are kept, and "
            f"{MOST_POSTED_BYTES:,} are the most. Send them in several messages, or let a tool read them"
        )
    return msgspec.Raw(written)


def read_posted(files: msgspec.Raw) -> list[FileEntry]:
    """Return the files of a message of an inbox; none if another Foveal has written them in a way that this one cannot read."""
    try:
        return [FileEntry(one.id, one.file) for one in _POSTED.decode(files)] if bytes(files) else []
    except msgspec.MsgspecError:
        return []


def _content(given: RunFile) -> tuple[str, bytes]:
    if isinstance(given, File):
        if given.data is None:
            raise BadInput(f"the file {given.name!r} has no data; an address is not fetched: give its bytes, or a path")
        return given.name, _bounded(given.name, given.data)
    path = Path(fspath(given))
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise BadInput(f"{path} cannot be sent: it is no file. Name files, one by one")
        with path.open("rb") as stream:
            return path.name, _bounded(str(path), stream.read(MOST_BYTES + 1))
    except OSError as error:
        raise BadInput(f"{path} cannot be sent: {error.strerror or error}") from None
    except ValueError as error:  # a name that no file system has
        raise BadInput(f"{str(path)!r} cannot be sent: {error}") from None


def _bounded(name: str, data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise BadInput(f"{name} is too large to be sent: {MOST_BYTES:,} bytes are the most. Let a tool read it")
    return data


def _read(name: str, data: bytes, model: ModelChoice, entry_id: str, redact: Redactor | None) -> FileEntry:
    reading = files.ReadOptions.for_entry(entry_id, counter_for(model.model), redact or str)
    file = files.read_bytes(data, name, reading)
    if data and file.text is None and file.image is None:
        kinds = "it is no text, image, document or archive that can be read"
        raise BadInput(f"{file.name} cannot be sent: {'; '.join(filter(None, file.notes)) or kinds}")
    return FileEntry(entry_id, file)
