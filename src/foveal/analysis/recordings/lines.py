"""The lines of a recording file: unpacked, decoded once, numbered; and every way in which a file can be bad.

Files are read line by line, so their size does not matter. Only a JSON document that is spread over many lines is read
whole. A last line that is cut off is handed on as `torn`, because only the format knows whether that is damage (a data
set) or normal (a session that is still being written).
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar, cast

import msgspec

from foveal.dialects.json_values import NotUnderstood, mapping, sequence
from foveal.values.errors import BadRecording

T = TypeVar("T")
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_DOCUMENT_STARTS = (b"{", b"[", b"[{")
"""A first line like this is the beginning of a pretty-printed document, whatever the file is called."""


class JsonLine(msgspec.Struct, frozen=True):
    number: int
    raw: bytes
    value: object
    torn: bool = False
    """The last line, cut off: no newline, not JSON. `value` is None."""


def read_lines(path: Path) -> Iterator[JsonLine]:
    """Yield all lines that are not blank. Raise `BadRecording` for a file that cannot be read."""
    file = str(path)
    found = False
    with _opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            content = raw.removeprefix(_BOM).strip() if number == 1 else raw.strip()
            if not content:
                continue
            if not found and _starts_document(path, content):
                content += b"\n" + stream.read()
            found = True
            yield from _decoded(file, number, content, last=not raw.endswith(b"\n"))
    if not found:
        raise BadRecording(file, None, "the file is empty; a recording has at least one line of JSON")


def session_lines(lines: Iterable[JsonLine], notes: list[str]) -> Iterator[JsonLine]:
    """Yield the lines of a session that may still be being written: a torn last line is noted, not an error."""
    for line in lines:
        if line.torn:
            notes.append(f"line {line.number} is cut off (the session was still being written?) and was left out")
        else:
            yield line


def dataset(lines: Iterable[JsonLine], file: str, read: Callable[[JsonLine, str], T]) -> Iterator[T]:
    """Yield one value for each line of a data set, in which a torn last line is damage."""
    for line in lines:
        if line.torn:
            raise BadRecording(file, line.number, "the last line is cut off in the middle of its JSON; copy it again")
        with at(file, line.number):
            found = read(line, file)
        yield found


def raw_at(line: JsonLine, path: tuple[str | int, ...], otherwise: str) -> str:
    """Return the JSON text at a path, byte for byte as it was written.

    `otherwise` is returned for the rare line that has no such bytes (lone surrogates, part of a document).
    """
    current = msgspec.Raw(line.raw)
    try:
        for key in path:
            if isinstance(key, str):
                current = msgspec.json.decode(current, type=dict[str, msgspec.Raw])[key]
            else:
                current = msgspec.json.decode(current, type=list[msgspec.Raw])[key]
        return bytes(current).decode()
    except (msgspec.DecodeError, LookupError, ValueError):
        return otherwise


@contextmanager
def at(file: str, line: int | None) -> Generator[None]:
    """Raise `BadRecording` with this file and line in place of `NotUnderstood`."""
    try:
        yield
    except NotUnderstood as problem:
        raise BadRecording(file, line, str(problem)) from None


def stem(file: str) -> str:
    """Return the name of a file without folder and known suffixes: the id of a session that has no other."""
    return re.sub(r"(\.(jsonl|json|ndjson))?(\.gz)?$", "", Path(file).name, flags=re.IGNORECASE)


@contextmanager
def _opened(path: Path) -> Generator[IO[bytes]]:
    file = str(path)
    if "\0" in file:
        raise BadRecording(repr(file), None, "there is no such file; a name cannot hold a NUL")
    try:
        with path.open("rb") as stream:
            if stream.peek(2)[:2] == _GZIP_MAGIC:
                with gzip.open(stream) as unpacked:
                    # GzipFile reads, iterates and closes as IO[bytes] does; its stub just does not say so.
                    yield cast("IO[bytes]", unpacked)
            else:
                yield stream
    except FileNotFoundError:
        raise BadRecording(file, None, "there is no such file") from None
    except IsADirectoryError:
        raise BadRecording(file, None, "this is a directory; name one file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
        raise BadRecording(file, None, f"the gzip data is cut off or damaged ({problem}); copy it again") from None
    except OSError as problem:
        raise BadRecording(file, None, f"the file cannot be read ({problem.strerror or problem})") from None


def _starts_document(path: Path, content: bytes) -> bool:
    """Return whether the first line is only the beginning of a JSON document over many lines."""
    if content in _DOCUMENT_STARTS:
        return True
    if ".json" not in path.suffixes[-2:] or not content.startswith((b"{", b"[")):
        return False
    try:
        decode_json(content)
    except ValueError:
        return True
    return False


def _decoded(file: str, number: int, content: bytes, last: bool) -> Iterator[JsonLine]:
    try:
        value = decode_json(content)
    except ValueError as problem:
        if last and number > 1:
            yield JsonLine(number, content, None, torn=True)
            return
        if b"\0" in content:
            raise BadRecording(file, number, "this is a binary file, not lines of JSON") from None
        raise BadRecording(file, number, f"this is not JSON ({problem}); each line must be one JSON value") from None
    for item in _documents(value):
        yield JsonLine(number, content, item)


def _documents(value: object) -> Sequence[object]:
    """Return the records in one JSON value: the elements of a list of conversations or session lines, else the value itself.

    A list of messages is one conversation.
    """
    items = sequence(value)
    first = mapping(items[0]) if items else None
    return [value] if items is None or first is None or "role" in first else items


def decode_json(content: bytes) -> object:
    """Return one JSON value. Raise `ValueError` with the reason.

    msgspec is strict and fast; text that it rejects gets a second chance, since recordings hold lone surrogates ("\\ud83d",
    half an emoji that a tool cut) and numbers out of range, and both are JSON.
    """
    try:
        try:
            return cast("object", msgspec.json.decode(content))
        except msgspec.DecodeError:
            return cast("object", json.loads(content.decode()))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
