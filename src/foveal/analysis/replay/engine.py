"""Foveal's own policies as runners: the default, and the default with one part switched off at a time."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from foveal.analysis.replay.case import MODEL, Case, Chat, Runner, Sent
from foveal.analysis.replay.grounding import text_seen
from foveal.analysis.replay.replay import ids_from
from foveal.fit.fit import Scene, Stage
from foveal.fit.stages.summary_folds import shown_beside
from foveal.recall import tools as recall_tools
from foveal.session.policy import (
    DEFAULT_STAGES,
    BudgetTable,
    BuiltIn,
    Clear,
    Expired,
    Oldest,
    Policy,
    Shorten,
    Summarise,
    Superseded,
)
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.summary import ledger
from foveal.summary.compose import compose
from foveal.summary.relevance import LineSelection
from foveal.summary.state import decode_summary
from foveal.values.entry import Fold, FoldItem, RangeFold
from foveal.values.errors import OverBudget, Unrepresentable
from foveal.values.prompt import Prompt
from foveal.values.shown import Atom


def foveal(**options: Any) -> Runner:
    """A policy with these options, with all of the budget for what is sent."""
    return partial(_run, options)


def _run(options: dict[str, Any], case: Case, budget: int) -> Iterator[Sent]:
    policy = Policy(budget=BudgetTable(limit=budget, reserve=0), **options)
    texts = [text_seen(step.message) for step in case.recording.steps]
    places: dict[str, int] = {}
    with Session(
        MemoryStore(),
        case.id,
        model=MODEL,
        policy=policy,
        dialect="openai_chat",
        new_id=ids_from(case.id),
        clock_ms=count().__next__,
    ) as session:
        for place, step in enumerate(case.recording.steps):
            if step.message.role == "assistant":
                yield _sent(session, case, places, texts)
            places[session.append(step.message).id] = place


def _sent(session: Session, case: Case, places: dict[str, int], texts: Sequence[str]) -> Sent:
    try:
        prompt = session.prompt(case.tools)
    except (OverBudget, Unrepresentable) as error:
        return Sent(refused=f"{type(error).__name__}: {error}")
    request = prompt.request
    tools: Sequence[Chat] = request.get("tools") or ()
    # A reference that nobody can follow offers nothing.
    can_recall = any(tool["function"]["name"] in recall_tools.NAMES for tool in tools)
    return Sent(request["messages"], tools, partial(_offered, prompt, places, texts) if can_recall else tuple[str])


def _offered(prompt: Prompt, places: dict[str, int], texts: Sequence[str]) -> Iterable[str]:
    """The recorded messages behind every reference of the prompt."""
    for atom in prompt.atoms:
        if atom.gap:
            first = places[atom.gap.first]
            yield from texts[first : first + atom.gap.entries]
        for item in atom.items:
            if any(shown.level not in ("full", "hidden") for shown in item.shown):
                yield texts[places[item.id]]


def _without(*kinds: type[BuiltIn]) -> tuple[BuiltIn, ...]:
    return tuple(stage for stage in DEFAULT_STAGES if not isinstance(stage, kinds))


def _one_line(stage: BuiltIn) -> BuiltIn:
    """What a summary covers, covered by a line that says how much it was."""
    return Oldest(keep=stage.keep, last_resort=stage.last_resort) if isinstance(stage, Summarise) else stage


def _by_recency(stage: BuiltIn) -> BuiltIn:
    return msgspec.structs.replace(stage, score="recency") if isinstance(stage, Summarise) else stage


class _Forced(msgspec.Struct, frozen=True):
    """A stage that folds when the budget makes it, and does not say that what it finds is stale."""

    stage: BuiltIn
    last_resort: bool

    def __call__(self, scene: Scene) -> Iterable[FoldItem | tuple[FoldItem, ...]]:
        return self.stage(scene)


def _forced(stage: BuiltIn) -> Stage:
    return _Forced(stage, stage.last_resort) if getattr(stage, "finds_stale", False) else stage


class _LinesOnly(Summarise, frozen=True):
    """A summary that gives the room of its ledger to lines."""

    def _folds(self, scene: Scene, going: list[Atom], allowance: int) -> tuple[RangeFold, ...]:
        made = super()._folds(scene, going, allowance)
        if not made:
            return ()
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


LEVELS_ONLY: tuple[BuiltIn, ...] = (
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
