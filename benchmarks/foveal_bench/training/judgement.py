"""How good weights are: far grounding, by the benchmark's own replay, on sessions that they were not trained on.

That a score ranks well what was needed is not enough: a summary has room for some of it, names and lines compete for that
room, and what is hardly ever needed is left out. So sessions are replayed, and what the prompts show is what counts.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec

from foveal.analysis.measurement.case import Case, Runner
from foveal.analysis.measurement.outcome import Job
from foveal.analysis.measurement.shares import Interval, interval, share
from foveal.analysis.measurement.suite import run
from foveal.session.policy import DEFAULT_STAGES, BuiltIn, Summarise
from foveal.summary.relevance.weights import Weights
from foveal_bench.ablations import foveal

OWN, PACKAGE, RECENCY = "trained here", "the package's", "recency"

Found: TypeAlias = tuple[float, float]
"""Of one session: how much of what the agent needed from far back was shown, and how much it needed."""


class Figure(msgspec.Struct, frozen=True):
    """A share over all sessions, or the difference of two, and where 95 % of it lie when sessions are drawn anew."""

    value: float
    interval: Interval


def replayed(
    cases: Sequence[Case], weights: Weights, *, budget: int, jobs: int, tick: Callable[[int], None]
) -> dict[str, list[Found]]:
    """What each score shows of each session, all in the same order."""
    found: dict[str, list[Found]] = {name: [] for name in (OWN, PACKAGE, RECENCY)}
    for outcome in run(cases, [Job(name, budget) for name in found], find=partial(_runner, weights), jobs=jobs):
        found[outcome.policy].append((outcome.figures.far_shown, outcome.figures.far))
        tick(outcome.figures.calls)
    return found


def figure(of_sessions: Sequence[Found]) -> Figure:
    return Figure(share(of_sessions), interval(of_sessions))


def gap(mine: Sequence[Found], other: Sequence[Found]) -> Figure:
    """Session by session: a hard one is hard for both."""
    return figure([(a - b, needed) for (a, needed), (b, _) in zip(mine, other, strict=True)])


def _runner(weights: Weights, name: str) -> Runner:
    """The default policy with this score. A function of a module, so that other processes find it."""
    own = Summarise(score="recency" if name == RECENCY else "learned", weights=weights if name == OWN else None)
    return foveal(stages=tuple(_by(own, stage) for stage in DEFAULT_STAGES))


def _by(own: Summarise, stage: BuiltIn) -> BuiltIn:
    if not isinstance(stage, Summarise):
        return stage
    return msgspec.structs.replace(stage, score=own.score, weights=own.weights)
