"""Extractor of the user's own words: the first request, rules and corrections, decisions, short messages whole."""

import re
from collections.abc import Iterator
from itertools import islice

from foveal.summary.ledger.events import CallEnded, LedgerEvent, QuestionAnswered, SpokenWords
from foveal.summary.ledger.extractors.questions import ASKS
from foveal.summary.ledger.items import STATEMENT_CHARS, Quote
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.message import is_pasted
from foveal.text.user_words import is_project_instructions, user_words

_RULE = lazy_pattern(
    r"\b(?:always|never|don'?t|do not|must(?:n'?t| not)?|instead|actually|from now on|remember|make sure|ensure|avoid|only"
    r"|prefer|rather|stop|wrong|not what|should(?:n'?t| not)?|important|required?|revert|undo|no longer|without|keep|wait|nope)\b"
    r"|(?:\A|[.!?\n] {0,2})no\b[,. ]|请勿|总是|始终|一定|必须|不要|不能|不得|不许"
    r"|别|永远|绝不|禁止|务必|改为|改成|而不是|不是|不对|错了|应该|应当|其实"
    r"|记住|以后|今后|优先|只能|只用|只要|确保|避免|保持|停",
    re.IGNORECASE,
)
_DECISION = lazy_pattern(
    r"\b(?:let'?s|let us|go with|going with|we'?ll|we will|i want|i'?d like|decided?"
    r"|choose|option \w\b|use \w|yes\b|approved?|agreed?)"
    r"|就用|决定|选择|选|采用|同意|可以|好的",
    re.IGNORECASE,
)
_SENTENCE = lazy_pattern(r"[^\n.!?。！？]++(?:[.!?。！？]++(?![\s\"')\]]|\Z)[^\n.!?。！？]*+)*+[.!?。！？]*+[\"')\]]?")
_ANSWER = re.compile(r"\"=\"((?:[^\"\\]|\\.){1,400})\"")
_REQUEST, _PIECE, _MOST_PIECES = 1_200, 300, 8
_LOOKED_CHARS = 12_000
"""A longer message is a document; the request is before it or after it."""


def quotes(event: LedgerEvent) -> Iterator[Quote | QuestionAnswered]:
    match event:
        case SpokenWords(role="user", text=text) if is_project_instructions(text):
            yield from _orders(text.strip())
        # Any tag before the user's words is accepted: the text in it is a document, of any origin.
        case SpokenWords(role="user", text=text) if said := user_words(text, lambda _tag: True):
            yield from _quotes(said)
            yield QuestionAnswered()
        case SpokenWords(role="system", text=text) if said := user_words(text):
            yield from _orders(said)
        case CallEnded(tool=tool, text=text, status="ok") if tool in ASKS:
            answers = _ANSWER.findall(text) or [text[:STATEMENT_CHARS]] * bool(text.strip())
            yield from (Quote(text=answer, why="decision") for answer in answers)
            yield QuestionAnswered()
        case _:
            pass


def _orders(text: str) -> Iterator[Quote]:
    """Yield the text of the operator or of the project's instructions, all of it as rules."""
    yield Quote(text=text[:_REQUEST], why="rule", whole=len(text) <= _REQUEST, by="operator")
    yield from (Quote(text=piece, why="rule", whole=False, by="operator") for piece in _rules(text[_REQUEST:]))


def _quotes(text: str) -> Iterator[Quote]:
    if len(text) <= STATEMENT_CHARS:
        why = "rule" if _RULE().search(text) else "decision" if _DECISION().search(text) else "said"
        yield Quote(text=text, why=why)
        return
    is_bulk = is_pasted(text[:_LOOKED_CHARS])
    yield Quote(text=text[:_REQUEST], why="request", whole=len(text) <= _REQUEST, pasted=is_bulk)
    yield from (Quote(text=piece, why="rule", whole=False, pasted=is_bulk) for piece in _rules(text[_REQUEST:]))


def _rules(rest: str) -> list[str]:
    """Return the first sentences with a cue, verbatim."""
    if len(rest) > _LOOKED_CHARS:
        rest = rest[: _LOOKED_CHARS // 2] + "\n" + rest[-_LOOKED_CHARS // 2 :]
    pieces = (piece.strip() for piece in _SENTENCE().findall(rest))
    rules = (piece for piece in pieces if 8 < len(piece) <= _PIECE and piece[-1] != ":" and _RULE().search(piece))
    return list(islice(rules, _MOST_PIECES))
