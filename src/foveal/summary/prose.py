"""Prose of a planned summary: the question to its writer, and the fold with the answer in it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from foveal.summary import ledger
from foveal.summary.compose import NOTHING_FETCHED, compose
from foveal.summary.question import Question, transcript_of
from foveal.summary.relevance import DEFAULT_SELECTION, LineSelection
from foveal.summary.state import Summary, decode_summary, encode_summary
from foveal.text.guard import neutralise
from foveal.text.shorten.allowance import CountTokens
from foveal.values.entry import Fold, RangeFold

PROSE_SHARE = 0.3
"""Share of the summary's tokens that prose may take."""

TRANSCRIPT_TOKENS = 24_000
"""Longest transcript for a summariser: small models have small windows, and long texts lose their middle."""


def summary_in(fold: Fold) -> RangeFold | None:
    """Return the summary of a fold, if it has one."""
    return next((item for item in fold.items if isinstance(item, RangeFold) and item.level == "summary"), None)


class AnsweredRequest(msgspec.Struct, frozen=True):
    """The request that the provider answered last, which its cache may still hold."""

    request: dict[str, Any]
    dialect: str


def question_for(
    item: RangeFold,
    steps: Sequence[ledger.LedgerStep],
    count: CountTokens,
    *,
    instructions: str = "",
    sent: AnsweredRequest | None = None,
) -> Question:
    """Return the question for a summariser about this summary: the new messages, with the facts that are known already."""
    summary = decode_summary(item.state)
    tokens = max(64, int(item.tokens * PROSE_SHARE))
    return Question(
        transcript=transcript_of(steps, TRANSCRIPT_TOKENS, count),
        tokens=tokens,
        instructions=instructions,
        previous=summary.prose,
        facts=neutralise(_facts(summary, tokens, count)),
        request=sent.request if sent else None,
        dialect=sent.dialect if sent else "",
    )


def _facts(summary: Summary, tokens: int, count: CountTokens) -> str:
    """Return the ledger, and with the tokens that it leaves the names that are most likely to be used again."""
    facts = ledger.render(summary.ledger, tokens, count)
    left, named = tokens - count(f"{facts}\n## Names\n"), list[str]()
    for name in (one.text for one in summary.relevance.names if one.text not in facts):
        left -= count(f"{name}, ")
        if left < 0:
            break
        named.append(name)
    return "\n".join(filter(None, (facts, f"## Names\n{', '.join(named)}" if named else "")))


def with_prose(
    fold: Fold,
    prose: str,
    author: str,
    *,
    count: CountTokens,
    shown: Iterable[str],
    fetched: Mapping[str, str] = NOTHING_FETCHED,
    selection: LineSelection = DEFAULT_SELECTION,
) -> Fold:
    """Return the fold with this prose in its summary, no larger than before. The relevant lines are chosen again."""
    item = summary_in(fold)
    if item is None:
        return fold
    summary: Summary = msgspec.structs.replace(decode_summary(item.state), prose=prose, author=author)
    text = compose(summary, tokens=item.tokens, count=count, shown=shown, fetched=fetched, selection=selection)
    written = msgspec.structs.replace(
        item, text=text, tokens=count(text), prose=prose, author=author, state=encode_summary(summary)
    )
    items = tuple(written if one is item else one for one in fold.items)
    return msgspec.structs.replace(fold, items=items, after=fold.after - item.tokens + written.tokens)
