"""The user's words as a section of the ledger's text: which of them are shown, and in what order.

In a conversation, short messages in the user's own words come first, the newest first; long ones take what those leave of the
section's share, and pasted bulk comes last. They are shown in their order: what is said later may revise what was said before.
A few quotes are shown with those first that sound like rules, and pasted bulk gives way to them as well.
"""

from collections.abc import Iterable, Sequence

from foveal.summary.ledger.items import Quote
from foveal.summary.ledger.sections import rank_quote, rank_statement
from foveal.text.shorten.allowance import CountTokens

TITLE = "User said"

_FEW = 12
"""Short messages that are read at a glance, in any order."""

_REQUEST_CHARS = 1_600
"""Most characters of a long message: the summary quotes the first and the latest request by itself."""


def render_quotes(quotes: Sequence[Quote], tokens: int, count: CountTokens, *, most: int) -> str:
    """Return the section of at most `tokens`, or of at most `most` where short messages alone take more; empty if there is
    nothing to show."""
    shown = list(quotes)
    text = _written(shown, quotes)
    if not shown or count(text) <= tokens:
        return text if shown else ""
    if not _is_talk(quotes) and not any(quote.pasted for quote in quotes):
        shown, limit = sorted(quotes, key=_rules_first), 0
    else:
        shown, limit = _chosen(quotes, tokens - count(_written([], quotes)), most - tokens, count)
    while shown and count(text := _written(shown, quotes)) > tokens + limit:
        shown.pop()
    return text if shown else ""


def _chosen(quotes: Iterable[Quote], room: int, more: int, count: CountTokens) -> tuple[list[Quote], int]:
    """Return the best quotes that fit, best first, and how many of the tokens `more` than the room they take."""
    statements = sorted((one for one in quotes if one.is_statement), key=rank_statement, reverse=True)
    others = sorted((one for one in quotes if not one.is_statement), key=rank_quote, reverse=True)
    shown, taken = list[Quote](), 0
    for quote in statements:
        size = (count(_line(quote)) + 1) * (1 + len(quote.earlier))
        if taken + size > room + more:
            break
        shown.append(quote)
        taken += size
    for quote in others:
        if taken + (size := count(_line(quote)) + 1) <= room:
            shown.append(quote)
            taken += size
    return shown, more if taken > room else 0


def _written(shown: Sequence[Quote], of: Sequence[Quote]) -> str:
    is_talk = _is_talk(of)
    title = f"## {TITLE}, oldest first" if is_talk else f"## {TITLE}"
    left = len(of) - len(shown)
    lines = _talk(shown) if is_talk else [_line(quote) for quote in sorted(shown, key=_rules_first)]
    more = [f"… and {left} more messages"] if left else []
    return "\n".join((title, *lines, *more))


def _is_talk(quotes: Iterable[Quote]) -> bool:
    """Return whether so much was said in short messages that it is a conversation."""
    return sum(quote.is_statement for quote in quotes) > _FEW


def _talk(shown: Sequence[Quote]) -> list[str]:
    """Return the quotes in the order of the conversation. Words that were said again stand in each of their places: they may
    undo what was said between."""
    placed = [(quote.seq, quote.text, f"{_line(quote)}{_times(quote)}") for quote in shown]
    placed += [(seq, quote.text, f"- “{quote.text}” (again below)") for quote in shown for seq in quote.earlier]
    return [line for *_, line in sorted(placed)]


def _times(quote: Quote) -> str:
    return f" ×{quote.uses}" if quote.uses > len(quote.earlier) + 1 else ""


def _rules_first(quote: Quote) -> tuple[bool, int, str]:
    return quote.why == "said", -quote.seq, quote.text


def _line(quote: Quote) -> str:
    about = f" (asked: {quote.about})" if quote.about else ""
    text = quote.text[:_REQUEST_CHARS] if quote.why == "request" else quote.text
    cut = "" if quote.whole and text == quote.text else " …"
    who = "" if quote.by == "user" else f"{quote.by}: "
    return f"- {who}“{text}”{cut}{about} [{quote.ref}]"
