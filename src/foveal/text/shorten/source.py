"""Source code: the outline of its definitions, with line numbers, and the lines that were asked for."""

import re
from collections.abc import Sequence

from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import extensions, sample, share
from foveal.text.shorten.languages import CODE_LINE, IMPORT, LANGUAGES, NUMBERED, definition_patterns
from foveal.text.shorten.line_selection import GapMark, select_lines
from foveal.text.shorten.signals import add_scores, edge_scores, focus_scores, novelty, spread
from foveal.text.shorten.terminal_text import clean_lines

_NAMED, _UNNAMED = 0.35, 0.6
"""Share of lines that must look like code when the call names a source file, and when it does not."""
_OUTLINE = 4.0
_REMARK = re.compile(r"[ \t]{0,80}(?:#|//|/\*|\*|--|\"\"\"|''')")
_TODO = re.compile(r"\b(?:TODO|FIXME|XXX|HACK|BUG|NOTE)\b")
_DEEP = 8

_TOLD_BY = 6_000
"""Characters from which the language of a file is told; ten patterns search each of them."""


def fits(text: str, hint: str) -> bool:
    lines = [_bare(line) for line in sample(text)]
    named = any(extension in LANGUAGES for extension in extensions(hint))
    return len(lines) > 3 and share(CODE_LINE(), lines) >= (_NAMED if named else _UNNAMED)


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    focus = focus_scores(lines, allowance.focus)
    new = novelty(lines)
    scores = [_body_score(_bare(line), new.get(at, 0.0)) for at, line in enumerate(lines)]
    for at, indent in _definitions(lines):
        scores[at] += _OUTLINE * (1.0 if indent == 0 else 0.6 if indent <= _DEEP else 0.3)
    add_scores(scores, edge_scores(lines), 1.0)
    add_scores(scores, spread(focus, len(lines), 2, 0.3), 1.0)
    return select_lines(text, lines, scores, allowance, mark=_mark(lines))


def _body_score(bare: str, new: float) -> float:
    if not bare.strip():
        return 0.0
    if IMPORT().match(bare):
        return 0.4 * new
    if _REMARK.match(bare):
        return 0.5 * new + 3.0 * (_TODO.search(bare) is not None)
    return 0.1 + new


def _definitions(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the lines that open a definition, with their indentation, in the language that finds the most of them."""
    found: list[tuple[int, int]] = []
    text = "\n".join(lines)
    best = max(definition_patterns().values(), key=lambda pattern: sum(1 for _ in pattern.finditer(text[:_TOLD_BY])))
    at = start = 0
    for match in best.finditer(text):
        at += text.count("\n", start, match.start())
        start = match.start()
        found.append((at, len(match["indent"].expandtabs(4))))
    return found


def _bare(line: str) -> str:
    """Return the line without its number."""
    number = NUMBERED().match(line)
    return line[number.end() :] if number else line


def _mark(lines: Sequence[str]) -> GapMark | None:
    """Return the mark for missing lines. Numbered lines show by themselves where some are missing; for others the mark
    names the lines."""
    numbered = sum(NUMBERED().match(line) is not None for line in lines[:200])
    if numbered * 2 > min(len(lines), 200):
        return lambda first, end: "[…]"
    return lambda first, end: f"[… {first + 1}-{end}]" if end - first > 1 else f"[… {end}]"
