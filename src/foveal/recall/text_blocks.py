"""The blocks of an artifact as text; each block can be decoded without those before it.

Text comes back unchanged, lone surrogates included; bytes that never were text come as U+FFFD. A block that holds such bytes has
its lone surrogates replaced as well. Blocks begin at the same places however a store chunks its artifacts, so that the same
bytes always give the same text.
"""

import codecs
from collections.abc import Iterable, Iterator
from typing import NamedTuple

BLOCK_BYTES = 1 << 18
"""Size of a block; file artifacts are read in pieces of this size as well."""


class DecodedBlock(NamedTuple):
    """One block: its bytes and their text."""

    data: bytes
    """The bytes of the text: they begin with those of a character that the block before could not finish."""
    carried: int
    """How many bytes come from the block before."""
    text: str


def decoded(chunks: Iterable[bytes]) -> Iterator[str]:
    return (block.text for block in blocks_of(chunks))


def blocks_of(chunks: Iterable[bytes]) -> Iterator[DecodedBlock]:
    carried, before = b"", b""
    for block in _even(chunks):
        if before:
            text, rest = _text(carried + before)
            yield DecodedBlock(carried + before, len(carried), text)
            carried = rest
        before = block
    if before:
        yield DecodedBlock(carried + before, len(carried), whole_text(carried + before, is_last=True))


def whole_text(data: bytes, *, is_last: bool) -> str:
    """Return the text of one block; if it is the last one, of every byte that is left."""
    text, rest = _text(data)
    return text + rest.decode("utf-8", "replace") if is_last else text


def _text(data: bytes) -> tuple[str, bytes]:
    """Return the characters that end in these bytes, and the bytes of one that does not."""
    try:
        text, used = codecs.utf_8_decode(data, "surrogatepass", False)
    except UnicodeDecodeError:
        text, used = codecs.utf_8_decode(data, "replace", False)
    return text, data[used:]


def _even(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        data = rest + chunk if rest else chunk
        whole = len(data) - len(data) % BLOCK_BYTES
        for at in range(0, whole, BLOCK_BYTES):
            yield data[at : at + BLOCK_BYTES]
        rest = data[whole:]
    if rest:
        yield rest
