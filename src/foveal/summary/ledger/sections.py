"""Bounded sections: the least used items are dropped first, with the same result for one update or two.

Sizes are those of the encoded JSON. A section is cut back only after a whole message, and then to some way below its bound,
so that it is not sorted again for every message.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from foveal.summary.ledger.items import LedgerCommand, LedgerFailure, LedgerFile, Quote

K = TypeVar("K", bound=msgspec.Struct)


class Bound(NamedTuple):
    most: int
    size_bytes: int


FILES = Bound(160, 9_500)
COMMANDS = Bound(50, 5_000)
FAILURES = Bound(50, 5_000)
TODOS = Bound(100, 5_500)
QUOTES = Bound(80, 9_500)
STATEMENTS = Bound(1_600, 96_000)
QUESTIONS = Bound(6, 1_500)
CHILDREN = Bound(24, 2_000)
PENDING = Bound(64, 4_500)
"""All bounds together, with a plan of 1,200 characters of three bytes each, are below 156,000 bytes. Most of it is the user's
short messages: everything that people type in a thousand turns. How many of them a summary shows follows from its tokens."""

_CUT_TO = 0.8


class Section(Generic[K]):
    """Items by key, and their total size."""

    def __init__(self, items: Iterable[tuple[str, K]], bound: Bound, rank: Callable[[K], tuple[Any, ...]]) -> None:
        self.items: dict[str, K] = dict(items)
        self._bound, self._rank = bound, rank
        # All at once: most items are never touched while the ledger is built.
        self._total = _size(self.items.values())
        self._before: dict[str, K | None] = {}
        """Former values of the items that changed since the last cut: their sizes are measured together."""

    def put(self, key: str, item: K) -> None:
        self._before.setdefault(key, self.items.get(key))
        self.items[key] = item

    def drop(self, key: str) -> None:
        if (item := self.items.pop(key, None)) is not None:
            self._before.setdefault(key, item)

    def cut(self) -> None:
        """Cut the section back below its bound, if it is exceeded."""
        if self._before:
            now = (self.items.get(key) for key in self._before)
            self._total += _size(now) - _size(self._before.values())
            self._before.clear()
        most, size = self._bound
        if len(self.items) <= most and self._total <= size:
            return
        for *_, key in sorted((*self._rank(item), key) for key, item in self.items.items()):
            self._total -= _size((self.items.pop(key),))
            if len(self.items) <= most * _CUT_TO and self._total <= size * _CUT_TO:
                return


def _size(items: Iterable[msgspec.Struct | None]) -> int:
    """Return the encoded size of the items, each with the comma after it."""
    listed = [item for item in items if item is not None]
    return len(msgspec.json.encode(listed)) - 1 if listed else 0


def rank_by_use(item: Any) -> tuple[float, ...]:
    """Return a rank in which each use is worth some messages of age."""
    return (item.seq + _USE_WORTH * min(item.uses, _MOST_USES),)


_USE_WORTH, _MOST_USES = 8, 40


def rank_file(file: LedgerFile) -> tuple[float, ...]:
    return (file.seq + _USE_WORTH * min(file.uses, _MOST_USES) + (100 if file.change else 0),)


def rank_command(command: LedgerCommand) -> tuple[float, ...]:
    return (command.outcome == "running", *rank_by_use(command))


def rank_failure(failure: LedgerFailure) -> tuple[float, ...]:
    return (not failure.resolved, *rank_by_use(failure))


def rank_quote(quote: Quote) -> tuple[float, ...]:
    """Return the rank of a quote of a long message: a person's own sentences before pasted bulk."""
    return (not quote.pasted, _QUOTE_WORTH[quote.why], quote.seq)


def rank_statement(quote: Quote) -> tuple[float, ...]:
    """Return the rank of a short message: the newest, with some messages of age forgiven to those that sound like a rule.

    Words that sound like it are known of few languages, so that they may not decide alone.
    """
    return (quote.seq + _CUE_WORTH * _QUOTE_WORTH[quote.why],)


_QUOTE_WORTH = {"said": 0, "decision": 1, "request": 1, "rule": 2}
_CUE_WORTH = 50
