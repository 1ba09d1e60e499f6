"""Extractor of questions of the model that the user has not answered."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from foveal.summary.ledger.events import CallBegan, LedgerEvent, SpokenWords
from foveal.summary.ledger.items import LedgerQuestion
from foveal.text.calls.read_tools import CallArguments

_ENDS = re.compile(r"(?<=[.!?])\s|[\n。！？]")
_LAST_CHARS = 800
"""A question to the user is at the end of a message; further up, the model is thinking aloud."""
_ASK_NAMES = "askuserquestion askquestion askuser askhuman askfollowupquestion question requestuserinput"
ASKS = frozenset(_ASK_NAMES.split())
_QUESTION_CHARS = 300


def questions(event: LedgerEvent) -> Iterator[LedgerQuestion]:
    match event:
        case SpokenWords(role="assistant", text=text, is_last=True):
            if asked := _last_question(text[-_LAST_CHARS:]):
                yield LedgerQuestion(text=asked)
        case CallBegan(tool=tool, fields=fields) if tool in ASKS:
            several = fields.get("questions")
            for one in cast("list[object]", several) if isinstance(several, list) else [fields]:
                text = cast("CallArguments", one).get("question") if isinstance(one, Mapping) else one
                if isinstance(text, str) and text.strip():
                    yield LedgerQuestion(text=text.strip()[:_QUESTION_CHARS])
        case _:
            pass


def _last_question(text: str) -> str:
    """Return the last sentence that ends with a question mark, without the marks of lists and headings."""
    end = max(text.rfind("?"), text.rfind("？"))
    sentence = _ENDS.split(text[:end])[-1].strip(" \t*-#>") if end >= 0 else ""
    return f"{sentence}{text[end]}"[-_QUESTION_CHARS:] if sentence else ""
