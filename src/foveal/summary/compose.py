"""Composition of a summary as text: its coverage, the prose, the ledger, the relevant lines.

All but the first line is made of texts of others, cut and put together anew. So the result is neutralised here, in its
final lines: a text that was harmless in its place can be a form at the beginning of a line. The state stays as it was
recorded.
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
"""Largest share of the allowance for the user's words, todos and open failures. They seldom need as much."""

SAID_SHARE = 0.7
"""Largest share of the allowance for short messages of the user: in a long conversation they are what matters, and all that
people say in one is a few thousand tokens."""

HELPFUL_SHARE = 0.15
"""Share of the rest for files and commands. Names are left to the relevant lines, which show them in their context."""

PROSE_SHARE = 0.5
"""Largest share of the allowance for prose; longer prose is cut to its beginning and its end."""

FETCHED_SHARE = 0.5
"""Largest share of the allowance for originals that are shown again because they were fetched more than once."""

_REF_CHARS = 120

_LEAST_FRAMED = 300
"""Tokens of the smallest summary with a tag: a shorter one is a line or two, as other stand-ins are, and the tag would be a
tenth of it."""

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
    """Return the summary as text of at most `tokens`. `shown` are the texts that the prompt shows beside it.

    Originals in `fetched`, by their references, were fetched again and again; they are included as far as they fit.
    """
    is_framed = summary.nonce and tokens >= _LEAST_FRAMED
    opening, _, closing = wrap("summary", "…", nonce=summary.nonce).partition("…") if is_framed else ("", "", "")
    tokens -= count(opening + closing)
    covered = summary.covered
    head = f"[Summary of {covered.entries:,} earlier messages ({covered.tokens:,} tokens); ref {covered.ref}]"

    broken = cache(neutralise)  # each text is neutralised for counting and used afterwards

    def safe(text: str) -> int:
        return count(broken(text))

    most = int(tokens * PROSE_SHARE)
    prose = broken(summary.prose)
    # A checkpoint may be long, and the allowance may be smaller than when the prose was written.
    if count(prose) > most:
        prose = head_tail(prose, most, count, covered.ref) or ""
    text = f"{head}\n{prose}" if prose and count(f"{head}\n{prose}") <= tokens else head
    for ref, original in fetched.items():
        longer = f"{text}\n\n[ref {safe_name(ref, _REF_CHARS)}, fetched again and again]\n{_quoted(original)}"
        text = longer if count(longer) <= tokens * FETCHED_SHARE else text
    for only, share in ((ledger.VITAL, VITAL_SHARE), (ledger.HELPFUL, HELPFUL_SHARE)):
        left = max(0, tokens - count(text))
        said = int(left * SAID_SHARE) if only is ledger.VITAL else 0
        facts = broken(ledger.render(summary.ledger, int(left * share), safe, only=only, said=said))
        text = ("\n\n" if only is ledger.VITAL else "\n").join(filter(None, (text, facts)))
    room = tokens - count(text) - 4
    if room > 0:
        beside = (*shown, text)
        lines = relevance.choose(
            summary.relevance, tokens=room, count=safe, now=summary.now, shown=beside, selection=selection
        )
        text = "\n\n".join(filter(None, (text, broken(lines))))
    return f"{opening}{text}{closing}"


def _quoted(text: str) -> str:
    """Return the text neutralised, such that no line can be taken for a heading of the summary."""
    return "\n".join(map(quote_line, neutralise(text).split("\n")))
