"""Replays in numbers to compare: totals, tables, and the format of numbers."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from foveal.analysis.replay.replay import Replay, ReplayedCall

_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?![\w.])")


class Totals(msgspec.Struct, frozen=True):
    """The sums of one replay or many. Costs are whole bills, recorded output included; None where a price is unknown."""

    sessions: int
    calls: int
    raw_tokens: int
    sent_tokens: int
    raw_cached_tokens: int
    cached_tokens: int
    prefix_moves: int
    raw_usd: float | None
    sent_usd: float | None
    output_tokens: int
    output_usd: float | None
    largest_raw: int
    largest_sent: int
    refusals: int

    @property
    def cached_share(self) -> float | None:
        """The share of the sent input that the provider's cache would have had; None if nothing was sent."""
        return self.cached_tokens / self.sent_tokens if self.sent_tokens else None

    @property
    def raw_cached_share(self) -> float | None:
        return self.raw_cached_tokens / self.raw_tokens if self.raw_tokens else None


def totals(replays: Sequence[Replay]) -> Totals:
    calls = [call for replay in replays for call in replay.calls]
    raws, sents = [call.raw for call in calls], [call.sent for call in calls if call.sent]
    return Totals(
        sessions=len(replays),
        calls=len(calls),
        raw_tokens=sum(bill.tokens for bill in raws),
        sent_tokens=sum(bill.tokens for bill in sents),
        raw_cached_tokens=sum(bill.cached for bill in raws),
        cached_tokens=sum(bill.cached for bill in sents),
        prefix_moves=sum(call.moved for call in calls),
        raw_usd=_sum_known(_raw_usd(replay) for replay in replays),
        sent_usd=_sum_known(_sent_usd(replay) for replay in replays),
        output_tokens=sum(call.output_tokens for call in calls),
        output_usd=_sum_known(_output_usd(replay, replay.calls) for replay in replays),
        largest_raw=max((bill.tokens for bill in raws), default=0),
        largest_sent=max((bill.tokens for bill in sents), default=0),
        refusals=len(raws) - len(sents),
    )


def _raw_usd(replay: Replay) -> float | None:
    return _sum_known((*(call.raw.cost_usd for call in replay.calls), _output_usd(replay, replay.calls)))


def _sent_usd(replay: Replay) -> float | None:
    answered = [call for call in replay.calls if call.sent]
    return _sum_known((*(call.sent.cost_usd for call in answered if call.sent), _output_usd(replay, answered)))


def _output_usd(replay: Replay, calls: Iterable[ReplayedCall]) -> float | None:
    tokens = sum(call.output_tokens for call in calls)
    return None if replay.price_output is None and tokens else tokens * (replay.price_output or 0.0) / 1e6


def _sum_known(values: Iterable[float | None]) -> float | None:
    """Return the sum; None if a value is unknown, since a sum without it would pass for the whole."""
    total_usd = 0.0
    for value in values:
        if value is None:
            return None
        total_usd += value
    return total_usd


def others(replay: Replay, sums: Totals) -> int:
    """Return the tokens that were not sent, beyond those of the named savings."""
    return max(0, sums.raw_tokens - sums.sent_tokens - sum(saving.tokens for saving in replay.savings))


def note_lines(replays: Sequence[Replay]) -> list[str]:
    """Return every note once, with the number of sessions that it is about; notes that differ in a number only are one."""
    if len(replays) == 1:
        return list(dict.fromkeys(replays[0].notes))
    alike: dict[str, Counter[str]] = {}
    for replay in replays:
        for note in dict.fromkeys(replay.notes):
            alike.setdefault(_NUMBER.sub("…", note), Counter())[note] += 1
    return [
        f"{notes.total()} session{'s' * (notes.total() > 1)}: {form if len(notes) > 1 else next(iter(notes))}"
        for form, notes in alike.items()
    ]


def document(replays: Sequence[Replay], errors: Sequence[str] = ()) -> dict[str, Any]:
    """Return all replays as one document for programs."""
    return {
        "sessions": [_session_document(replay) for replay in replays],
        "total": _totals_document(totals(replays)),
        "errors": list(errors),
    }


def _session_document(replay: Replay) -> dict[str, Any]:
    about = {name: getattr(replay, name) for name in ("session", "source", "model", "dialect", "counter", "limit")}
    return {
        **about,
        **_totals_document(totals([replay])),
        "savings": [msgspec.to_builtins(saving) for saving in replay.savings],
        "notes": list(replay.notes),
        "per_call": [
            {
                "call": call.number,
                "raw": call.raw.tokens,
                "sent": call.sent.tokens if call.sent else None,
                "cached": call.sent.cached if call.sent else None,
                "moved": call.moved,
                "folded": call.fold.items if call.fold else 0,
                "refused": call.refused or None,
            }
            for call in replay.calls
        ],
    }


def _totals_document(sums: Totals) -> dict[str, Any]:
    return {**msgspec.to_builtins(sums), "cached_share": sums.cached_share}


def short(tokens: int) -> str:
    """Return a count in at most five characters."""
    if tokens < 10_000:
        return f"{tokens:,}"
    for unit, name in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")):
        if tokens < 999.5 * unit:
            size = tokens / unit
            return f"{size:.2f}{name}" if size < 9.995 else f"{size:.1f}{name}" if size < 99.95 else f"{size:.0f}{name}"
    return f"{tokens / 1e12:,.1f}T"


def counted(number: int, what: str) -> str:
    """Return a number of things, with its noun in the right form."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"


def usd(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 0.01 or amount == 0 else f"${amount:.4f}"


def gain(sums: Totals) -> str:
    """Return how many tokens fewer, in words; empty where calls were refused, since an unsent call is no gain."""
    return "" if sums.refusals else less(sums.raw_tokens, sums.sent_tokens)


def gain_usd(sums: Totals) -> str:
    return "" if sums.refusals else less(sums.raw_usd, sums.sent_usd)


def less(before: float | None, after: float | None) -> str:
    """Return how much smaller the second number is, in words."""
    if before is None or after is None or not before:
        return ""
    change = 1 - after / before
    return f"{abs(change) * 100:.0f} % {'less' if change >= 0 else 'more'}"


HEAD = ("session", "calls", "raw", "sent", "cached", "moves", "cost raw", "cost sent", "largest", "refused")


def cells(name: str, sums: Totals, tokens: Callable[[int], str] = short) -> tuple[str, ...]:
    """Return one line of the table, under `HEAD`. Tokens are `short` unless another form is given."""
    return (
        name,
        f"{sums.calls:,}",
        tokens(sums.raw_tokens),
        tokens(sums.sent_tokens),
        percent(sums.cached_share),
        f"{sums.prefix_moves:,}",
        usd(sums.raw_usd),
        usd(sums.sent_usd),
        tokens(sums.largest_sent),
        f"{sums.refusals:,}",
    )
