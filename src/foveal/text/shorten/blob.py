"""Blobs: base64, hex, minified code and other text without lines. Shown by kind, size, hash and beginning."""

import hashlib
import re

from foveal.text.guard.seals import plain, sealed
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.cut import boundary
from foveal.text.shorten.line_selection import density, only_if_shorter

_SAMPLE_CHARS = 2_000
_LONG_LINE = 1_500
"""Longer than any line that is written by hand."""
_ENCODED_HEAD = 64
_KINDS = (
    ("hex", re.compile(r"(?:0x)?[0-9a-fA-F\s:]+\Z")),
    ("base64", re.compile(r"(?:data:[\w/+.-]{1,80};base64,)?[A-Za-z0-9+/_=\s-]+\Z")),
    ("minified code", re.compile(r"(?=[^\n]*[{;])(?=[^\n]*[(=])")),
)
_ENCODED = ("hex", "base64")
_ATTEMPTS = 6
_HEAD_SHARE = 0.6


def fits(text: str, hint: str) -> bool:
    start, middle = text[:_SAMPLE_CHARS], text[len(text) // 2 :][:_SAMPLE_CHARS]
    if "\n" not in text:
        return True
    if len(text) < _LONG_LINE:
        return False
    if text.count("\n") * _LONG_LINE < len(text):
        return True
    return _encoded(start) and _encoded(middle)


def shrink(text: str, allowance: Allowance) -> str | None:
    kind = _kind(text)
    head = _ENCODED_HEAD if kind in _ENCODED else None
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    lines = text.count("\n") + 1
    note = sealed(f"[{kind}: {len(text):,} characters, {lines:,} lines, sha256 {digest}; ref {allowance.ref}]")
    chars = int((allowance.tokens - allowance.count(plain(note))) * density(text, allowance))
    for _ in range(_ATTEMPTS):
        if chars < 1:
            break
        shown = f"{note}\n{_ends(text, min(chars, head or chars), allowance.focus, tail=head is None)}"
        size = allowance.count(plain(shown))
        if size <= allowance.tokens:
            return only_if_shorter(text, shown, allowance)
        chars = int(chars * allowance.tokens / size * 0.95) - 4
    return only_if_shorter(text, note, allowance)


def _ends(text: str, chars: int, focus: frozenset[str], *, tail: bool) -> str:
    """Return the beginning, the surroundings of the terms asked for, and the end."""
    windows = _windows(text, chars // 3, focus)
    left = chars - sum(end - start for start, end in windows)
    first = boundary(text, int(left * _HEAD_SHARE) if tail else left)
    last = boundary(text, len(text) - (left - first)) if tail else len(text)
    spans = [(0, first), *((max(start, first), min(end, last)) for start, end in windows), (last, len(text))]
    shown: list[str] = []
    at = 0
    for start, end in spans:
        if start > at:
            shown.append(sealed(f"[… {start - at:,} characters]"))
        if end > start:
            is_cut = start > 0 and text[start - 1] != "\n"  # it must not look like the beginning of a line
            shown.append(f"{'…' * is_cut}{text[start:end]}")
        at = max(at, end)
    return "\n".join(shown)


def _windows(text: str, chars: int, focus: frozenset[str]) -> list[tuple[int, int]]:
    """Return the first place of each term with its surroundings, in order and without overlap."""
    places = sorted(at for term in sorted(focus)[:16] if term and (at := text.find(term)) >= 0)
    width = max(40, chars // max(1, len(places)))
    windows: list[tuple[int, int]] = []
    for at in places:
        start, end = boundary(text, max(0, at - width // 3)), boundary(text, at + width)
        if len(windows) * width < chars and (not windows or start >= windows[-1][1]):
            windows.append((start, end))
    return windows


def _kind(text: str) -> str:
    start = text[:_SAMPLE_CHARS]
    if _encoded(start):
        return next(name for name, pattern in _KINDS if pattern.match(start))
    return "minified code" if _KINDS[-1][1].match(start) else "text in long lines"


def _encoded(piece: str) -> bool:
    """Return whether the piece is digits and letters without the spaces of words."""
    words = piece.split()
    return bool(words) and len(piece) / len(words) > 30 and any(pattern.match(piece) for _, pattern in _KINDS[:2])
