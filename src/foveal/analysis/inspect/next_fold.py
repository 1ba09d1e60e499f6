"""How near a fold is, and why an early one was not made."""

from contextlib import suppress

import msgspec

from foveal.analysis.inspect.billing import Billed
from foveal.session.planner import LOOK_EVERY, stale_fold
from foveal.session.rebuild import entries_at
from foveal.stores.port import Store
from foveal.values.errors import OverBudget
from foveal.values.fold_cost import MARGIN, FoldKind, calls_left


class Look(msgspec.Struct, frozen=True):
    """Whether what is stale was worth a fold of its own."""

    kind: FoldKind
    saved: int
    rebilled: int
    calls_without: int
    gain: float
    """Saved over the calls expected; USD where the price is known."""
    price: float
    """Billed anew, in the same unit. It pays if the gain is more than `sure` times as much."""
    sure: float = MARGIN


class Nearness(msgspec.Struct, frozen=True):
    """How near a fold is."""

    calls_made: int
    has_folded: bool
    messages: int
    due: int
    """Tokens of messages above which a fold is forced."""
    room: int
    growth: float
    calls_until_forced: int
    calls_expected: int
    """No more than were made: of sessions that have come so far, the median goes on for about as long again."""
    looked: FoldKind | None
    """Why stale results were looked for, if they were."""
    look: Look | None
    next_look: int


def nearness(store: Store, call: Billed) -> Nearness:
    """For a call without a fold."""
    view, limits, made = call.view, call.limits, call.prompt.call - 1
    room, growth = limits.due.tokens - view.size.tokens, round(view.growth, 1)
    looked = _looked(call)
    wait = (LOOK_EVERY - 1 - call.prompt.call) % LOOK_EVERY + 1
    return Nearness(
        calls_made=made,
        has_folded=view.facts.folds > 0,
        messages=view.size.tokens,
        due=limits.due.tokens,
        room=room,
        growth=growth,
        calls_until_forced=max(0, int(room / max(growth, 1.0))),
        calls_expected=calls_left(made, room=room, growth=growth),
        looked=looked,
        look=_look(store, call, looked) if looked else None,
        next_look=call.prompt.call + wait,
    )


def _looked(call: Billed) -> FoldKind | None:
    """Why stale results were looked for before this call."""
    old, new = call.before, call.prompt.setup
    if call.is_cold:
        return "cold"
    if old and (old.model, old.tools) != (new.model, new.tools):
        return "moved"
    return "early" if (call.prompt.call - 1) % LOOK_EVERY == LOOK_EVERY - 1 else None


def _look(store: Store, call: Billed, kind: FoldKind) -> Look | None:
    fold = None
    with suppress(OverBudget):  # nothing more can go, stale or not
        name = call.prompt.session
        fold = stale_fold(
            call.view, call.limits, call.optics, kind=kind, originals=lambda places: entries_at(store, name, places)
        )
    if fold is None or fold.stake is None:
        return None
    gain, price = fold.stake.gain(fold.saved) / 1e6, fold.stake.price(fold.rebilled) / 1e6
    return Look(kind, fold.saved, fold.rebilled, fold.stake.calls, gain, price)
