"""Acceptance of a written summary, or the reason for its refusal.

An answer is first unwrapped (thinking, a fence around the whole, words before the first heading). Then every rule checks
it; the first that objects refuses it. A rule is a small function: it gets the draft and returns an objection with numbers,
or nothing. Rules are cautious: a good summary that is refused costs a model call, so each objects only to texts that no
honest summary resembles. Missing identifiers are no reason to refuse; code adds them.
"""

import re
from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from foveal.summary import answer_checks
from foveal.summary.question import SECTIONS, Question, mark_of, system_of
from foveal.text import guard
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import CountTokens
from foveal.values.codec import sendable

RefusalReason: TypeAlias = Literal[
    "empty",
    "tool_call",
    "refusal",
    "forged",
    "garbage",
    "echo",
    "cut_off",
    "incomplete",
    "language",
    "not_smaller",
    "over",
]


class Accepted(msgspec.Struct, frozen=True):
    """The text to keep."""

    text: str


class Refused(msgspec.Struct, frozen=True):
    """The reason for a refusal. `detail` is a sentence for the writer."""

    reason: RefusalReason
    detail: str


class SummaryDraft(msgspec.Struct, frozen=True):
    """The input of the rules: the unwrapped answer and everything that it is compared with."""

    text: str
    question: Question
    count: CountTokens
    smaller_than: int


AcceptanceRule: TypeAlias = Callable[[SummaryDraft], str]
"""A check of a draft; it returns an objection, or an empty text."""

_HEADING = lazy_pattern(rf"^#{{1,4}} {{0,4}}(?:\*\*)?({'|'.join(SECTIONS)}):?(?:\*\*)?:? {{0,8}}\r?$", re.I | re.M)


def accept(
    answer: str,
    question: Question,
    *,
    count: CountTokens,
    smaller_than: int,
) -> Accepted | Refused:
    """Return the summary to keep, or the objection of the first rule that it breaks."""
    draft = SummaryDraft(unwrap_answer(answer), question, count, smaller_than)
    for reason, rule in RULES:
        if wrong := rule(draft):
            return Refused(reason, wrong)
    return Accepted(draft.text)


def unwrap_answer(answer: str) -> str:
    """Return the answer without thinking, without a fence around the whole, from its first heading on."""
    text = answer_checks.without_wrapper(answer_checks.without_thinking(sendable(answer)))
    first = _HEADING().search(text)
    return answer_checks.without_wrapper(text[first.start() :]) if first else text


def check_empty(draft: SummaryDraft) -> str:
    return "" if draft.text.strip(" \t\r\n.…`*#-") else "The answer is empty (thinking does not count)."


def check_tool_call(draft: SummaryDraft) -> str:
    call = answer_checks.tool_call(draft.text)
    return f"The answer holds a tool call ({call!r}); write text only." if call else ""


def check_refusal(draft: SummaryDraft) -> str:
    words = answer_checks.refusal(_HEADING().sub("", draft.text))
    return f"The answer declines the task ({words!r})." if words else ""


def check_forged(draft: SummaryDraft) -> str:
    tags = guard.forged_tags(draft.text)
    return f"The answer holds {len(tags):,} tag(s) of the frame, the first {tags[0][:60]!r}." if tags else ""


def check_garbage(draft: SummaryDraft) -> str:
    return answer_checks.noise(draft.text) or answer_checks.repetition(draft.text)


def check_echo(draft: SummaryDraft) -> str:
    if (mark := mark_of(draft.question)) in draft.text:
        return f"The answer repeats the question (it holds the mark {mark})."
    for name, source, most in (
        ("transcript", draft.question.transcript, answer_checks.MOST_QUOTED),
        ("question", system_of(draft.question), answer_checks.MOST_OF_RULES),
    ):
        share = answer_checks.copied_share(draft.text, source)
        if share > most:
            return f"{share:.0%} of the answer is copied from the {name}; at most {most:.0%} may be."
    return ""


def check_cut_off(draft: SummaryDraft) -> str:
    end = answer_checks.broken_end(draft.text)
    if end:
        return f"The answer is cut off: {end}."
    found = list(_HEADING().finditer(draft.text))
    if found and not draft.text[found[-1].end() :].strip():
        return f"The answer is cut off: nothing stands under its last heading, {found[-1].group().strip()!r}."
    return ""


def check_incomplete(draft: SummaryDraft) -> str:
    found = {match.group(1).lower() for match in _HEADING().finditer(draft.text)}
    missing = [f"## {name}" for name in SECTIONS if name.lower() not in found]
    return f"{len(missing)} of {len(SECTIONS)} headings are missing: {', '.join(missing)}." if missing else ""


def check_script(draft: SummaryDraft) -> str:
    """Object to a foreign script. Only scripts are compared, and only if no language was asked for by name."""
    question = draft.question
    if question.language_hint:
        return ""
    return answer_checks.foreign_script(
        draft.text, "\n".join((question.transcript, question.previous, question.instructions))
    )


def check_smaller(draft: SummaryDraft) -> str:
    size = draft.count(draft.text)
    if size < draft.smaller_than:
        return ""
    return f"The answer takes {size:,} tokens and what it stands for {draft.smaller_than:,}."


def check_size(draft: SummaryDraft) -> str:
    size = draft.count(draft.text)
    return (
        f"The answer takes {size:,} tokens; at most {draft.question.tokens:,} may be."
        if size > draft.question.tokens
        else ""
    )


RULES: tuple[tuple[RefusalReason, AcceptanceRule], ...] = (
    ("empty", check_empty),
    ("forged", check_forged),
    ("tool_call", check_tool_call),
    ("refusal", check_refusal),
    ("garbage", check_garbage),
    ("echo", check_echo),
    ("not_smaller", check_smaller),
    ("over", check_size),
    ("cut_off", check_cut_off),
    ("incomplete", check_incomplete),
    ("language", check_script),
)
"""In the order in which they are applied: kind of the answer, its size, its completeness."""
