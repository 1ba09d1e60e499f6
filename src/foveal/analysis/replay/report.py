"""Replays in numbers to compare: totals, tables, and the format of numbers."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from foveal.analysis.replay.replay import Replay, ReplayedCall

_NUMBER = re.compile(r"(?<![\w.,-])\d+(?:,\d{3})*(?![\w.])")


class Totals(msgspec.Struct, frozen=True):
    """The sums of one replay or many. Costs are whole bills, recorded output included; None where a price is unknown.

    Sums of raw prompts are of those that could have been sent, sums of recorded calls of those whose usage is recorded.
    """

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
    unsendable: int
    """Calls whose whole history is larger than the model takes."""
    recorded_calls: int
    recorded_tokens: int
    recorded_cached_tokens: int
    recorded_written_tokens: int
    recorded_output_tokens: int
    recorded_usd: float | None

    @property
    def cached_share(self) -> float | None:
        """The share of the sent input that the provider's cache would have had; None if nothing was sent."""
        return self.cached_tokens / self.sent_tokens if self.sent_tokens else None

    @property
    def raw_cached_share(self) -> float | None:
        return self.raw_cached_tokens / self.raw_tokens if self.raw_tokens else None

    @property
    def is_comparable(self) -> bool:
        """Whether the raw and the sent bill are of the same calls: a call that is in one of them alone is no gain."""
        return not self.refusals and not self.unsendable

    @property
    def is_wholly_recorded(self) -> bool:
        """Whether the recorded and the sent bill are of the same calls."""
        return bool(self.calls) and self.recorded_calls == self.calls and not self.refusals


def totals(replays: Sequence[Replay]) -> Totals:
    calls = [call for replay in replays for call in replay.calls]
    raws, sents = [call.raw for call in calls if call.is_sendable_whole], [call.sent for call in calls if call.sent]
    recorded = [call.recorded for call in calls if call.recorded]
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
        largest_raw=max((call.raw.tokens for call in calls), default=0),
        largest_sent=max((bill.tokens for bill in sents), default=0),
        refusals=len(calls) - len(sents),
        unsendable=len(calls) - len(raws),
        recorded_calls=len(recorded),
        recorded_tokens=sum(bill.tokens for bill in recorded),
        recorded_cached_tokens=sum(bill.cached for bill in recorded),
        recorded_written_tokens=sum(bill.written for bill in recorded),
        recorded_output_tokens=sum(bill.output_tokens for bill in recorded),
        recorded_usd=_sum_known(bill.cost_usd for bill in recorded),
    )


def _raw_usd(replay: Replay) -> float | None:
    sendable = [call for call in replay.calls if call.is_sendable_whole]
    return _sum_known((*(call.raw.cost_usd for call in sendable), _output_usd(replay, sendable)))


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
    whole = sum(call.raw.tokens for call in replay.calls)
    return max(0, whole - sums.sent_tokens - sum(saving.tokens for saving in replay.savings))


def note_lines(replays: Sequence[Replay]) -> list[str]:
    """Return every note once, with the number of sessions that it is about; notes that differ in their numbers only are one,
    with the range of each."""
    if len(replays) == 1:
        return list(dict.fromkeys(replays[0].notes))
    alike: dict[str, list[str]] = {}
    for replay in replays:
        for note in dict.fromkeys(replay.notes):
            alike.setdefault(_NUMBER.sub("", note), []).append(note)
    return [f"{counted(len(notes), 'session')}: {_with_ranges(notes)}" for notes in alike.values()]


def _with_ranges(notes: Sequence[str]) -> str:
    """Return notes that differ in their numbers only as one: each number that differs as the range of its values."""
    places = iter(zip(*map(_NUMBER.findall, notes), strict=True))

    def span(_found: re.Match[str]) -> str:
        values = sorted(set(next(places)), key=lambda text: int(text.replace(",", "")))
        return values[0] if len(values) == 1 else f"{values[0]}–{values[-1]}"

    return _NUMBER.sub(span, notes[0])


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
                "raw_sendable": call.is_sendable_whole,
                "recorded": msgspec.to_builtins(call.recorded),
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
    """Return how many tokens fewer, in words; empty where the bills are not of the same calls."""
    return less(sums.raw_tokens, sums.sent_tokens) if sums.is_comparable else ""


def gain_usd(sums: Totals) -> str:
    return less(sums.raw_usd, sums.sent_usd) if sums.is_comparable else ""


def gain_on_recorded(sums: Totals) -> str:
    """Return how much less the sent prompts cost than the recorded calls did, in words; empty if they are not the same calls."""
    return less(sums.recorded_usd, sums.sent_usd) if sums.is_wholly_recorded else ""


def less(before: float | None, after: float | None) -> str:
    """Return how much smaller the second number is, in words."""
    if before is None or after is None or not before:
        return ""
    change = 1 - after / before
    return f"{abs(change) * 100:.0f} % {'less' if change >= 0 else 'more'}"


HEAD = (
    "session",
    "calls",
    "raw",
    "recorded",
    "sent",
    "cached",
    "moves",
    "$ raw",
    "$ recorded",
    "$ sent",
    "largest",
    "refused",
)
"""Tokens raw, recorded and sent; the cached share of the sent ones; the costs of all three."""

NO_USAGE = "none"


def cells(name: str, sums: Totals, tokens: Callable[[int], str] = short) -> tuple[str, ...]:
    """Return one line of the table, under `HEAD`. Tokens are `short` unless another form is given.

    Raw sums of fewer calls than the sent ones say of how many: else they would pass for the cheaper ones.
    """
    sendable = f" ({sums.calls - sums.unsendable:,} of {sums.calls:,} calls)" if sums.unsendable else ""
    return (
        name,
        f"{sums.calls:,}",
        f"{tokens(sums.raw_tokens)}{sendable}",
        tokens(sums.recorded_tokens) if sums.recorded_calls else NO_USAGE,
        tokens(sums.sent_tokens),
        percent(sums.cached_share),
        f"{sums.prefix_moves:,}",
        f"{usd(sums.raw_usd)}{sendable}",
        usd(sums.recorded_usd) if sums.recorded_calls else NO_USAGE,
        usd(sums.sent_usd),
        tokens(sums.largest_sent),
        f"{sums.refusals:,}",
    )
