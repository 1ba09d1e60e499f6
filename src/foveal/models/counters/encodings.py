"""Exact counts with packaged vocabularies.

**Long texts are cut into pieces** so that time and memory stay in proportion. A cut is *safe* between an ASCII letter or
digit and a space, and between a line feed and an ASCII letter or digit: the splitting patterns of the OpenAI encodings
end a token there whatever surrounds it, so the counts of the two sides add up exactly. Where the last `_LOOK_BACK_CHARS`
of a piece have no safe place (base64, unspaced scripts, a million spaces) the cut is *forced* and may fall inside a token.
Over 600 000 random cuts the sum of the two sides was between 4 below and 6 above the exact count, so every forced cut adds
`FORCED_CUT_TOKENS`: the count stays on the upper side, by at most about 14 tokens in each 65 536 characters. Texts up to
that size are never cut and always exact.

**The interpreter lock** is held by the single-text calls of the vocabulary library and released by its batch calls, so
larger texts go through the batch call. That call keeps a thread pool which a forked process inherits without its threads
and would wait for for ever; a fork of a process that used it counts piece by piece instead.
"""

import os
import re
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from foveal.models.counters.counter import Counter
from foveal.models.counters.fallback import ByteClassCounter

if TYPE_CHECKING:
    from splintr import AnyTokenizer

PIECE_CHARS = 65_536
FORCED_CUT_TOKENS = 8  # twice the largest undershoot seen (see above)
_LOOK_BACK_CHARS = 2_048
_GROUP_PIECES = 32  # pieces encoded together: 2 M characters, which bounds the memory of one call
_BATCH_CHARS = 16_384  # about a millisecond of work: above it, let other threads run
_SAFE_CUT = re.compile(r".*(?:[A-Za-z0-9](?= )|\n(?=[A-Za-z0-9]))", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TOKEN_BYTES = 4  # the flat calls return one unsigned 32-bit id a token


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces of at most `PIECE_CHARS`, each with whether the cut after it was forced."""
    start = 0
    while len(text) - start > PIECE_CHARS:
        limit = start + PIECE_CHARS
        safe = _SAFE_CUT.match(text, limit - _LOOK_BACK_CHARS, limit + 1)
        end = safe.end() if safe else limit
        yield text[start:end], safe is None
        start = end
    yield text[start:], False


class Encoding:
    """A counter of one vocabulary, which is loaded at the first count."""

    # The process whose thread pool is alive; see the theory above. Shared, because the library has one pool.
    _pool_pid: ClassVar[int | None] = None
    _loading: ClassVar[dict[int, threading.Lock]] = {}
    """The lock of each process: a forked one may inherit that of its parent in the middle of a loading."""

    __slots__ = ("_fallback", "_loaded_pid", "_markers", "_tokenizer", "_vocabulary", "failure")

    def __init__(self, name: str) -> None:
        self._vocabulary = name
        self.failure: str | None = None  # why the vocabulary could not be loaded; counts are estimates from then on
        self._fallback = ByteClassCounter(stands_for=name)
        self._tokenizer: AnyTokenizer | None = None
        self._loaded_pid = 0
        self._markers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self._vocabulary if self.failure is None else self._fallback.name

    def count(self, text: str) -> int:
        tokenizer = self._load()
        if tokenizer is None:
            return self._fallback.count(text)
        try:
            return self._count(tokenizer, text)
        except UnicodeEncodeError:  # lone surrogates cannot be sent to a provider either: they go out as U+FFFD
            return self.count(_SURROGATE.sub("\ufffd", text))
        except BaseException as error:
            _reraise_unless_failure(error)
            return self._fallback.count(text)

    def _count(self, tokenizer: "AnyTokenizer", text: str) -> int:
        if len(text) <= _BATCH_CHARS:
            return self._count_piece(tokenizer, text)
        tokens, group = 0, list[str]()
        for piece, forced in pieces(text):
            tokens += FORCED_CUT_TOKENS * forced
            if self._spells_marker(piece) or not self._may_batch():
                tokens += self._count_piece(tokenizer, piece)
                continue
            group.append(piece)
            if len(group) == _GROUP_PIECES:
                tokens += _batch_tokens(tokenizer, group)
                group.clear()
        return tokens + _batch_tokens(tokenizer, group)

    def _count_piece(self, tokenizer: "AnyTokenizer", piece: str) -> int:
        # The flat call is the fastest but reads spelled-out special tokens as such; text is never that.
        if self._spells_marker(piece):
            return len(tokenizer.encode_ordinary(piece))
        return len(tokenizer.encode_flat(piece)) // _TOKEN_BYTES

    def _spells_marker(self, text: str) -> bool:
        return any(marker in text for marker in self._markers)

    @classmethod
    def _may_batch(cls) -> bool:
        pid = os.getpid()
        if cls._pool_pid is None:
            cls._pool_pid = pid
        return cls._pool_pid == pid

    def _is_settled(self) -> bool:
        # A forked process loads its own: the inherited one may hold a lock of a thread that was not forked.
        return self.failure is not None or (self._tokenizer is not None and self._loaded_pid == os.getpid())

    def _load(self) -> "AnyTokenizer | None":
        if self._is_settled():
            return self._tokenizer
        with self._loading.setdefault(os.getpid(), threading.Lock()):
            return self._load_once()

    def _load_once(self) -> "AnyTokenizer | None":
        """Load the vocabulary, unless another thread has just done so: it takes a tenth of a second and 75 MB."""
        if self._is_settled():
            return self._tokenizer
        try:
            from splintr import Tokenizer  # noqa: PLC0415  a 38 MB library that importing foveal must not load

            tokenizer = Tokenizer.from_pretrained(self._vocabulary)
            # Two characters of each special token are enough to send a text the careful way.
            self._markers = tuple(sorted({token[:2] for token in tokenizer.special_tokens()}))
        except BaseException as error:
            _reraise_unless_failure(error)
            self.failure = f"the vocabulary {self._vocabulary} could not be loaded: {error}"
            return None
        self._tokenizer, self._loaded_pid = tokenizer, os.getpid()
        return tokenizer


def _batch_tokens(tokenizer: "AnyTokenizer", texts: list[str]) -> int:
    if not texts:
        return 0
    _, offsets = tokenizer.encode_batch_flat(texts)
    ends = memoryview(offsets).cast("Q")
    return ends[-1] - ends[0]


def _reraise_unless_failure(error: BaseException) -> None:
    """Raise the error again unless it is a failure to count: an `Exception`, or a panic of the native library, which is none."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


@cache
def encoding(name: str) -> Counter:
    """Return the counter of a packaged vocabulary such as "o200k_base"; an estimate from above where the library is missing."""
    if find_spec("splintr") is None:
        return ByteClassCounter(stands_for=name, reason="splintr is not installed")
    return Encoding(name)
