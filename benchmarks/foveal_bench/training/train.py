"""Training of weights on recorded sessions, judged on sessions that they were not trained on.

Sessions are dealt into folds; for each fold, weights are trained on the others and judged on it, beside the package's weights
and plain recency. The weights that come of it are trained on all sessions.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import msgspec

from foveal.analysis.measurement.case import Case
from foveal.analysis.recordings.recording import Recording
from foveal.analysis.tune.choice import LEAST_SESSIONS as LEAST_JUDGED
from foveal.summary.relevance.weights import Weights
from foveal.values.errors import BadInput
from foveal_bench.training.judgement import OWN, PACKAGE, RECENCY, Figure, Found, figure, gap, replayed
from foveal_bench.training.rows import LIMITS, FoldRows, balanced, rows_of
from foveal_bench.training.sessions import COMMON, TrainingSession, common
from foveal_bench.training.trees import boosted

LEAST_SESSIONS = 20
"""Longer than the lowest limit. With fewer, weights learn the sessions and not the work: see docs/tune.md for figures."""


class Examples(msgspec.Struct, frozen=True):
    """One session that was folded."""

    id: str
    folds: list[FoldRows]


class Training(msgspec.Struct, frozen=True):
    """The weights, and their far grounding on sessions held aside."""

    weights: Weights
    budget: int
    sessions: int
    learned: int
    """Sessions that are long enough to learn from."""
    judged: int
    """Sessions that are larger than the budget, so that something is folded in them."""
    needed: int
    """Names, paths, numbers and lines that agents used from far back."""
    folds: int
    own: Figure
    shipped: Figure
    recency: Figure
    over_shipped: Figure
    """The share that its own weights show beyond the package's."""
    over_recency: Figure

    @property
    def is_better(self) -> bool:
        """Whether the weights beat the package's and recency, beyond chance."""
        return self.over_shipped.interval.low > 0 and self.over_recency.interval.low > 0


def train(
    cases: Sequence[Case],
    *,
    budget: int,
    folds: int = 3,
    jobs: int = 1,
    tick: Callable[[int], None] = lambda calls: None,
) -> Training:
    """Train on all cases and judge by cross-validation. `tick` is called with the number of calls since its last call."""
    if folds < 2:
        raise BadInput(f"folds is {folds}; sessions are dealt into two or more, of which each is held out once")
    found = examples(sessions_of(case.recording for case in cases))
    long = [case for case in cases if max(case.raw, default=0) > budget]
    _check(cases, found, long, budget)
    shown: dict[str, list[Found]] = {OWN: [], PACKAGE: [], RECENCY: []}
    for held in _dealt({one.id for one in (*found, *long)}, folds):
        aside = [case for case in long if case.id in held]
        weights = trained([one for one in found if one.id not in held])
        for name, of_sessions in replayed(aside, weights, budget=budget, jobs=jobs, tick=tick).items():
            shown[name] += of_sessions
    return Training(
        weights=trained(found),
        budget=budget,
        sessions=len(cases),
        learned=len(found),
        judged=len(long),
        needed=round(sum(needed for _, needed in shown[OWN])),
        folds=folds,
        own=figure(shown[OWN]),
        shipped=figure(shown[PACKAGE]),
        recency=figure(shown[RECENCY]),
        over_shipped=gap(shown[OWN], shown[PACKAGE]),
        over_recency=gap(shown[OWN], shown[RECENCY]),
    )


def sessions_of(recordings: Iterable[Recording]) -> list[TrainingSession]:
    return [TrainingSession(one.id, [step.message for step in one.steps]) for one in recordings]


def examples(sessions: Sequence[TrainingSession]) -> list[Examples]:
    """Return the examples of all sessions that are long enough. Common names and lines are computed from all sessions."""
    shared = common(sessions, max(1.0, len(sessions) * COMMON))
    return [Examples(session.id, folds) for session in sessions if (folds := rows_of(session, shared))]


def trained(sessions: Iterable[Examples]) -> Weights:
    """Return the weights of these sessions. The same sessions in the same order give the same weights."""
    folds = balanced([fold for session in sessions for fold in session.folds])
    return Weights(
        boosted([row for fold in folds for row in fold.names]), boosted([row for fold in folds for row in fold.lines])
    )


def _check(cases: Sequence[Case], found: Sequence[Examples], long: Sequence[Case], budget: int) -> None:
    if len(found) < LEAST_SESSIONS:
        raise BadInput(
            f"{len(found)} of {len(cases)} session(s) are longer than {LIMITS[0]:,} tokens and can be learned from; "
            f"{LEAST_SESSIONS} are the least. With fewer, weights learn these sessions and not what they have in common. "
            "Nothing was written; give more recordings, or stay with the package's weights"
        )
    if not any(row.needed for one in found for fold in one.folds for row in (*fold.names, *fold.lines)):
        raise BadInput(
            f"nothing that {len(found)} session(s) folded was needed again, so that there is nothing to learn. Nothing was "
            "written; give recordings of an agent that writes what it read before"
        )
    if len(long) < LEAST_JUDGED:
        raise BadInput(
            f"{len(long)} of {len(cases)} session(s) are larger than the budget of {budget:,} tokens; with fewer than "
            f"{LEAST_JUDGED}, whether weights are any good may be chance. Nothing was written; give a smaller --budget"
        )


def _dealt(ids: Iterable[str], folds: int) -> list[frozenset[str]]:
    """Deal the ids into folds, by their hash. Recordings of one id stay together."""
    ordered = sorted(ids, key=_hash)
    return [frozenset(ordered[fold::folds]) for fold in range(folds)]


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
