"""A file that a workspace holds, and the note beside it that says what its user called it."""

import json
import re
from base64 import b32encode
from secrets import token_bytes
from typing import Any

import msgspec

from foveal.values.errors import StoreCorrupt

META = ".meta"
MOST_META_BYTES = 64 * 1024
MOST_NAME_CHARACTERS = 8_192
"""Twice the longest path of Linux; what is longer is no name, and its beginning will do."""

_ID = re.compile(r"[a-z2-7]{26}\Z")


class StoredFile(msgspec.Struct, frozen=True):
    id: str
    name: str
    """What the user called it: data, never a path. It may hold anything that a text can hold."""
    folder: str
    file: str
    """Its name on disk, which was generated."""
    media_type: str
    """What its name says. The content may say otherwise."""
    size_bytes: int
    sha256: str

    @property
    def place(self) -> str:
        """Where it lies, from the session's folder on."""
        return f"{self.folder}/{self.file}"


def new_id() -> str:
    """128 random bits: no two are alike, and none can be guessed."""
    return b32encode(token_bytes(16))[:26].decode().lower()


def is_id(text: str) -> bool:
    return _ID.match(text) is not None


def to_note(stored: StoredFile) -> bytes:
    return to_json(msgspec.to_builtins(stored))


def from_note(data: bytes, place: str) -> StoredFile:
    try:
        return msgspec.convert(from_json(data), StoredFile)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise StoreCorrupt(place, f"the note of a stored file cannot be read ({error})") from error


def to_json(value: object) -> bytes:
    """JSON in which texts come back as they were: escapes would join two halves that never were one character."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))
