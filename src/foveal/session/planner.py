"""The plan of the next prompt: the tools that it offers, and the fold that it needs to fit or that pays for itself."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from foveal import recall, summary
from foveal.dialects.port import ToolSpec
from foveal.dialects.tools import read_tools
from foveal.fit.fit import Originals, fit, run_fit
from foveal.fit.scene import Remembered
from foveal.project.facts import SUMMARISED
from foveal.project.view import View
from foveal.recall import tools as recall_tools
from foveal.session.model_setup import ModelSetup
from foveal.session.rebuild import entries_at
from foveal.session.tool_list import OfferedTools
from foveal.stores.port import Store
from foveal.values.budget import MessageLimits
from foveal.values.codec import sendable
from foveal.values.entry import Entry, Fold, RangeFold, Setup, ToolResult
from foveal.values.errors import NotFound, OverBudget
from foveal.values.events import Pressure
from foveal.values.fold_cost import FoldEconomics, FoldKind
from foveal.values.own_tools import CHECKPOINT, CHECKPOINT_TOOL, REMEMBER
from foveal.values.shown import Size, short_ref
from foveal.values.trace import PROMPT_TOKENS

if TYPE_CHECKING:
    from foveal.summary.ledger import LedgerStep

RECALLED_OFTEN = 2
"""Fetches after which a result is shown again, as far as there is room."""

LOOK_EVERY = 16
"""Calls between two searches for stale results: a search reads what is new, and walks over the calls of the view."""

TRY_EVERY = 4
"""Calls between two plans of a fold that may pay for itself."""

LEAST_SAVED = 512
"""Tokens that an early fold must save to be worth a mark in the log."""

BY_HAND = "asked for by hand"


class Offer(NamedTuple):
    """The tools of a prompt, and the setup that it is built for."""

    specs: tuple[ToolSpec, ...]
    setup: Setup


class ToolOffers:
    """The host's tools, read once, and the offers that are made of them with tools of Foveal's own."""

    def __init__(self, tools: Sequence[Mapping[str, Any]], model_setup: ModelSetup) -> None:
        self._specs, self._model_setup = tuple(map(model_setup.safe_tool, read_tools(tools))), model_setup
        self.names = frozenset(spec.name for spec in self._specs)
        self._made: dict[frozenset[str], Offer] = {}

    def with_own(self, own: Sequence[dict[str, Any]] = ()) -> Offer:
        """Return the offer of the host's tools and these of Foveal's own. A host that has a tool of the same name keeps it."""
        named = frozenset(tool["function"]["name"] for tool in own)
        if named not in self._made:
            ours = read_tools(tool for tool in own if tool["function"]["name"] not in self.names)
            specs = tuple(sorted((*self._specs, *ours), key=lambda spec: spec.name)) if ours else self._specs
            self._made[named] = Offer(specs, self._model_setup.setup(specs))
        return self._made[named]


class Planner:
    """Plans the prompts of one session. Reads the log; writes nothing."""

    def __init__(self, store: Store, session: str, model_setup: ModelSetup) -> None:
        self.model_setup = model_setup
        self._store, self._session = store, session
        self._no_tools = ToolOffers((), model_setup)
        self._offers: tuple[bytes | None, ToolOffers] = None, self._no_tools
        self._remembered: Remembered = {}

    def plan(
        self, view: View, tools: ToolOffers, *, taken: int = 0, is_cold: bool = False
    ) -> tuple[Offer, Fold | None]:
        """Return the tools, with Foveal's own where they are of use, and the fold that a prompt with them needs, if any.

        `taken` are the tokens of the side context. When the provider's cache `is_cold`, stale results are folded for free.
        """
        offer = tools.with_own(self._own(view))
        limits = self._limits(view, offer.setup, taken)
        is_due = view.facts.is_reduced or not view.size.within(limits.due)
        fold = None if is_due else self._fold(view, offer.setup, limits, is_cold)
        if not (is_due or fold):
            return offer, None
        wider = tools.with_own(self._own(view, recalls=True))
        left = self._limits(view, wider.setup, taken)
        if fold:
            # Its originals can be recalled at once: offering the tools with the next prompt would move the prefix again.
            return wider if fold.after <= left.most.tokens else offer, fold
        with suppress(OverBudget):  # a prompt without recall tools is better than none
            return wider, self._fold(view, wider.setup, left, is_cold)
        return offer, self._fold(view, offer.setup, limits, is_cold)

    @property
    def bare_setup(self) -> Setup:
        """The setup of a prompt without tools."""
        return self._no_tools.with_own().setup

    def planned(self, view: View, tools: ToolOffers) -> Offer | None:
        """Return the offer of a prompt that has been folded for and is asked for again, with the same tools; else None.

        To plan it anew could fold once more, or offer other tools: the same log gives the same prompt.
        """
        facts = view.facts
        if facts.decided is None or facts.setup is None or _is_longer_since_fold(view):
            return None
        if facts.decided.stake is None or facts.decided.stake.kind == "hand":
            return None  # by hand or by a client, and for no prompt yet
        offers = (tools.with_own(some) for some in (self._own(view, recalls=True), self._own(view), ()))
        return next((one for one in offers if one.setup == facts.setup), None)

    def has_room(self, view: View, offer: Offer, taken: int) -> bool:
        """Return whether a prompt of this view fits, with these tools and `taken` tokens of side context."""
        return view.size.within(self._limits(view, offer.setup, taken).most)

    def _fold(self, view: View, setup: Setup, limits: MessageLimits, is_cold: bool) -> Fold | None:
        fold = self._fit(view, setup, limits)
        if fold is None:
            return self._economical(view, setup, limits) or self._early(view, setup, limits, is_cold)
        kind = "checkpoint" if view.size.within(limits.due) else "budget"
        return msgspec.structs.replace(fold, stake=stake_of(kind, view, limits, model_setup=self.model_setup))

    def _economical(self, view: View, setup: Setup, limits: MessageLimits) -> Fold | None:
        """Return the fold of a conversation that the window holds, where carrying it costs more than folding it."""
        own = None if view.facts.calls % TRY_EVERY else self._paying_limits(view, limits)
        if own is None or view.size.within(own.due):
            return None
        stake = stake_of("economy", view, limits, model_setup=self.model_setup)
        fold = self._fit(view, setup, own)
        if fold is None or not stake.pays(fold.saved, fold.rebilled):
            return None
        return msgspec.structs.replace(fold, reason=stake.explain(fold.saved, fold.rebilled), stake=stake)

    def _paying_limits(self, view: View, limits: MessageLimits) -> MessageLimits | None:
        """Return the limits of a fold before one is due; None if it would not pay even if it went down to its aim."""
        own = self.model_setup.economy_limits(view, limits)
        if own is None:
            return None
        stake = stake_of("economy", view, limits, model_setup=self.model_setup)
        saved = max(view.size.tokens, own.due.tokens) - own.aim.tokens
        return own if stake.pays(saved, own.aim.tokens) else None

    def _early(self, view: View, setup: Setup, limits: MessageLimits, is_cold: bool) -> Fold | None:
        """Return the fold of stale results before the budget forces one, where it is free or pays for itself."""
        before = view.facts.setup
        is_moved = before is not None and (before.model, before.tools) != (setup.model, setup.tools)
        kind: FoldKind = "cold" if is_cold else "moved" if is_moved else "early"
        if kind == "early" and view.facts.calls % LOOK_EVERY != LOOK_EVERY - 1:
            return None
        fold = stale_fold(
            view, limits, self.model_setup, kind=kind, originals=self._originals, remembered=self._remembered
        )
        if fold is None or fold.stake is None:
            return None
        if kind == "early":
            return fold if fold.stake.pays(fold.saved, fold.rebilled) else None
        why = "the cache is cold" if is_cold else "the tools or the model changed"
        return msgspec.structs.replace(fold, reason=f"{why}, so that {fold.saved:,} stale tokens go for free")

    def ahead(self, view: View, setup: Setup, share: float, taken: int) -> Fold | None:
        """Return the fold that would be made if one were due now; None before so large a `share` of the trigger is reached."""
        limits = self._limits(view, setup, taken)
        limits = self._paying_limits(view, limits) or limits
        fixed = setup.tools_tokens + PROMPT_TOKENS + taken
        if view.size.tokens + fixed < share * (limits.due.tokens + fixed):
            return None
        return self._fit(view, setup, limits._replace(due=Size(tokens=view.size.tokens - 1)))

    def by_hand(self, view: View) -> Fold | None:
        """Return a fold of a view that fits, down to half of its tokens; the shares that stages keep are shares of that half."""
        setup = view.facts.setup or self.bare_setup
        limits = self._limits(view, setup, 0)
        half = msgspec.structs.replace(view.size, tokens=min(view.size.tokens // 2, max(1, limits.aim.tokens)))
        most = msgspec.structs.replace(limits.most, tokens=min(view.size.tokens, limits.most.tokens))
        fold = self._fit(view, setup, MessageLimits(most, Size(), half))
        stake = stake_of("hand", view, limits, model_setup=self.model_setup)
        return fold and msgspec.structs.replace(fold, reason=BY_HAND, stake=stake)

    def pressure(self, view: View, taken: int = 0, *, setup: Setup | None = None) -> Pressure:
        """Return how full a prompt of this view is, with `taken` tokens of side context and by default the tools of the last."""
        setup = setup or view.facts.setup or self.bare_setup
        fixed = setup.tools_tokens + PROMPT_TOKENS + taken
        due = self._limits(view, setup, taken).due.tokens + fixed
        return Pressure(view.size.tokens + fixed, due, self.model_setup.policy.pressure)

    def steps(self, view: View, fold: Fold) -> "list[LedgerStep]":
        """Return the messages, as recorded, that the summary of this fold covers and no summary before it did."""
        items = [item for item in fold.items if isinstance(item, RangeFold) and item.policy == SUMMARISED]
        places = sorted({place for item in items for place in view.transcript.covered_by(item)})
        return summary.steps_at(places, self._originals(places))

    def offers(self, offered: OfferedTools) -> ToolOffers:
        """Return the offers of the host's tools; the same ones as long as the tools are the same."""
        if offered.key is None or self._offers[0] != offered.key:
            self._offers = offered.key, ToolOffers(offered.tools, self.model_setup)
        return self._offers[1]

    def use(self, model_setup: ModelSetup) -> None:
        """Plan for this setup from now on: tools are read and counted anew."""
        self.model_setup, self._no_tools = model_setup, ToolOffers((), model_setup)
        self._offers = None, self._no_tools

    def _limits(self, view: View, setup: Setup, taken: int) -> MessageLimits:
        return self.model_setup.limits(view, setup, taken)

    def _fit(self, view: View, setup: Setup, limits: MessageLimits) -> Fold | None:
        if view.facts.checkpoint:  # the agent has finished a part of its work: the best moment to fold
            half = msgspec.structs.replace(limits.aim, tokens=min(limits.aim.tokens, view.size.tokens // 2))
            limits = limits._replace(due=Size(), aim=half)
        if view.size.within(limits.due):
            return None
        steps = fit(
            view,
            limits.most,
            limits.aim,
            self.model_setup.policy.stages,
            trigger=limits.due,
            tools_tokens=setup.tools_tokens + PROMPT_TOKENS,
            wanted=self._wanted(view),
            fetched=fetched_often(self._store, self._session, view),
            prices=self.model_setup.prices,
            remembered=self._remembered,
        )
        return run_fit(steps, self._originals)

    def _originals(self, places: Sequence[int]) -> dict[int, Entry]:
        return entries_at(self._store, self._session, places)

    def _wanted(self, view: View) -> dict[tuple[str, int], str]:
        """Return the originals of parts that the model has fetched repeatedly: showing them is cheaper than another fetch."""
        often = _often(view)
        parts = (
            (item.id, i)
            for atom in view.atoms
            for item in atom.items
            for i, shown in enumerate(item.shown)
            if often and shown.level != "full" and isinstance(shown.part, ToolResult)
        )
        return {(entry, i): self._safe(ref) for entry, i in parts if (ref := short_ref(entry, i)) in often}

    def _safe(self, ref: str) -> str:
        """Return the original of a reference, neutralised for use in a prompt."""
        text = sendable(recall.read(self._store, self._session, ref))
        return self.model_setup.guard.text(text)

    def _own(self, view: View, *, recalls: bool = False) -> tuple[dict[str, Any], ...]:
        """Return the tools of Foveal's own that are to be offered, with those for recall if it `recalls`.

        A session with a memory has the tools for recall and for notes from its first prompt on: what it is shown of other
        sessions can be recalled at once, and no later offer moves the prefix.
        """
        policy = self.model_setup.policy
        if policy.memory is not None:
            return (*self._checkpoint(view), *(recall_tools.SCOPE_TOOLS if policy.recall else ()), REMEMBER)
        return (*self._checkpoint(view), *(recall_tools.TOOLS if policy.recall and recalls else ()))

    def _checkpoint(self, view: View) -> tuple[dict[str, Any], ...]:
        """Return the checkpoint tool if it is to be offered. Once offered it stays: another list of tools moves the prefix."""
        if not self.model_setup.policy.compact.checkpoint:
            return ()
        offered = view.facts.setup is not None and f'"{CHECKPOINT_TOOL}"' in view.facts.setup.tools
        return (CHECKPOINT,) if offered or self.pressure(view).level in ("warning", "critical") else ()


def stake_of(kind: FoldKind, view: View, limits: MessageLimits, *, model_setup: ModelSetup) -> FoldEconomics:
    """Return the figures by which a fold of this view is decided."""
    room, prices = limits.due.tokens - view.size.tokens, model_setup.prices
    return FoldEconomics(kind, view.facts.calls, room, round(view.growth, 1), prices.read, prices.write)


def stale_fold(
    view: View,
    limits: MessageLimits,
    model_setup: ModelSetup,
    *,
    kind: FoldKind,
    originals: Originals,
    remembered: Remembered | None = None,
) -> Fold | None:
    """Return the fold of all stale results, without checking that it pays off; None if it saves less than `LEAST_SAVED`."""
    stages = [stage for stage in model_setup.policy.stages if getattr(stage, "finds_stale", False)]
    steps = fit(view, limits.most, Size(), stages, trigger=Size(), remembered=remembered)
    fold = run_fit(steps, originals) if stages else None
    if fold is None or fold.saved < LEAST_SAVED:
        return None
    if model_setup.policy.recall and model_setup.policy.memory is None and not view.facts.is_reduced:
        # The recall tools come with it, at the very beginning of the prompt.
        fold = msgspec.structs.replace(fold, rebilled=fold.after)
    stake = stake_of(kind, view, limits, model_setup=model_setup)
    return msgspec.structs.replace(fold, reason=stake.explain(fold.saved, fold.rebilled), stake=stake)


def fetched_often(store: Store, session: str, view: View) -> dict[str, str]:
    """Return the originals of covered parts that the model has fetched repeatedly, by their references."""
    often = _often(view)
    named = (short_ref(item.id, i) for atom in view.atoms for item in atom.items for i in range(len(item.shown)))
    found: dict[str, str] = {}
    for ref in sorted(often.difference(named) if often else ()):
        with suppress(NotFound):
            found[ref] = recall.read(store, session, ref)
    return found


def _often(view: View) -> set[str]:
    return {ref for ref, times in view.facts.recalled.items() if times >= RECALLED_OFTEN}


def _is_longer_since_fold(view: View) -> bool:
    return any(atom.newest[0] > view.facts.fold_seq for atom in view.atoms)
