"""The next fold of a session: how near it is, and why an early one was not made."""

from contextlib import suppress

import msgspec

from foveal.analysis.inspect.calls import StoredCall, stored_calls
from foveal.session.planner import LOOK_EVERY, stale_fold
from foveal.session.rebuild import entries_at
from foveal.stores.port import Store
from foveal.values.errors import OverBudget
from foveal.values.fold_cost import MARGIN, FoldKind, calls_left


class StaleLook(msgspec.Struct, frozen=True):
    """The gain and the price of folding the stale results early, which was considered and found too dear."""

    kind: FoldKind
    saved: int
    rebilled: int
    calls_without: int
    gain: float
    """Savings over the calls expected; USD where the price is known."""
    price: float
    """The price of billing anew, in the same unit. A fold pays if the gain is more than `sure` times the price."""
    sure: float = MARGIN


class NextFold(msgspec.Struct, frozen=True):
    """Distance to the next fold, at a call without one."""

    calls_made: int
    has_folded: bool
    messages: int
    due: int
    """Tokens of messages above which a fold is forced."""
    economy: int | None
    """Tokens of messages above which a fold is made where it pays for itself; None if the policy wants none before it is due."""
    room: int
    growth: float
    calls_until_forced: int
    calls_expected: int
    """Never more than `calls_made`: of sessions that have come this far, the median goes on for about as long again."""
    looked: FoldKind | None
    """The occasion on which stale results were looked for; None if they were not."""
    look: StaleLook | None
    next_look: int


def next_fold(store: Store, session: str, call: int | None = None) -> NextFold | None:
    """Return how near the next fold is (at a past call, if named); None if a fold was made for that call or it had no prompt."""
    found: NextFold | None = None
    for one in stored_calls(store, session):
        is_asked = one.reply_tokens is None if call is None else one.prompt.call == call
        if is_asked and one.sent and not one.unfolded:
            found = next_fold_of(store, one)
    return found


def next_fold_of(store: Store, call: StoredCall) -> NextFold:
    """Return how near the next fold is at a call for which none was made."""
    view, limits, made = call.view, call.limits, call.prompt.call - 1
    room, growth = limits.due.tokens - view.size.tokens, round(view.growth, 1)
    looked = _looked(call)
    wait = (LOOK_EVERY - 1 - call.prompt.call) % LOOK_EVERY + 1
    return NextFold(
        calls_made=made,
        has_folded=view.facts.folds > 0,
        messages=view.size.tokens,
        due=limits.due.tokens,
        economy=own.due.tokens if (own := call.model_setup.economy_limits(view, limits)) else None,
        room=room,
        growth=growth,
        calls_until_forced=max(0, int(room / max(growth, 1.0))),
        calls_expected=calls_left(made, room=room, growth=growth),
        looked=looked,
        look=_look(store, call, looked) if looked else None,
        next_look=call.prompt.call + wait,
    )


def _looked(call: StoredCall) -> FoldKind | None:
    """Return the occasion on which stale results were looked for before this call; None if they were not."""
    old, new = call.previous_setup, call.prompt.setup
    if call.is_cold:
        return "cold"
    if old and (old.model, old.tools) != (new.model, new.tools):
        return "moved"
    return "early" if (call.prompt.call - 1) % LOOK_EVERY == LOOK_EVERY - 1 else None


def _look(store: Store, call: StoredCall, kind: FoldKind) -> StaleLook | None:
    fold = None
    with suppress(OverBudget):  # nothing more can be folded, stale or not
        name = call.prompt.session
        fold = stale_fold(
            call.view,
            call.limits,
            call.model_setup,
            kind=kind,
            originals=lambda places: entries_at(store, name, places),
        )
    if fold is None or fold.stake is None:
        return None
    gain, price = fold.stake.gain(fold.saved) / 1e6, fold.stake.price(fold.rebilled) / 1e6
    return StaleLook(kind, fold.saved, fold.rebilled, fold.stake.calls, gain, price)
