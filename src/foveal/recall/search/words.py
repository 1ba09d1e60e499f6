"""The words of texts and of queries. Both are made here, so that every written word can be found.

SQLite's tokenizer does most of it: case, accents, English endings, and every sign that is no letter or digit ends a word, so
that `max_context_tokens`, `foveal.recall` and `src/app/main.py` are found by their parts, and whole as parts in a row. What it
does not do is done here: names in camelCase, and scripts that put no spaces between words, which are taken character by
character.
"""

import re
from itertools import pairwise

from foveal.text.names import camel_case_parts
from foveal.values.codec import sendable

MOST_QUERY_CHARACTERS = 1_000
MOST_TERMS = 64
"""Most terms of one query; SQLite looks each of them up."""

_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"  # Thai, Lao, Burmese, Khmer, Japanese, Chinese, Korean
)
_BLOB = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{200,}")
"""Base64 and the like. There are no words in it, and every one of its pieces would be a new one."""
_BLOCK = re.compile(r"[A-Za-z0-9+/=_-]{100}")
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


def indexed(text: str, *, is_json: bool = False) -> tuple[str, str]:
    """Return the text as it is indexed, and the pieces of its camelCase names."""
    if is_json and "\\" in text:
        text = _ESCAPE.sub(_unescaped, text)
    text = sendable(text)
    # Every blob holds one of these blocks whole, and it takes a few looks to see that there is none.
    if any(_BLOCK.match(text, at) for at in range(0, len(text) - 99, 100)):
        text = _BLOB.sub(" ", text)
    return _spaced(text), " ".join(camel_case_parts(text))


def query(text: str) -> str:
    """Return the query in SQLite's syntax: any of the words, each of them quoted; empty if there is no word in the text."""
    return " OR ".join(f'"{term}"' for term in terms(text)[:MOST_TERMS])


def terms(text: str) -> list[str]:
    """Return the words of a text, each once, in their order.

    A name with several parts is a term as well, so that a text with the whole name comes before one with its parts.
    """
    found: dict[str, None] = {}
    for chunk in sendable(text).split():
        words = _WORD.findall(_spaced(chunk))
        if words:
            found[" ".join(words)] = None
        singles = [word for word in words if not _UNSPACED.match(word)]
        pairs = [f"{one} {two}" for one, two in pairwise(words) if _UNSPACED.match(one) and _UNSPACED.match(two)]
        found.update(dict.fromkeys([*singles, *camel_case_parts(chunk), *pairs]))
    return list(found)


def is_unspaced(term: str) -> bool:
    """Return whether a term is of a script that puts no spaces between words."""
    return _UNSPACED.match(term) is not None


def _spaced(text: str) -> str:
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def _unescaped(escape: re.Match[str]) -> str:
    """Return the character that JSON wrote in hexadecimal; a space for other escapes, which only keep words apart."""
    return sendable(chr(int(escape[1], 16))) if escape[1] else " "
