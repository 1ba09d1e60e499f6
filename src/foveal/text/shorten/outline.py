"""Level `outline`: the tool, the kind and the size of a text, and its most telling identifiers, on two to four lines.

[read_file: source, 900 lines, 31,204 characters; ref k3v9x2m1qa]
[paths] src/net/pool.py tests/test_pool.py
[names] ConnectionPool acquire_timeout MAX_IDLE
[values] retries=5 9f86d081884c7d65
"""

import re
from collections import Counter

from foveal.text.guard.seals import sealable, sealed
from foveal.text.lazy_pattern import LazyPattern, lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.cut import clip
from foveal.text.shorten.line_selection import guarded, only_if_shorter

_HEAD_CHARS, _TAIL_CHARS = 300_000, 100_000
"""The middle of longer texts is not searched: the line should cost little, and would tell little more."""
_LONGEST = 80
_EACH = 40
_ATTEMPTS = 8

_GROUPS: dict[str, LazyPattern] = {
    "paths": lazy_pattern(
        r"https?://[^\s\"'<>)\]]{4,80}|(?<![\w/])(?:[\w@.+-]{1,40}/){1,12}[\w@.+-]{1,60}|\b[\w-]{2,40}\.[a-z]{1,4}\b(?![.(\w])"
    ),
    "names": lazy_pattern(
        r"\b(?:[A-Za-z]\w{0,30}(?:Error|Exception)|[A-Z][a-z0-9]{1,30}(?:[A-Z][a-z0-9]{0,30}){1,8}"
        r"|[a-z][a-z0-9]{0,30}(?:[A-Z][a-z0-9]{0,30}){1,8}|[A-Za-z0-9]{1,30}(?:_[A-Za-z0-9]{1,30}){1,8})\b"
    ),
    "values": lazy_pattern(
        r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[a-f]{0,39}[0-9])(?=[0-9]{0,39}[a-f])[0-9a-f]{7,64}\b"
        r"|\b[A-Za-z_]{3,24}[=:][ ]?[0-9]{1,12}(?:\.[0-9]{1,6})?%?|\b#?[0-9]{4,12}\b"
    ),
}
"""URLs and paths; symbols and error names; ids, hashes, and numbers with their labels."""


def outline(text: str, hint: str, kind: str, allowance: Allowance) -> str | None:
    """Return an outline of at most `allowance.tokens`; None if it would not be shorter. `kind` is the level that suits the
    text."""
    tool = clip(sealable(hint).split(None, 1)[0], 40) if hint.strip() else "result"
    lines = text.count("\n") + 1
    size = f": {kind}, {lines:,} lines, {len(text):,} characters; ref {allowance.ref}]"
    head = f"{sealed('[')}{tool}{sealed(size)}"
    found = [(label, _telling(text, pattern(), allowance.focus)) for label, pattern in _GROUPS.items()]
    each = _EACH
    for _ in range(_ATTEMPTS):
        named = (f"[{label}] {' '.join(terms[:each])}" for label, terms in found if terms[:each])
        shown = only_if_shorter(text, "\n".join((head, *named)), allowance)
        if (safe := guarded(text, shown, allowance)) is not None:
            return safe
        each = each * 2 // 3
    return guarded(text, only_if_shorter(text, head, allowance), allowance)


def _telling(text: str, pattern: re.Pattern[str], focus: frozenset[str]) -> list[str]:
    """Return the terms that were asked for first, then the most frequent; of equals the longer, then the earlier."""
    searched = text if len(text) <= _HEAD_CHARS + _TAIL_CHARS else text[:_HEAD_CHARS] + "\n" + text[-_TAIL_CHARS:]
    counts = Counter(term for term in pattern.findall(searched) if 4 <= len(term) <= _LONGEST)
    order = {term: at for at, term in enumerate(counts)}
    return sorted(
        counts, key=lambda term: (term not in focus, -min(counts[term], 12), -min(len(term), 24), order[term])
    )
