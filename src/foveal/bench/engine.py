"""Foveal's own policies as runners: the default, and the default with one part switched off at a time."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from foveal.bench.case import MODEL, Case, Runner, Sent
from foveal.bench.grounding import text_seen
from foveal.bench.replay import ids_from
from foveal.core.errors import OverBudget, Unrepresentable
from foveal.core.prompt import Prompt
from foveal.policies import DEFAULT_STAGES, BudgetTable, BuiltIn, Clear, Oldest, Policy, Shorten, Summarise, Superseded
from foveal.session import Session
from foveal.stores.memory import MemoryStore


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
    return Sent(request["messages"], request.get("tools") or (), partial(_offered, prompt, places, texts))


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


def _no_digest(stage: BuiltIn) -> BuiltIn:
    """One line in place of a summary."""
    return Oldest(keep=stage.keep, last_resort=stage.last_resort) if isinstance(stage, Summarise) else stage


def _plain(stage: BuiltIn) -> BuiltIn:
    return msgspec.structs.replace(stage, plain=True) if isinstance(stage, Shorten) else stage


def _by_recency(stage: BuiltIn) -> BuiltIn:
    return msgspec.structs.replace(stage, **{"score": "recency"}) if isinstance(stage, Summarise) else stage


PARTS: dict[str, Runner] = {
    "foveal": foveal(),
    "foveal, no digest": foveal(stages=tuple(map(_no_digest, DEFAULT_STAGES))),
    "foveal, no superseded": foveal(stages=_without(Superseded)),
    "foveal, no shortening first": foveal(
        stages=tuple(
            stage for stage in DEFAULT_STAGES if not isinstance(stage, Shorten) or stage.last_resort
        )
    ),
    "foveal, plain head and tail": foveal(stages=tuple(map(_plain, DEFAULT_STAGES))),
    "foveal, levels only": foveal(stages=(Superseded(), Shorten(), Clear(), Oldest(), *DEFAULT_STAGES[-4:-1], Oldest(keep=0.0, last_resort=True))),
    "foveal, no guard": foveal(guard=False),
}
"""What can be switched off from outside. The ledger and the digest of a summary are one stage: only both together can."""

if "score" in Summarise.__struct_fields__:
    PARTS["foveal, digest by recency"] = foveal(stages=tuple(map(_by_recency, DEFAULT_STAGES)))
