"""Rows to learn from: sessions folded as the engine would, and of each name and line that went, whether it was needed later.

The oldest messages go into the digest until the rest fits, at several limits. After each fold, every name and every line of
the digest that the rest does not show is one row.
"""

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from foveal.summary.ledger.events import LedgerStep
from foveal.summary.relevance import RelevanceState, update
from foveal.summary.relevance.features import Features, FeatureTable, ShownElsewhere
from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES
from foveal_bench.training.sessions import LEAST_LINE, TrainingSession, message_text

LIMITS = (16_000, 32_000, 48_000)
AIM = 0.35
"""What is left of the limit after a fold, without the digest."""
ONE_IN = 4.0
"""Of what was not needed, which is nearly everything, one in so many is taken and counts for all of them."""
NEEDED = 0.02
"""Of all rows, in the sessions that the package's weights were trained on."""
_SEED = 7


class Row(NamedTuple):
    features: tuple[float, ...]
    needed: bool
    weight: float


class FoldRows(msgspec.Struct, frozen=True):
    """All that one fold has to choose from."""

    names: list[Row]
    lines: list[Row]


def rows_of(session: TrainingSession, common: frozenset[str]) -> list[FoldRows]:
    """The folds of a session at every limit that it goes beyond."""
    return [one for limit in LIMITS if sum(session.tokens) > limit for one in _at(session, limit, common)]


def _at(session: TrainingSession, limit: int, common: frozenset[str]) -> Iterator[FoldRows]:
    of_names, of_lines = _Draw(), _Draw()
    for digest, shown, newest, now in _folds(session, limit):
        facts = Features(digest, shown, newest)
        names = dict[str, bool]()
        for name in facts.all_names():
            if name not in shown.names:
                needed = name not in common and session.needed(name, now)
                if of_names.takes(needed):
                    names[name] = needed
        lines = dict[int, bool]()
        for i, line in enumerate(digest.lines):
            if (text := line.text.strip()) not in shown.lines:
                needed = len(text) >= LEAST_LINE and text not in common and session.needed(text, now)
                if of_lines.takes(needed):
                    lines[i] = needed
        yield FoldRows(
            _rows(facts.of_names(list(names)), NAME_FEATURES, names.values()),
            _rows(facts.of_lines(list(lines)), LINE_FEATURES, lines.values()),
        )


def _folds(session: TrainingSession, limit: int) -> Iterator[tuple[RelevanceState, ShownElsewhere, int, int]]:
    """The digest after each fold under this limit, what is still shown, the newest that is folded, the next message."""
    digest, start, tokens = RelevanceState(), 0, 0
    for now, message in enumerate(session.messages):
        if message.role == "assistant" and tokens > limit:
            first = start
            while start < now and (tokens > limit * AIM or session.messages[start].role == "tool"):
                tokens -= session.tokens[start]
                start += 1
            digest = update(digest, _steps(session, range(first, start)))
            yield digest, ShownElsewhere(message_text(one) for one in session.messages[start:now]), start - 1, now
        tokens += session.tokens[now]


def _steps(session: TrainingSession, places: Iterable[int]) -> list[LedgerStep]:
    return [LedgerStep(f"{place:010x}", session.messages[place], place) for place in places]


class _Draw:
    """Which rows are taken: all that were needed, and one in ONE_IN of the others. The same ones every time."""

    def __init__(self) -> None:
        self._random = random.Random(_SEED)

    def takes(self, needed: bool) -> bool:
        return needed or self._random.random() * ONE_IN < 1


def _rows(table: FeatureTable, features: tuple[str, ...], needed: Collection[bool]) -> list[Row]:
    if not needed:
        return []
    return [
        Row(row, is_needed, 1.0 if is_needed else ONE_IN)
        for row, is_needed in zip(table.rows(features), needed, strict=True)
    ]


def balanced(folds: Sequence[FoldRows]) -> list[FoldRows]:
    """The same rows, with those that were needed counting for NEEDED of all.

    What is hardly ever needed is not shown even where there is room. Of an agent that seldom looks back, a summary would else
    show nothing.
    """
    total = sum(row.weight for fold in folds for row in (*fold.names, *fold.lines))
    needed = sum(row.weight for fold in folds for row in (*fold.names, *fold.lines) if row.needed)
    each = NEEDED / (1 - NEEDED) * (total - needed) / needed if needed else 1.0
    return [FoldRows(_weighed(fold.names, each), _weighed(fold.lines, each)) for fold in folds]


def _weighed(rows: Iterable[Row], each: float) -> list[Row]:
    return [row._replace(weight=row.weight * each) if row.needed else row for row in rows]
