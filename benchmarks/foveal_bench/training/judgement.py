"""The judgement of weights: far grounding, as the benchmark measures it, on sessions that they were not trained on.

A good ranking of the needed lines is not enough: names and lines compete for the room of a summary, and those that are
hardly ever needed are left out. So sessions are replayed, and the content of the prompts is measured.
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
"""Figures of one session: how many far clues were shown, and how many the agent needed."""


class Figure(msgspec.Struct, frozen=True):
    """A share over all sessions, or the difference of two, with its 95 % interval when sessions are drawn anew."""

    value: float
    interval: Interval


def replayed(
    cases: Sequence[Case], weights: Weights, *, budget: int, jobs: int, tick: Callable[[int], None]
) -> dict[str, list[Found]]:
    """Return the far clues that each score shows, session by session in the same order."""
    found: dict[str, list[Found]] = {name: [] for name in (OWN, PACKAGE, RECENCY)}
    for outcome in run(cases, [Job(name, budget) for name in found], find=partial(_runner, weights), jobs=jobs):
        found[outcome.policy].append((outcome.figures.far_shown, outcome.figures.far))
        tick(outcome.figures.calls)
    return found


def figure(of_sessions: Sequence[Found]) -> Figure:
    return Figure(share(of_sessions), interval(of_sessions))


def gap(mine: Sequence[Found], other: Sequence[Found]) -> Figure:
    """Return the difference, session by session: a hard session is hard for both."""
    return figure([(a - b, needed) for (a, needed), (b, _) in zip(mine, other, strict=True)])


def _runner(weights: Weights, name: str) -> Runner:
    """Return the default policy with this score. A function of a module, so that other processes find it."""
    own = Summarise(score="recency" if name == RECENCY else "learned", weights=weights if name == OWN else None)
    return foveal(stages=tuple(_by(own, stage) for stage in DEFAULT_STAGES))


def _by(own: Summarise, stage: BuiltIn) -> BuiltIn:
    if not isinstance(stage, Summarise):
        return stage
    return msgspec.structs.replace(stage, score=own.score, weights=own.weights)
