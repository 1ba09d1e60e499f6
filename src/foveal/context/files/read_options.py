"""Options of reading a file: its provider, the size of its excerpt, and the limits of a document."""

from collections.abc import Callable
from typing import Self

import msgspec

from foveal.models.counters import ModelCounter
from foveal.text.redaction import Redactor
from foveal.values.codec import sendable
from foveal.values.shown import short_ref

WHOLE_BYTES = 10 * 1024
"""Texts up to this size are shown whole: about 2 500 tokens, less than a model spends on asking for them."""


class ReadLimits(msgspec.Struct, frozen=True):
    """Limits of reading one file. The rest is not read, and a note says so."""

    text_bytes: int = 16 << 20
    document_bytes: int = 64 << 20
    unpacked_bytes: int = 256 << 20
    """The declared unpacked size of the parts of an office document, which is an archive."""
    pages: int = 500
    characters: int = 2_000_000
    seconds: float = 30.0
    memory_bytes: int = 1 << 30
    members: int = 2_000
    """Members of an archive that are listed; further ones are counted."""
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
    redact: Redactor = str
    """Takes the secrets out of names and texts before an excerpt is made of them; by default nothing."""

    @classmethod
    def for_entry(cls, entry_id: str, counter: ModelCounter, redact: Redactor) -> Self:
        """Return the options for a file that the entry of this id will show to a model that is counted so."""
        return cls(
            counter.counter.count, short_ref(entry_id), counter.family, redact=lambda text: sendable(redact(text))
        )


def many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
