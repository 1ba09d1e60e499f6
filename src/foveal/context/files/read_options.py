"""How a file is read: for which provider, how much of it is shown, and what a document may cost."""

from collections.abc import Callable

import msgspec

WHOLE_BYTES = 10 * 1024
"""Texts up to this are shown whole: about 2 500 tokens, less than a model spends on asking for them."""


class ReadLimits(msgspec.Struct, frozen=True):
    """What reading one file may take. What lies beyond is not read, and a note says so."""

    text_bytes: int = 16 << 20
    document_bytes: int = 64 << 20
    unpacked_bytes: int = 256 << 20
    """Of an office document, which is an archive: what its parts say that they unpack to."""
    pages: int = 500
    characters: int = 2_000_000
    seconds: float = 30.0
    memory_bytes: int = 1 << 30
    members: int = 2_000
    """Of an archive: how many are listed; the others are counted."""
    megapixels: int = 80


class ReadOptions(msgspec.Struct, frozen=True):
    count: Callable[[str], int]
    ref: str
    """The reference under which the whole text will be kept."""
    family: str = ""
    """The provider or model family that images are scaled and counted for; the strictest limits if it is not known."""
    whole_bytes: int = WHOLE_BYTES
    shown_tokens: int = 1_500
    limits: ReadLimits = ReadLimits()


def many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
