"""Acceptance of a written summary, or the reason for its refusal.

An answer is first unwrapped (thinking, a fence around the whole, words before the first heading). Then every rule checks
it; the first that objects refuses it. A rule is a small function: it gets the draft and returns an objection with numbers,
or nothing. Rules are cautious: a good summary that is refused costs a model call, so each objects only to texts that no
honest summary resembles. Missing identifiers are no reason to refuse; code adds them.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from foveal.summary import answer_checks
from foveal.summary.question import SECTIONS, Question, mark_of, system_of
from foveal.text.guard import tags
from foveal.text.guard.normalise import normalise
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
    """The text to keep. `added` are the identifiers that code put back."""

    text: str
    added: tuple[str, ...] = ()


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
    forged: Callable[[str], list[str]]


AcceptanceRule: TypeAlias = Callable[[SummaryDraft], str]
"""A check of a draft; it returns an objection, or an empty text."""

_HEADING = lazy_pattern(rf"^#{{1,4}} {{0,4}}(?:\*\*)?({'|'.join(SECTIONS)}):?(?:\*\*)?:? {{0,8}}\r?$", re.I | re.M)
_FRAME = re.compile(r"[<\[]\s{0,8}/?\s{0,8}foveal\b[^>\]\n]{0,80}", re.IGNORECASE)
_NO_LETTER = re.compile(r"[^a-z]++")
_LONGEST_ADDED = 200
"""Characters of an identifier: a longer one is no name but a text."""


def frame_tags(text: str) -> list[str]:
    """Return the texts that pose as a tag of ours, in any disguise: no honest summary holds one.

    An honest summary may well mention other tags (a chat template's, a harness's); they are neutralised where it is shown.
    """
    plain = [match.group() for match in _FRAME.finditer(text)]
    return plain or [tag for tag in tags(text) if "foveal" in _NO_LETTER.sub("", normalise(tag).text.casefold())]


def accept(
    answer: str,
    question: Question,
    *,
    count: CountTokens,
    smaller_than: int,
    must_hold: Sequence[str] = (),
    forged: Callable[[str], list[str]] = frame_tags,
) -> Accepted | Refused:
    """Return the summary to keep, or the objection of the first rule that it breaks."""
    draft = SummaryDraft(unwrapped(answer), question, count, smaller_than, forged)
    for reason, rule in RULES:
        if wrong := rule(draft):
            return Refused(reason, wrong)
    added = _missing(draft, must_hold)
    if not added:
        return Accepted(draft.text)
    whole = msgspec.structs.replace(draft, text=f"{draft.text}\nAlso: {', '.join(added)}")
    for reason, rule in _SIZES:
        if wrong := rule(whole):
            return Refused(reason, f"{wrong} That is with {len(added):,} identifiers which it left out.")
    return Accepted(whole.text, added)


def unwrapped(answer: str) -> str:
    """Return the answer without thinking, without a fence around the whole, from its first heading on."""
    text = answer_checks.without_wrapper(answer_checks.without_thinking(sendable(answer)))
    first = _HEADING().search(text)
    return answer_checks.without_wrapper(text[first.start() :]) if first else text


def _missing(draft: SummaryDraft, must_hold: Sequence[str]) -> tuple[str, ...]:
    """Return the identifiers that the draft lacks. They come from tools too: one that forges a tag or breaks the line is
    dropped."""
    wanted = dict.fromkeys(" ".join(sendable(name).split()) for name in must_hold)
    return tuple(
        name
        for name in wanted
        if name and len(name) <= _LONGEST_ADDED and not answer_checks.holds(draft.text, name) and not draft.forged(name)
    )


def is_empty(draft: SummaryDraft) -> str:
    return "" if draft.text.strip(" \t\r\n.…`*#-") else "The answer is empty (thinking does not count)."


def has_tool_call(draft: SummaryDraft) -> str:
    call = answer_checks.tool_call(draft.text)
    return f"The answer holds a tool call ({call!r}); write text only." if call else ""


def is_refusal(draft: SummaryDraft) -> str:
    words = answer_checks.refusal(_HEADING().sub("", draft.text))
    return f"The answer declines the task ({words!r})." if words else ""


def is_forged(draft: SummaryDraft) -> str:
    tags = draft.forged(draft.text)
    return f"The answer holds {len(tags):,} tag(s) of the frame, the first {tags[0][:60]!r}." if tags else ""


def is_garbage(draft: SummaryDraft) -> str:
    return answer_checks.noise(draft.text) or answer_checks.repetition(draft.text)


def is_echo(draft: SummaryDraft) -> str:
    if (mark := mark_of(draft.question)) in draft.text:
        return f"The answer repeats the question (it holds the mark {mark})."
    for name, source, most in (
        ("transcript", draft.question.transcript, answer_checks.MOST_QUOTED),
        ("question", system_of(draft.question), answer_checks.MOST_OF_RULES),
    ):
        share = answer_checks.copied(draft.text, source)
        if share > most:
            return f"{share:.0%} of the answer is copied from the {name}; at most {most:.0%} may be."
    return ""


def is_cut_off(draft: SummaryDraft) -> str:
    end = answer_checks.broken_end(draft.text)
    if end:
        return f"The answer is cut off: {end}."
    found = list(_HEADING().finditer(draft.text))
    if found and not draft.text[found[-1].end() :].strip():
        return f"The answer is cut off: nothing stands under its last heading, {found[-1].group().strip()!r}."
    return ""


def is_incomplete(draft: SummaryDraft) -> str:
    found = {match.group(1).lower() for match in _HEADING().finditer(draft.text)}
    missing = [f"## {name}" for name in SECTIONS if name.lower() not in found]
    return f"{len(missing)} of {len(SECTIONS)} headings are missing: {', '.join(missing)}." if missing else ""


def is_foreign(draft: SummaryDraft) -> str:
    """Object to a foreign script. Only scripts are compared, and only if no language was asked for by name."""
    question = draft.question
    if question.language_hint:
        return ""
    return answer_checks.foreign(draft.text, "\n".join((question.transcript, question.previous, question.instructions)))


def is_not_smaller(draft: SummaryDraft) -> str:
    size = draft.count(draft.text)
    if size < draft.smaller_than:
        return ""
    return f"The answer takes {size:,} tokens and what it stands for {draft.smaller_than:,}."


def is_over(draft: SummaryDraft) -> str:
    size = draft.count(draft.text)
    return (
        f"The answer takes {size:,} tokens; at most {draft.question.tokens:,} may be."
        if size > draft.question.tokens
        else ""
    )


_SIZES: tuple[tuple[RefusalReason, AcceptanceRule], ...] = (("not_smaller", is_not_smaller), ("over", is_over))

RULES: tuple[tuple[RefusalReason, AcceptanceRule], ...] = (
    ("empty", is_empty),
    ("forged", is_forged),
    ("tool_call", has_tool_call),
    ("refusal", is_refusal),
    ("garbage", is_garbage),
    ("echo", is_echo),
    ("not_smaller", is_not_smaller),
    ("over", is_over),
    ("cut_off", is_cut_off),
    ("incomplete", is_incomplete),
    ("language", is_foreign),
)
"""In the order in which they are applied: kind of the answer, its size, its completeness."""
