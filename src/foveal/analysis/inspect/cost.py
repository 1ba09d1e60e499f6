"""What every call of a stored session cost, what every fold cost and brought.

Prices and the share of the cache are those of `foveal replay`. A fold is judged by what each call since would have cost without
it: the bill as it is, without the newest fold, without the two newest, and so on. The differences are what each fold is worth,
so that all of them together are the way from the bill without folds to the bill as it is.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec

from foveal.analysis.inspect.billing import Billed, billed
from foveal.analysis.inspect.next_fold import Nearness, nearness
from foveal.analysis.replay.cost import Bill, bill
from foveal.models.catalogue import ModelFacts, cost_usd
from foveal.stores.port import Store
from foveal.values.entry import Fold
from foveal.values.errors import NotFound
from foveal.values.fold_cost import FoldEconomics, FoldKind


class Reported(msgspec.Struct, frozen=True):
    """What the provider counted."""

    read_tokens: int
    written_tokens: int
    plain_tokens: int
    output_tokens: int
    usd: float | None
    """Of the input."""


class CallCost(msgspec.Struct, frozen=True):
    """What one call costs, by our count."""

    call: int
    model: str
    price_read: float | None
    """USD for a million tokens that come from the cache, in a prompt of this length."""
    price_write: float | None
    """And for those that do not."""
    is_answered: bool
    sent: Bill | None
    """None if there can have been no prompt: more was mandatory than the budget allows."""
    everything: Bill
    """If the whole history were sent for every call."""
    output_tokens: int
    output_usd: float | None
    folds: int
    reported: Reported | None
    is_sendable_whole: bool
    """Whether the model takes as much as the whole history."""


class FoldCost(msgspec.Struct, frozen=True):
    """What a fold was decided on, and what it came to."""

    call: int
    kind: FoldKind
    reason: str
    saved: int
    """Tokens that it took out of every prompt since."""
    rebilled: int
    """Tokens billed anew, as it was planned."""
    billed_anew: int
    """Tokens that its own call paid in full more than without it, by our bill."""
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
    """What its own call cost more than without it; below zero if less."""
    saved_usd: float | None
    """What the calls after that cost less."""
    net_usd: float | None
    break_even: int | None
    """The call by which it had paid for itself."""
    break_even_expected: int | None
    """The call by which it will have, if calls go on as the last one."""


class CostTotals(msgspec.Struct, frozen=True):
    """All answered calls. `everything_usd - sent_usd` is `folds_usd + others_usd + refused_usd`."""

    calls: int
    refused: int
    too_large: int
    """Calls whose whole history the model would not have taken."""
    sent_tokens: int
    cached_tokens: int
    sent_usd: float | None
    everything_tokens: int
    everything_cached_tokens: int
    everything_usd: float | None
    folds_usd: float | None
    others_usd: float | None
    """Results that were shown shorter from the start, less what tools and words of ours take."""
    refused_usd: float | None
    """What sending everything would have cost at calls for which there was no prompt."""
    output_tokens: int
    output_usd: float | None
    reported_calls: int
    reported_usd: float | None
    estimated_usd: float | None
    """Our estimate for the calls that were reported."""


class SessionCost(msgspec.Struct, frozen=True):
    session: str
    folds: tuple[FoldCost, ...]
    total: CostTotals
    per_call: tuple[CallCost, ...]


class OneCost(msgspec.Struct, frozen=True):
    """One call in detail."""

    session: str
    cost: CallCost
    last_call: int
    """The last call that was answered: `since` means until then."""
    folds: tuple[FoldCost, ...]
    near: Nearness | None
    """None if there was a fold."""


def session_cost(store: Store, name: str) -> SessionCost:
    book = _Book()
    for call in billed(store, name):
        book.enter(call)
    return SessionCost(name, book.folds(), book.sums(), tuple(book.calls))


def one_cost(store: Store, name: str, number: int) -> OneCost:
    book, near = _Book(), None
    for call in billed(store, name):
        book.enter(call)
        if call.prompt.call == number and call.sent and not call.unfolded:
            near = nearness(store, call)
    cost = next((one for one in book.calls if one.call == number), None)
    if cost is None:
        made = f"{book.calls[0].call} to {book.calls[-1].call}"
        raise NotFound(f"session {name!r} has prompts for the calls {made}; there is none for call {number}")
    folds = tuple(fold for fold in book.folds() if fold.call == number)
    return OneCost(name, cost, book.last, folds, near)


class _Account:
    """What one fold has cost and brought so far."""

    def __init__(self, call: Billed, fold: Fold) -> None:
        self.call, self.fold, self.stake = call.prompt.call, fold, fold.stake or FoldEconomics("hand")
        self.anew = self.since = 0
        self.cost: float | None = None
        self.gained: float | None = 0.0
        self.last: float | None = None
        self.break_even: int | None = None

    def enter(self, call: int, made: Bill, without: Bill) -> None:
        """One more answered call, as it was and as it would have been."""
        self.since += 1
        gain = _less(without.cost_usd, made.cost_usd)
        if call == self.call:
            self.anew = max(0, made.tokens - made.cached - without.tokens + without.cached)
            self.cost = None if gain is None else -gain
        else:
            self.gained, self.last = _sum((self.gained, gain)), gain
        if self.break_even is None and (net := self.net) is not None and net >= 0:
            self.break_even = call

    @property
    def net(self) -> float | None:
        return _less(self.gained, self.cost)

    @property
    def expected(self) -> int | None:
        if self.break_even is not None or self.net is None or not self.since:
            return None
        # Before a call has shown it: what is no longer sent would have been read from the cache.
        gain = self.fold.saved * self.stake.read / 1e6 if self.last is None else self.last
        return self.call + self.since - 1 + math.ceil(-self.net / gain) if gain > 0 else None

    def told(self) -> FoldCost:
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


class _Book:
    """The calls so far, and an account for every fold."""

    def __init__(self) -> None:
        self.calls: list[CallCost] = []
        self.last = 0
        self._accounts: list[_Account] = []
        self._others: list[float | None] = []

    def enter(self, call: Billed) -> None:
        self.calls.append(_call_cost(call))
        accounts = [*self._accounts, *(_Account(call, one.fold) for one in reversed(call.unfolded))]
        if call.sent and call.reply_tokens is not None:
            ladder = _ladder(call, call.sent, self._accounts)
            for account, made, without in zip(reversed(accounts), ladder, ladder[1:], strict=False):
                account.enter(call.prompt.call, made, without)
            self._others.append(_less(call.raw.cost_usd, ladder[-1].cost_usd))
        if call.reply_tokens is not None:
            self.last = call.prompt.call
        self._accounts = accounts

    def folds(self) -> tuple[FoldCost, ...]:
        return tuple(account.told() for account in self._accounts)

    def sums(self) -> CostTotals:
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


def _ladder(call: Billed, sent: Bill, older: Sequence[_Account]) -> list[Bill]:
    """The bill of a call as it was, then without its newest fold, and so on until there is none."""
    bills, facts = [sent], call.optics.facts
    tokens, shared = sent.tokens, call.shared
    for one in call.unfolded:
        tokens, shared = one.tokens, one.shared
        bills.append(bill(facts, tokens, shared))
    for account in reversed(older):
        tokens += account.fold.saved
        shared += account.fold.saved if shared else 0  # what the cache has forgotten, it has forgotten in either case
        bills.append(bill(facts, tokens, shared))
    return bills


def _call_cost(call: Billed) -> CallCost:
    facts, output, tokens = call.optics.facts, call.reply_tokens or 0, call.prompt.tokens
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


def _reported(call: Billed, facts: ModelFacts) -> Reported | None:
    usage = call.usage
    if usage is None:
        return None
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(0, usage.input_tokens - read - written)
    return Reported(read, written, plain, usage.output_tokens, cost_usd(facts, read, written, 0, fresh=plain))


def _million(usd: float | None, tokens: int) -> float | None:
    """The price of a million tokens, from that of a whole prompt: some models cost more above some length."""
    return None if usd is None else round(usd / max(1, tokens) * 1e6, 9)


def _sum(values: Iterable[float | None]) -> float | None:
    """None if one of them is not known: a sum without it would pass for the whole."""
    known = list(values)
    return None if None in known else math.fsum(value for value in known if value is not None)


def _less(value: float | None, by: float | None) -> float | None:
    return None if value is None or by is None else value - by
