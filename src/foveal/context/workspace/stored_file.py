"""A file that a workspace holds, and the note beside it with the user's name of the file."""

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
"""Twice the longest path of Linux; a longer text is no name, and only its beginning is kept."""

_ID = re.compile(r"[a-z2-7]{26}\Z")


class StoredFile(msgspec.Struct, frozen=True):
    id: str
    name: str
    """The user's name of the file: data, never a path. It may hold any text."""
    folder: str
    file: str
    """Its generated name on disk."""
    media_type: str
    """The type by its name. The content may differ."""
    size_bytes: int
    sha256: str

    @property
    def place(self) -> str:
        """Its path below the session's folder."""
        return f"{self.folder}/{self.file}"


def new_id() -> str:
    """Return 128 random bits as a text: unique, and impossible to guess."""
    return b32encode(token_bytes(16))[:26].decode().lower()


def is_id(text: str) -> bool:
    return _ID.match(text) is not None


def from_note(data: bytes, place: str) -> StoredFile:
    try:
        return msgspec.convert(from_json(data), StoredFile)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise StoreCorrupt(place, f"the note of a stored file cannot be read ({error})") from error


def to_json(value: object) -> bytes:
    """Return JSON in which texts are kept exactly: escapes would join two surrogates that were never one character."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Any:
    return json.loads(data.decode("utf-8", "surrogatepass"))
