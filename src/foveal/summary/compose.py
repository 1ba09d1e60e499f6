"""A summary as text: what it stands for, the prose, the ledger, the lines that will be needed.

All but its first line is made of what others wrote, cut and put together anew. So it is neutralised here, where its lines
stand as they will be read: what was harmless in its place may not be so at the beginning of a line. The state stays as it
was recorded.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from foveal.summary import ledger, relevance
from foveal.summary.relevance.render import quote_line
from foveal.summary.state import Summary
from foveal.text.guard import neutralise, safe_name, wrap
from foveal.text.shorten.allowance import CountTokens
from foveal.text.shorten.head_tail import head_tail

VITAL_SHARE = 0.5
"""Of the allowance, at most: the user's words, todos, open failures. They seldom need as much."""

HELPFUL_SHARE = 0.15
"""Of what is left then: files and commands. Names are the digest's, which shows them in their lines."""

PROSE_SHARE = 0.5
"""Of the allowance: what prose takes at most; of longer prose the beginning and the end are shown."""

FETCHED_SHARE = 0.5
"""Of the allowance: what is shown again because it was fetched more than once."""

_REF_CHARS = 120

_LEAST_FRAMED = 300
"""Tokens: a shorter one is a line or two, as other stand-ins are, and the tag would be a tenth of it."""

NOTHING_FETCHED: Mapping[str, str] = MappingProxyType({})


def compose(
    summary: Summary,
    *,
    tokens: int,
    count: CountTokens,
    shown: Iterable[str] = (),
    fetched: Mapping[str, str] = NOTHING_FETCHED,
    selection: relevance.LineSelection = relevance.DEFAULT_SELECTION,
) -> str:
    """The text that stands for what is covered, in at most `tokens`. `shown` stands in the prompt beside it.

    What was `fetched` again and again, by its reference, is part of it as far as there is room.
    """
    opening, closing = _tags(summary.nonce) if tokens >= _LEAST_FRAMED else ("", "")
    room = tokens - count(opening + closing)
    return f"{opening}{_text(summary, room, count, shown=shown, fetched=fetched, selection=selection)}{closing}"


def _tags(nonce: str) -> tuple[str, str]:
    """What is around it: all that is inside is neutralised already."""
    opening, _, closing = wrap("summary", "…", nonce=nonce).partition("…") if nonce else ("", "", "")
    return opening, closing


def _text(
    summary: Summary,
    tokens: int,
    count: CountTokens,
    *,
    shown: Iterable[str],
    fetched: Mapping[str, str],
    selection: relevance.LineSelection,
) -> str:
    covered = summary.covered
    head = f"[Summary of {covered.entries:,} earlier messages ({covered.tokens:,} tokens); ref {covered.ref}]"

    broken = cache(neutralise)  # what is counted is used afterwards

    def safe(text: str) -> int:
        return count(broken(text))

    most = int(tokens * PROSE_SHARE)
    prose = broken(summary.prose)
    if count(prose) > most:  # a checkpoint may be long, and the room may be less than it was when the prose was written
        prose = head_tail(prose, most, count, covered.ref) or ""
    text = f"{head}\n{prose}" if prose and count(f"{head}\n{prose}") <= tokens else head
    for ref, original in fetched.items():
        longer = f"{text}\n\n[ref {safe_name(ref, _REF_CHARS)}, fetched again and again]\n{_quoted(original)}"
        text = longer if count(longer) <= tokens * FETCHED_SHARE else text
    for only, share in ((ledger.VITAL, VITAL_SHARE), (ledger.HELPFUL, HELPFUL_SHARE)):
        room = max(0, int((tokens - count(text)) * share))
        facts = broken(ledger.render(summary.ledger, room, safe, only=only))
        text = ("\n\n" if only is ledger.VITAL else "\n").join(filter(None, (text, facts)))
    room = tokens - count(text) - 4
    if room <= 0:
        return text
    beside = (*shown, text)
    lines = relevance.choose(
        summary.relevance, tokens=room, count=safe, now=summary.now, shown=beside, selection=selection
    )
    return "\n\n".join(filter(None, (text, broken(lines))))


def _quoted(text: str) -> str:
    """A text of which no line can be taken for a heading of the summary."""
    return "\n".join(map(quote_line, neutralise(text).split("\n")))
