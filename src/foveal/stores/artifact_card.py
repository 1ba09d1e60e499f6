"""The card of an artifact, made while its bytes pass by: hash, size, lines, and its two ends."""

from collections.abc import Iterable, Iterator
from hashlib import sha256

from foveal.stores.port import ArtifactCard
from foveal.values.errors import BadInput

EDGE_BYTES = 8192
"""Size of each end that is kept: about 2 000 tokens, enough to recognise a result without reading it."""
_LONGEST_CHARACTER = 4


class CardBuilder:
    """A card in the making: it counts and hashes bytes as they are added, and holds only their two ends."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._size = 0
        self._breaks = 0
        self._first = b""
        self._last = b""

    def add(self, chunk: bytes) -> None:
        self._digest.update(chunk)
        self._size += len(chunk)
        self._breaks += chunk.count(b"\n")
        if len(self._first) < 2 * EDGE_BYTES:
            self._first += chunk[: 2 * EDGE_BYTES - len(self._first)]
        self._last = chunk[-EDGE_BYTES:] if len(chunk) >= EDGE_BYTES else (self._last + chunk)[-EDGE_BYTES:]

    def card(self) -> ArtifactCard:
        lines = self._breaks + (self._size > 0 and not self._last.endswith(b"\n"))
        head, tail = self._first, b""
        if self._size > len(self._first):
            head, tail = _whole_end(self._first[:EDGE_BYTES]), _whole_start(self._last)
        return ArtifactCard(
            self._digest.hexdigest(), self._size, lines, head.decode(errors="replace"), tail.decode(errors="replace")
        )


def counted(chunks: Iterable[bytes], tally: CardBuilder) -> Iterator[bytes]:
    """Yield the chunks, checked, each after it was added to the card."""
    for chunk in check_chunks(chunks):
        tally.add(chunk)
        yield chunk


def check_chunks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks; `BadInput` if one is not bytes: iterating over one bytes object would give numbers."""
    for chunk in chunks:
        if not isinstance(chunk, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadInput(
                f"an artifact is made of chunks of bytes, not of {type(chunk).__name__}; give [data], not data"
            )
        yield chunk


def _whole_end(data: bytes) -> bytes:
    """Return the data without a UTF-8 character that is cut off at its end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 != 0x80:  # not a continuation: the character starts here
            length = 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
    return data


def _whole_start(data: bytes) -> bytes:
    """Return the data without the rest of a UTF-8 character that began before it."""
    for skip in range(min(_LONGEST_CHARACTER, len(data))):
        if data[skip] & 0xC0 != 0x80:
            return data[skip:]
    return data
