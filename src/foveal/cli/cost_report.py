"""The report of `foveal why --cost`, for people who see these numbers for the first time."""

from collections.abc import Iterator

from foveal.analysis.inspect.cost import CallCost, CallCostDetail, CostTotals, FoldCost, SessionCost
from foveal.analysis.inspect.next_fold import NextFold, StaleLook
from foveal.analysis.replay.report import counted, less, percent
from foveal.cli.output import Output
from foveal.session.planner import LOOK_EVERY
from foveal.values.fold_cost import FoldKind

_KINDS: dict[FoldKind, str] = {
    "budget": "forced, because the messages took more than the budget allows",
    "hand": "asked for by hand",
    "checkpoint": "made at the agent's own checkpoint",
    "cold": "made while the provider's cache had forgotten the prompt anyway",
    "moved": "made while other tools or another model moved the whole prompt anyway",
    "early": "made before the budget forced it, because it was expected to pay",
    "economy": "made although the window would have held more, because it was expected to pay (economy)",
}


def print_session(found: SessionCost, out: Output) -> None:
    sums, folds = found.total, found.folds
    out.line(f"{found.session}: {counted(sums.calls, 'call')}, {counted(len(folds), 'fold')}", "strong")
    if folds:
        out.table(_HEAD, [*map(_cells, folds), _total(folds, sums)], "rlrrrrrr")
        kinds = {fold.kind: _KINDS[fold.kind] for fold in folds}
        for term, meaning in (*kinds.items(), *_TERMS):
            out.wrapped(f"{term}: {meaning}.", "    ", "  ")
        if any(not fold.calls_since for fold in folds):
            out.wrapped("The last fold is for a call that nobody has answered yet: nothing is billed for it so far.")
    else:
        out.line("Nothing was folded.")
    out.line()
    out.table(("input, estimated", "tokens", "from cache", "USD"), list(_totals(sums)), "lrrr")
    for line in _notes(found):
        out.wrapped(line)


_HEAD = ("call", "why", "saved a call", "billed anew", "next in", "since", "paid off", "net USD")
_TERMS = (
    ("saved a call", "tokens that each call since no longer sends"),
    ("billed anew", "tokens more at full price, once, because they no longer stood where the cache had them"),
    ("next in", "calls that were expected until the next fold, when this one was made"),
    ("since", "calls made with it, the one it was made for included"),
    ("paid off", "the call by which it had saved more than it cost; with ~, by which it will have, as things go"),
    ("net USD", "what it saved less what it cost, against calls without it, also where the budget left no choice"),
)


def _cells(fold: FoldCost) -> tuple[str, ...]:
    return (
        f"{fold.call:,}",
        fold.kind,
        f"{fold.saved:,}",
        f"{fold.billed_anew:,}" if fold.calls_since else "–",
        f"{fold.calls_expected:,}",
        f"{fold.calls_since:,}",
        _paid_off(fold),
        dollars(fold.net_usd, sign="+") if fold.calls_since else "–",
    )


def _total(folds: tuple[FoldCost, ...], sums: CostTotals) -> tuple[str, ...]:
    saved, anew = sum(fold.saved for fold in folds), sum(fold.billed_anew for fold in folds)
    return "all", "", f"{saved:,}", f"{anew:,}", "", "", "", dollars(sums.folds_usd, sign="+")


def _paid_off(fold: FoldCost) -> str:
    if fold.break_even is not None:
        return f"{fold.break_even:,}"
    return "–" if fold.break_even_expected is None else f"~{fold.break_even_expected:,}"


def _totals(sums: CostTotals) -> Iterator[tuple[str, str, str, str]]:
    share, whole = _share(sums.cached_tokens, sums.sent_tokens), sums.everything_tokens
    yield "everything sent", f"{whole:,}", _share(sums.everything_cached_tokens, whole), dollars(sums.everything_usd)
    yield "  saved by folds", "", "", _taken(sums.folds_usd)
    yield "  saved otherwise", "", "", _taken(sums.others_usd)
    if sums.refused:
        yield "  calls not made", "", "", _taken(sums.refused_usd)
    yield "sent by Foveal", f"{sums.sent_tokens:,}", share, dollars(sums.sent_usd)


def _notes(found: SessionCost) -> Iterator[str]:
    sums = found.total
    gain = "" if sums.refused else less(sums.everything_usd, sums.sent_usd)
    if gain:
        yield f"Foveal's input costs {gain} than sending the whole history for every call."
    yield "Otherwise: results that were shown shorter from the start, less the tools and words that Foveal adds."
    yield f"Replies, in both bills: {sums.output_tokens:,} tokens, {dollars(sums.output_usd)} USD more."
    if sums.refused:
        calls = counted(sums.refused, "call")
        yield f"For {calls} more was mandatory than the budget allows: no prompt could be made, and none is billed."
    if sums.too_large:
        yield f"At {counted(sums.too_large, 'call')} the model would not have taken the whole history."
    yield _prices(found.per_call)
    if sums.reported_calls:
        calls = f"{sums.reported_calls:,} of {counted(sums.calls, 'call')}"
        both = f"{dollars(sums.reported_usd)} USD, where the estimate is {dollars(sums.estimated_usd)}"
        yield f"By the provider's own counts, which the log has for {calls}, their input cost {both}."
    else:
        yield "The log has no counts of the provider's to compare with."


def _prices(calls: tuple[CallCost, ...]) -> str:
    told = dict.fromkeys(_price_words(call) for call in calls)
    return (
        f"Estimated with {'; '.join(told)}. The cache is taken to hold what a prompt shares with the one before it, for as "
        "long as the provider keeps it."
    )


def _price_words(call: CallCost) -> str:
    if call.price_read is None or call.price_write is None:
        return f"{call.model}, whose prices are not known"
    return f"{call.model}: {call.price_read:g} USD a million tokens from the cache, {call.price_write:g} others"


def print_call(found: CallCostDetail, out: Output) -> None:
    cost = found.cost
    what = "" if cost.is_answered else " (not answered yet: if it is sent as it is now)"
    out.line(f"{found.session}, call {cost.call}: {cost.model}{what}", "strong")
    if cost.sent is None:
        out.wrapped(
            f"No prompt could be made for it: more was mandatory than the budget allows. Everything together was "
            f"{cost.everything.tokens:,} tokens."
        )
        return
    _print_bill(cost, out)
    out.line()
    for fold in found.folds:
        for line in _fold_lines(fold, found.last_call):
            out.wrapped(line)
    if found.near:
        for line in _near_lines(found.near, cost):
            out.wrapped(line)


def _print_bill(cost: CallCost, out: Output) -> None:
    sent, reported = cost.sent or cost.everything, cost.reported
    written = sent.tokens - sent.cached
    rows = [
        ("read from the cache", f"{sent.cached:,}", _part(sent.cached, cost.price_read)),
        ("not in the cache", f"{written:,}", _part(written, cost.price_write)),
        ("prompt", f"{sent.tokens:,}", dollars(sent.cost_usd)),
        ("reply", f"{cost.output_tokens:,}" if cost.is_answered else "–", dollars(cost.output_usd)),
        ("everything sent instead", f"{cost.everything.tokens:,}", dollars(cost.everything.cost_usd)),
    ]
    if reported is None:
        out.table(("estimated", "tokens", "USD"), rows, "lrr")
    else:
        full = reported.read_tokens + reported.written_tokens + reported.plain_tokens
        told = [
            (f"{reported.read_tokens:,}", ""),
            (f"{full - reported.read_tokens:,}", ""),
            (f"{full:,}", dollars(reported.usd)),
            (f"{reported.output_tokens:,}", ""),
            ("", ""),
        ]
        both = [(*row, *more) for row, more in zip(rows, told, strict=True)]
        out.table(("", "estimated", "USD", "reported", "USD"), both, "lrrrr")
        wrote = f"{reported.written_tokens:,} written to it and {reported.plain_tokens:,} plain"
        out.line(f"Of those not in the cache, the provider reported {wrote}.")
    out.line(f"Prices of {_price_words(cost)}.")


def _fold_lines(fold: FoldCost, last: int) -> Iterator[str]:
    yield f"A fold was {_KINDS[fold.kind]} ({fold.reason}). It took {fold.saved:,} tokens out of the prompt."
    if fold.calls_since:
        yield _once(fold)
        yield _since(fold, last)
    else:
        yield "Nobody has answered this call yet, so that nothing is billed for it so far."
    added = f"a call had added {fold.growth:,.0f} on average"
    yield (
        f"When it was made, {counted(fold.calls_made, 'call')} had been made and {added}. With room for "
        f"{fold.room + fold.saved:,} tokens the next fold was expected in about {counted(fold.calls_expected, 'call')}: as many "
        "as fit, and no more than were made."
    )
    if fold.kind in ("early", "economy"):
        yield (
            f"Without it, about {counted(fold.calls_without, 'call')} were expected until the budget forced one. Saving "
            f"{fold.saved:,} tokens for each of them at {fold.price_read:g} a million was weighed against {fold.rebilled:,} "
            f"tokens once at {fold.price_write:g}."
        )


def _once(fold: FoldCost) -> str:
    if fold.cost_usd is not None and fold.cost_usd <= 0:
        return (
            f"That cost nothing: this call would have cost {dollars(-fold.cost_usd)} USD more without it (estimate), since most "
            "of what it took out was not in the cache."
        )
    return (
        f"For that, {fold.billed_anew:,} tokens more were paid in full, because they no longer stood where the cache had them: "
        f"{dollars(fold.cost_usd)} USD, once (estimate)."
    )


def _since(fold: FoldCost, last: int) -> str:
    if last == fold.call:
        return f"No call has followed it yet.{_to_come(fold)}"
    saved = (
        f"{counted(last - fold.call, 'call')} after it, up to call {last}, have cost {dollars(fold.saved_usd)} USD less"
    )
    paid = f"it had paid for itself by call {fold.break_even}" if fold.break_even else "it has not paid for itself yet"
    return f"The {saved} (estimate): net {dollars(fold.net_usd, sign='+')} USD, and {paid}.{_to_come(fold)}"


def _to_come(fold: FoldCost) -> str:
    at = fold.break_even_expected
    return f" As things go, it will have paid for itself by call {at}." if at else ""


def _near_lines(near: NextFold, cost: CallCost) -> Iterator[str]:
    yield (
        f"No fold was made for it. One is forced when the messages take more than {near.due:,} tokens; they take "
        f"{near.messages:,}. {_growth(near)}"
    )
    if near.economy is not None:
        yield f"Above {near.economy:,} tokens one is made as soon as it is expected to pay (economy)."
    if near.looked is None:
        yield f"What is stale is folded earlier where that pays. This is looked at next for call {near.next_look}."
    elif near.look is None:
        yield f"{_LOOKED[near.looked]}, stale results were looked for: there was nothing worth a fold."
    else:
        yield _unpaid(near.look, cost)


def _growth(near: NextFold) -> str:
    if not near.calls_made:
        return "How fast they grow is not known yet."
    since = "since the last fold" if near.has_folded else "so far"
    calls = counted(near.calls_until_forced, "more call")
    return (
        f"A call has added {near.growth:,.0f} on average {since}, so that there is room for about {calls} (estimate)."
    )


_LOOKED: dict[FoldKind, str] = {
    "early": f"Before this call, as before every {LOOK_EVERY}th",
    "cold": "Because the provider's cache had forgotten the prompt",
    "moved": "Because other tools or another model moved the whole prompt",
}


def _unpaid(look: StaleLook, cost: CallCost) -> str:
    unit = "USD" if cost.price_read is not None else "of plain input's price"
    return (
        f"{_LOOKED[look.kind]}, an early fold was looked at: {look.saved:,} stale tokens less for about "
        f"{counted(look.calls_without, 'call')} until one is forced would have saved {look.gain:.4f} {unit}, and "
        f"{look.rebilled:,} tokens billed anew would have cost {look.price:.4f}. It is made when it saves more than "
        f"{look.sure:g} times what it costs, since the number of calls is a guess."
    )


def _part(tokens: int, price: float | None) -> str:
    return dollars(None if price is None else tokens * price / 1e6)


def dollars(usd: float | None, *, sign: str = "") -> str:
    """Return an amount with four decimals; `?` if it is not known."""
    return "?" if usd is None else f"{round(usd, 4) + 0.0:{sign}.4f}"  # no zero below zero


def _taken(usd: float | None) -> str:
    """Return the negated amount, so that the column adds up."""
    return dollars(None if usd is None else -usd, sign="+")


def _share(part: int, whole: int) -> str:
    return percent(part / whole if whole else None)
