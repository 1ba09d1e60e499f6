"""The cost of every call of a stored session, and the cost and gain of every fold.

Prices and the share of the cache are those of `foveal replay`. A fold is judged by the cost of each later call without it:
the bill as it is, without the newest fold, without the two newest, and so on. The differences are the worth of each fold, so
that all of them add up to the way from the bill without folds to the bill as it is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.inspect.calls import StoredCall, stored_calls
from foveal.analysis.inspect.next_fold import NextFold, next_fold_of
from foveal.analysis.replay.bills import Bill, bill, bill_costs
from foveal.models.catalogue import ModelFacts, cost_usd
from foveal.stores.port import Store
from foveal.values.entry import Fold
from foveal.values.errors import NotFound
from foveal.values.fold_cost import FoldEconomics, FoldKind


class ReportedUsage(msgspec.Struct, frozen=True):
    """The provider's own counts of a call."""

    read_tokens: int
    written_tokens: int
    plain_tokens: int
    output_tokens: int
    usd: float | None
    """The price of the input."""


class CallCost(msgspec.Struct, frozen=True):
    """The cost of one call, by our count."""

    call: int
    model: str
    price_read: float | None
    """USD for a million tokens that come from the cache, in a prompt of this length."""
    price_write: float | None
    """USD for a million tokens that do not."""
    is_answered: bool
    sent: Bill | None
    """None if no prompt can have been sent: the mandatory content was larger than the budget."""
    everything: Bill
    """The bill if the whole history were sent for every call."""
    output_tokens: int
    output_usd: float | None
    folds: int
    reported: ReportedUsage | None
    is_sendable_whole: bool
    """Whether the whole history fits the model's window."""


class FoldCost(msgspec.Struct, frozen=True):
    """The figures that a fold was decided on, and its actual cost and gain."""

    call: int
    kind: FoldKind
    reason: str
    saved: int
    """Tokens fewer in every prompt since."""
    rebilled: int
    """Tokens billed anew, as planned."""
    billed_anew: int
    """Tokens that its own call paid in full beyond those without the fold, by our bill."""
    calls_made: int
    room: int
    growth: float
    price_read: float
    price_write: float
    calls_without: int
    """Calls expected before a fold would have been forced anyway."""
    calls_expected: int
    """Calls expected before the next fold."""
    calls_since: int
    """Calls made with it, its own included."""
    tokens_saved: int
    cost_usd: float | None
    """The extra cost of its own call; below zero if the call became cheaper."""
    saved_usd: float | None
    """The savings of the calls after its own."""
    net_usd: float | None
    break_even: int | None
    """The call by which it had paid for itself."""
    break_even_expected: int | None
    """The call by which it will have, if calls go on as the last one."""


class CostTotals(msgspec.Struct, frozen=True):
    """Sums over all answered calls. `everything_usd - sent_usd` is `folds_usd + others_usd + refused_usd`."""

    calls: int
    refused: int
    too_large: int
    """Calls whose whole history is larger than the model's window."""
    sent_tokens: int
    cached_tokens: int
    sent_usd: float | None
    everything_tokens: int
    everything_cached_tokens: int
    everything_usd: float | None
    folds_usd: float | None
    others_usd: float | None
    """Savings by results that were shown shorter from the start, less the cost of tools and words that Foveal adds."""
    refused_usd: float | None
    """The cost of sending everything at calls for which there was no prompt."""
    output_tokens: int
    output_usd: float | None
    reported_calls: int
    reported_usd: float | None
    estimated_usd: float | None
    """Our estimate for the calls that were reported."""


class SessionCost(msgspec.Struct, frozen=True):
    """The cost of a session: every fold, every call, and the sums."""

    session: str
    folds: tuple[FoldCost, ...]
    total: CostTotals
    per_call: tuple[CallCost, ...]


class CallCostDetail(msgspec.Struct, frozen=True):
    """The cost of one call in detail."""

    session: str
    cost: CallCost
    last_call: int
    """The last call that was answered: savings since a fold are counted up to it."""
    folds: tuple[FoldCost, ...]
    near: NextFold | None
    """The next fold; None if a fold was made for this call."""


def cost(store: Store, session: str) -> SessionCost:
    """Return the cost of all calls and folds of a stored session."""
    book = CostBook()
    for call in stored_calls(store, session):
        book.enter(call)
    return SessionCost(session, book.folds(), book.totals(), tuple(book.calls))


def call_cost(store: Store, session: str, call: int) -> CallCostDetail:
    """Return the cost of one call in detail; raise `NotFound` if the session has no prompt for it."""
    book, near = CostBook(), None
    for one in stored_calls(store, session):
        book.enter(one)
        if one.prompt.call == call and one.sent and not one.unfolded:
            near = next_fold_of(store, one)
    found = next((one for one in book.calls if one.call == call), None)
    if found is None:
        made = f"{book.calls[0].call} to {book.calls[-1].call}"
        raise NotFound(f"session {session!r} has prompts for the calls {made}; there is none for call {call}")
    folds = tuple(fold for fold in book.folds() if fold.call == call)
    last = max((one.call for one in book.calls if one.is_answered), default=0)
    return CallCostDetail(session, found, last, folds, near)


class _Account:
    """The cost and gain of one fold so far."""

    def __init__(self, call: StoredCall, fold: Fold, anew: int) -> None:
        self.call, self.fold, self.stake = call.prompt.call, fold, fold.stake or FoldEconomics("hand")
        self.anew, self.since, self.saved = anew, 0, fold.saved
        self.cost: float | None = None
        self.gained: float | None = 0.0
        self.last: float | None = None
        self.break_even: int | None = None

    def enter(self, call: int, made: float | None, without: float | None) -> None:
        """Add an answered call: its cost as it is, and its cost without the fold."""
        self.since += 1
        gain = _less(without, made)
        if call == self.call:
            self.cost = None if gain is None else -gain
        else:
            self.gained = None if self.gained is None or gain is None else self.gained + gain
            self.last = gain
        if self.break_even is None and (net := self.net) is not None and net >= 0:
            self.break_even = call

    @property
    def net(self) -> float | None:
        return _less(self.gained, self.cost)

    @property
    def expected(self) -> int | None:
        if self.break_even is not None or self.net is None or not self.since:
            return None
        # No call has followed yet: assume that the tokens would have been read from the cache.
        gain = self.fold.saved * self.stake.read / 1e6 if self.last is None else self.last
        return self.call + self.since - 1 + math.ceil(-self.net / gain) if gain > 0 else None

    def figures(self) -> FoldCost:
        fold, stake, is_billed = self.fold, self.stake, self.since > 0
        return FoldCost(
            call=self.call,
            kind=stake.kind,
            reason=fold.reason,
            saved=fold.saved,
            rebilled=fold.rebilled,
            billed_anew=self.anew,
            calls_made=stake.made,
            room=stake.room,
            growth=stake.growth,
            price_read=stake.read,
            price_write=stake.write,
            calls_without=stake.calls,
            calls_expected=stake.calls_after(fold.saved),
            calls_since=self.since,
            tokens_saved=fold.saved * self.since,
            cost_usd=self.cost if is_billed else None,
            saved_usd=self.gained if is_billed else None,
            net_usd=self.net if is_billed else None,
            break_even=self.break_even,
            break_even_expected=self.expected,
        )


class CostBook:
    """The calls of a session so far, and an account for every fold. Enter each call in order."""

    def __init__(self) -> None:
        self.calls: list[CallCost] = []
        self._accounts: list[_Account] = []
        self._others: list[float | None] = []

    def __copy__(self) -> "CostBook":
        """Return a book for a call that may yet change: one without a reply changes no account."""
        other = CostBook()
        other.calls, other._accounts, other._others = self.calls[:], self._accounts[:], self._others[:]
        return other

    def enter(self, call: StoredCall) -> None:
        self.calls.append(_call_cost(call))
        if not call.sent:
            return
        own = _own_ladder(call, call.sent)
        older, is_answered = self._accounts, call.reply_tokens is not None
        made = [
            _Account(call, one.fold, _anew(*bills) if is_answered else 0)
            for one, *bills in zip(call.unfolded, own, own[1:], strict=False)
        ]
        self._accounts = [*older, *reversed(made)]
        if is_answered:
            costs = [*(one.cost_usd for one in own), *bill_costs(call.model_setup.facts, _sizes_without(call, older))]
            for account, made, without in zip(reversed(self._accounts), costs, costs[1:], strict=False):
                account.enter(call.prompt.call, made, without)
            self._others.append(_less(call.raw.cost_usd, costs[-1]))

    def folds(self) -> tuple[FoldCost, ...]:
        return tuple(account.figures() for account in self._accounts)

    def totals(self) -> CostTotals:
        calls = [one for one in self.calls if one.is_answered]
        sents, raws = [one.sent for one in calls if one.sent], [one.everything for one in calls]
        reported = [one for one in calls if one.reported and one.sent]
        return CostTotals(
            calls=len(calls),
            refused=len(raws) - len(sents),
            too_large=sum(not one.is_sendable_whole for one in calls),
            sent_tokens=sum(one.tokens for one in sents),
            cached_tokens=sum(one.cached for one in sents),
            sent_usd=_sum(one.cost_usd for one in sents),
            everything_tokens=sum(one.tokens for one in raws),
            everything_cached_tokens=sum(one.cached for one in raws),
            everything_usd=_sum(one.cost_usd for one in raws),
            folds_usd=_sum(account.net for account in self._accounts if account.since),
            others_usd=_sum(self._others),
            refused_usd=_sum(one.everything.cost_usd for one in calls if not one.sent),
            output_tokens=sum(one.output_tokens for one in calls),
            output_usd=_sum(one.output_usd for one in calls),
            reported_calls=len(reported),
            reported_usd=_sum(one.reported.usd for one in reported if one.reported),
            estimated_usd=_sum(one.sent.cost_usd for one in reported if one.sent),
        )


def _own_ladder(call: StoredCall, sent: Bill) -> list[Bill]:
    """Return the bill of a call as it is, then without its newest fold, and so on until none that was made for it is left."""
    return [sent, *(bill(call.model_setup.facts, one.tokens, one.shared) for one in call.unfolded)]


def _sizes_without(call: StoredCall, older: Sequence[_Account]) -> Iterator[tuple[int, int]]:
    """Yield the tokens and shared tokens of a call without its own folds and the newest older one, then without the next, until
    no fold is left."""
    last = call.unfolded[-1] if call.unfolded else None
    tokens, shared = (last.tokens, last.shared) if last else (call.prompt.tokens, call.shared)
    for account in reversed(older):
        tokens += account.saved
        shared += account.saved if shared else 0  # a cold cache is cold with and without the fold
        yield tokens, shared


def _anew(made: Bill, without: Bill) -> int:
    """Return the tokens that a call paid in full beyond those without the fold."""
    return max(0, made.tokens - made.cached - without.tokens + without.cached)


def _call_cost(call: StoredCall) -> CallCost:
    facts, output, tokens = call.model_setup.facts, call.reply_tokens or 0, call.prompt.tokens
    return CallCost(
        call=call.prompt.call,
        model=call.prompt.setup.model,
        price_read=_million(cost_usd(facts, tokens, 0, 0), tokens),
        price_write=_million(cost_usd(facts, 0, tokens, 0), tokens),
        is_answered=call.reply_tokens is not None,
        sent=call.sent,
        everything=call.raw,
        output_tokens=output,
        output_usd=cost_usd(facts, 0, 0, output),
        folds=len(call.unfolded),
        reported=_reported(call, facts),
        is_sendable_whole=call.raw.tokens <= facts.max_input,
    )


def _reported(call: StoredCall, facts: ModelFacts) -> ReportedUsage | None:
    usage = call.usage
    if usage is None:
        return None
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(0, usage.input_tokens - read - written)
    return ReportedUsage(read, written, plain, usage.output_tokens, cost_usd(facts, read, written, 0, fresh=plain))


def _million(usd: float | None, tokens: int) -> float | None:
    """Return the price of a million tokens, from the price of a whole prompt: some models cost more above some length."""
    return None if usd is None else round(usd / max(1, tokens) * 1e6, 9)


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is not known, since a sum without it would pass for the whole."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def _less(value: float | None, by: float | None) -> float | None:
    return None if value is None or by is None else value - by
