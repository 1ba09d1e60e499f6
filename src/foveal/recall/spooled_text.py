"""A text that may be too long for memory: beyond `IN_MEMORY_BYTES` it is in a temporary file."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile
from typing import Self

from foveal.recall.text_blocks import BLOCK_BYTES, decoded
from foveal.values.errors import StoreFailed

IN_MEMORY_BYTES = 8 << 20
"""Nearly every line of a text is far shorter, so that no file is made for it."""


class SpooledText:
    """A text that is written piece by piece and then read as one buffer. Leaving it as a context removes its file."""

    def __init__(self) -> None:
        self.is_ascii = True
        self._file = SpooledTemporaryFile[bytes](max_size=IN_MEMORY_BYTES)
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, text: str) -> None:
        """Write a further piece."""
        self.is_ascii = self.is_ascii and text.isascii()
        try:
            self._size += self._file.write(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise StoreFailed(
                f"a line of more than {self._size:,} bytes could not be kept in a temporary file ({error}); "
                "free space there, or set TMPDIR to another folder."
            ) from error

    @contextmanager
    def buffer(self) -> Generator[bytes | mmap]:
        """Open all bytes of the text, in UTF-8 with lone surrogates, as one buffer."""
        self._file.flush()
        if self._size <= IN_MEMORY_BYTES:
            self._file.seek(0)
            yield self._file.read()
        else:
            with mmap(self._file.fileno(), 0, access=ACCESS_READ) as mapped:
                yield mapped

    def texts(self, upto: int | None = None) -> Iterator[str]:
        """Yield the text of the first `upto` bytes (all, if not given), block by block."""
        with self.buffer() as data:
            end = len(data) if upto is None else upto
            yield from decoded(data[at : min(at + BLOCK_BYTES, end)] for at in range(0, end, BLOCK_BYTES))

    def characters_before(self, end: int) -> int:
        """Return how many characters the first `end` bytes hold."""
        return end if self.is_ascii else sum(map(len, self.texts(end)))
