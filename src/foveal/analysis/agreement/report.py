"""The report of an experiment: how often the folded prompt led to the same next action as the whole one, beside the model's own
noise, and the price of both.

For each call, *folded and whole* is the share of its pairs of one folded and one whole answer that agree, *whole twice* and
*folded twice* whether the two answers to the same prompt do. *Beyond noise* is the mean of the latter two less the first. Over
many calls it is 0 if the model does the same things as often with either prompt, and above 0 otherwise: no distribution agrees
better with another one than the two agree with themselves on average.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from statistics import fmean
from typing import Any

import msgspec

from foveal.analysis.agreement.actions import LIKENESSES, Likeness, NextActions, agree
from foveal.analysis.agreement.estimate import sum_usd
from foveal.analysis.agreement.sample import SampledCall, Survey
from foveal.analysis.agreement.trials import TRIALS, Answer, PromptKind, Trial
from foveal.analysis.measurement.shares import Interval
from foveal.analysis.replay.report import counted, percent, usd

REACHES: tuple[tuple[float, str], ...] = (
    (0.25, "0 to 1/4"),
    (0.5, "1/4 to 1/2"),
    (0.75, "1/2 to 3/4"),
    (1.0, "3/4 to 1"),
)
"""Shares of the whole prompt's tokens that the fold leaves, up to each of these."""

_Z = 1.959964
"""The 97.5th percentile of the normal distribution, for intervals of 95 %."""


class Rate(msgspec.Struct, frozen=True):
    """A share over so many calls, with its 95 % interval."""

    share: float | None
    calls: int
    interval: Interval | None


class Comparison(msgspec.Struct, frozen=True):
    """The agreement of some calls in one likeness."""

    likeness: Likeness
    folded_and_whole: Rate
    whole_twice: Rate
    folded_twice: Rate
    beyond_noise: Rate


class PromptBill(msgspec.Struct, frozen=True):
    """The answers to prompts of one kind: how many, their tokens and their price, all rounds together."""

    answers: int
    prompt_tokens: float
    """Tokens of a prompt on average, in our own count."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost_usd: float | None
    recalling: int
    """Answers that recalled something first."""
    recalls: int
    failed: dict[str, int]


class AgreementReport(msgspec.Struct, frozen=True):
    """All figures of an experiment."""

    model: str
    calls: int
    """Calls with an answer to both prompts."""
    survey: Survey
    overall: tuple[Comparison, ...]
    by_reach: dict[str, Comparison]
    """In target, by the share of the whole prompt that the fold leaves."""
    bills: dict[PromptKind, PromptBill]


def report(model: str, found: Survey, answers: Mapping[Trial, Answer]) -> AgreementReport:
    """Return the report on the answers that there are."""
    sets = {call: _Answered.of(call, answers) for call in found.sample}
    both = {call: one for call, one in sets.items() if one.whole and one.folded}
    by_reach: dict[str, Comparison] = {}
    for _, name in REACHES:
        if some := [one for call, one in both.items() if reach_of(call) == name]:
            by_reach[name] = compared(some, "target")
    return AgreementReport(
        model=model,
        calls=len(both),
        survey=found,
        overall=tuple(compared(list(both.values()), likeness) for likeness in LIKENESSES),
        by_reach=by_reach,
        bills={kind: _bill(kind, found.sample, answers) for kind in ("whole", "folded")},
    )


def reach_of(call: SampledCall) -> str:
    """Return how much of the whole prompt the fold leaves, in words."""
    return next(name for most, name in REACHES if call.left <= most)


class _Answered(msgspec.Struct, frozen=True):
    """The answers to the prompts of one call."""

    whole: tuple[NextActions, ...]
    folded: tuple[NextActions, ...]

    @classmethod
    def of(cls, call: SampledCall, answers: Mapping[Trial, Answer]) -> "_Answered":
        def given(kind: PromptKind) -> tuple[NextActions, ...]:
            found = (answers.get(Trial(call.digest, kind, number)) for number in range(1, TRIALS + 1))
            return tuple(answer.actions for answer in found if answer and not answer.fault)

        return cls(given("whole"), given("folded"))

    def across(self, likeness: Likeness) -> float:
        return fmean(agree(one, other, likeness) for one, other in product(self.folded, self.whole))


def _within(answers: Sequence[NextActions], likeness: Likeness) -> float | None:
    """Return the share of pairs of answers to one prompt that agree; None if there are none."""
    pairs = [agree(one, other, likeness) for one, other in combinations(answers, 2)]
    return fmean(pairs) if pairs else None


def compared(calls: Sequence[_Answered], likeness: Likeness) -> Comparison:
    """Return the agreement of these calls, each of which has an answer to both prompts."""
    noise, across = list[float](), list[float]()
    for call in calls:
        whole, folded = _within(call.whole, likeness), _within(call.folded, likeness)
        if whole is not None and folded is not None:
            noise.append((whole + folded) / 2)
            across.append(call.across(likeness))
    return Comparison(
        likeness,
        rate(call.across(likeness) for call in calls),
        rate(_within(call.whole, likeness) for call in calls),
        rate(_within(call.folded, likeness) for call in calls),
        difference(rate(noise), rate(across)),
    )


def rate(shares: Iterable[float | None]) -> Rate:
    """Return the mean over calls, with Wilson's interval for as many draws as there are calls. Calls without a share are not
    counted."""
    known = [share for share in shares if share is not None]
    if not known:
        return Rate(None, 0, None)
    mean, number = fmean(known), len(known)
    middle, scale = mean + _Z**2 / (2 * number), 1 + _Z**2 / number
    reach = _Z * math.sqrt(mean * (1 - mean) / number + _Z**2 / (4 * number**2))
    return Rate(mean, number, Interval(max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)))


def difference(one: Rate, other: Rate) -> Rate:
    """Return one rate less another one of the same calls, with Newcombe's interval: that of rates that have nothing to do with
    each other, so rather too wide."""
    if one.share is None or other.share is None or one.interval is None or other.interval is None:
        return Rate(None, 0, None)
    gap = one.share - other.share
    below = math.hypot(one.share - one.interval.low, other.interval.high - other.share)
    above = math.hypot(one.interval.high - one.share, other.share - other.interval.low)
    return Rate(gap, one.calls, Interval(max(-1.0, gap - below), min(1.0, gap + above)))


def _bill(kind: PromptKind, sample: Sequence[SampledCall], answers: Mapping[Trial, Answer]) -> PromptBill:
    of_kind = [answer for trial, answer in answers.items() if trial.kind == kind]
    given = [answer for answer in of_kind if not answer.fault]
    sizes = {call.digest: call.whole_tokens if kind == "whole" else call.folded_tokens for call in sample}
    return PromptBill(
        answers=len(given),
        prompt_tokens=fmean(sizes.values()) if sizes else 0.0,
        input_tokens=sum(answer.input_tokens for answer in of_kind),
        cached_tokens=sum(answer.cached_tokens for answer in of_kind),
        output_tokens=sum(answer.output_tokens for answer in of_kind),
        cost_usd=sum_usd(answer.cost_usd for answer in of_kind),
        recalling=sum(answer.recalls > 0 for answer in given),
        recalls=sum(answer.recalls for answer in given),
        failed=dict(Counter(answer.fault for answer in of_kind if answer.fault)),
    )


HEAD = ("same", "calls", "folded and whole", "whole twice", "folded twice", "beyond noise")
ALIGN = "lrrrrr"


def cells(name: str, one: Comparison) -> tuple[str, ...]:
    """Return the row of a comparison."""
    rates = (one.folded_and_whole, one.whole_twice, one.folded_twice, one.beyond_noise)
    return name, f"{one.folded_and_whole.calls:,}", *map(_rate, rates)


def survey_text(found: Survey) -> str:
    """Return the sentence on the calls that were looked at."""
    beyond = (
        f"; the model takes the whole prompt of all but {found.beyond_window:,} of them" if found.beyond_window else ""
    )
    refused = f"; {counted(found.refused, 'call')} the policy refuses" if found.refused else ""
    return (
        f"{counted(found.calls, 'recorded call')} looked at, {found.folded:,} would be folded{beyond}{refused}; "
        f"{len(found.sample):,} drawn, from {counted(len({call.session for call in found.sample}), 'session')}."
    )


def bill_texts(done: AgreementReport) -> list[str]:
    """Return the lines on tokens, price, recalls and failures."""
    whole, folded = done.bills["whole"], done.bills["folded"]
    left = folded.prompt_tokens / whole.prompt_tokens if whole.prompt_tokens else None
    lines = [
        f"A prompt has {whole.prompt_tokens:,.0f} tokens whole and {folded.prompt_tokens:,.0f} folded ({percent(left)}).",
        f"Billed: {_billed('whole', whole)}; {_billed('folded', folded)}, recalls included.",
        f"{folded.recalling:,} of {counted(folded.answers, 'folded answer')} recalled something first "
        f"({counted(folded.recalls, 'call')}).",
    ]
    for kind, bill in done.bills.items():
        if bill.failed:
            reasons = ", ".join(f"{number:,} {FAULTS.get(fault, fault)}" for fault, number in bill.failed.items())
            lines.append(f"Without an answer to the {kind} prompt: {reasons}.")
    return lines


FAULTS = {
    "refusal": "declined by the model",
    "too_long": "too long for the model",
    "cut_off": "cut off",
    "rate_limited": "rate limited to the end",
    "raised": "failed",
    "rejected": "refused by the provider",
    "not_text": "unreadable",
}
"""The faults of answers in words."""


def document(done: AgreementReport) -> dict[str, Any]:
    """Return all figures for programs, without the sample's digests."""
    plain: dict[str, Any] = msgspec.to_builtins(done)
    for call in plain["survey"]["sample"]:
        del call["digest"]
    return plain


def _billed(kind: PromptKind, bill: PromptBill) -> str:
    cached = f" ({bill.cached_tokens:,} from the cache)" if bill.cached_tokens else ""
    return f"{kind} {bill.input_tokens:,} tokens{cached} and {bill.output_tokens:,} of replies, {usd(bill.cost_usd)}"


def _rate(one: Rate) -> str:
    if one.share is None or one.interval is None:
        return "–"
    return f"{one.share:.2f} ({one.interval.low:.2f} to {one.interval.high:.2f})"
