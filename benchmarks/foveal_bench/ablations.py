"""Foveal's own policies as runners: the default, and the default with one part switched off at a time."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec

from foveal.analysis.measurement.case import Case, Runner, Sent
from foveal.analysis.measurement.session_runner import run_policy
from foveal.fit.scene import OriginalsNeeded, Proposal, Scene, Stage
from foveal.fit.stages.summary_folds import shown_beside
from foveal.session.policy import (
    DEFAULT_STAGES,
    BudgetTable,
    BuiltIn,
    Clear,
    Expired,
    Policy,
    Shorten,
    Summarise,
    Superseded,
)
from foveal.summary import ledger
from foveal.summary.compose import compose
from foveal.summary.relevance import LineSelection
from foveal.summary.state import decode_summary
from foveal.values.entry import Fold, RangeFold
from foveal_bench.oldest import Oldest


def foveal(**options: Any) -> Runner:
    """Return a runner of the policy with these options and no reserve: the whole budget may be sent."""
    return partial(_run, options)


def _run(options: dict[str, Any], case: Case, budget: int) -> Iterator[Sent]:
    return run_policy(case, Policy(budget=BudgetTable(limit=budget, reserve=0), **options))


def _without(*kinds: type[BuiltIn]) -> tuple[BuiltIn, ...]:
    return tuple(stage for stage in DEFAULT_STAGES if not isinstance(stage, kinds))


def _one_line(stage: BuiltIn) -> Stage:
    """What a summary covers, covered by a line that says how much it was."""
    return Oldest(keep=stage.keep, last_resort=stage.last_resort) if isinstance(stage, Summarise) else stage


def _by_recency(stage: BuiltIn) -> BuiltIn:
    return msgspec.structs.replace(stage, score="recency") if isinstance(stage, Summarise) else stage


class _Forced(msgspec.Struct, frozen=True):
    """A stage that folds when the budget makes it, and does not say that what it finds is stale."""

    stage: BuiltIn
    last_resort: bool

    def __call__(self, scene: Scene) -> Iterable[Proposal]:
        return self.stage(scene)


def _forced(stage: BuiltIn) -> Stage:
    return _Forced(stage, stage.last_resort) if getattr(stage, "finds_stale", False) else stage


class _LinesOnly(Summarise, frozen=True):
    """A summary that gives the room of its ledger to lines."""

    def __call__(self, scene: Scene) -> Iterator[tuple[RangeFold, ...] | OriginalsNeeded]:
        for made in super().__call__(scene):
            yield self._without_ledger(scene, made) if isinstance(made, tuple) else made

    def _without_ledger(self, scene: Scene, made: tuple[RangeFold, ...]) -> tuple[RangeFold, ...]:
        *lines, fold = made
        bare = msgspec.structs.replace(decode_summary(fold.state), ledger=ledger.EMPTY)
        beside = shown_beside(scene.view, Fold((fold,), "", 0, 0, 0))
        selection = LineSelection(self.score, self.weights, scene.least)
        text = compose(
            bare, tokens=fold.tokens, count=scene.count, shown=beside, fetched=scene.fetched, selection=selection
        )
        fold = msgspec.structs.replace(fold, text=text, tokens=scene.count(text))
        return *lines, fold


def _without_ledger(stage: BuiltIn) -> BuiltIn:
    return _LinesOnly(**msgspec.structs.asdict(stage)) if isinstance(stage, Summarise) else stage


LEVELS_ONLY: tuple[Stage, ...] = (
    Superseded(),
    Expired(),
    Shorten(),
    Clear(),
    Oldest(),
    Shorten(keep=0.0, last_resort=True),
    Clear(keep=0.0, last_resort=True),
    Oldest(keep=0.0, last_resort=True),
)

PARTS: dict[str, Runner] = {
    "foveal": foveal(),
    "foveal, digest by recency": foveal(stages=tuple(map(_by_recency, DEFAULT_STAGES))),
    "foveal, no digest": foveal(stages=tuple(map(_one_line, DEFAULT_STAGES))),
    "foveal, levels only": foveal(stages=LEVELS_ONLY),
    "foveal, no superseded": foveal(stages=_without(Superseded)),
    "foveal, no shortened results": foveal(stages=_without(Shorten, Clear)),
    "foveal, results cut on arrival": foveal(arrival=0.1),
    "foveal, no ledger": foveal(stages=tuple(map(_without_ledger, DEFAULT_STAGES))),
    "foveal, no early folds": foveal(stages=tuple(map(_forced, DEFAULT_STAGES))),
    "foveal, no recall tools": foveal(recall=False),
}
"""The default, and the default with one part switched off or on."""
