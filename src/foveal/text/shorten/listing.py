"""Directory listings: directories, the number of files of each kind in them, and a sample of names."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import sample, share
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, edge_scores, focus_scores
from foveal.text.shorten.terminal_text import clean_lines

_LONG = lazy_pattern(r"(?:[-dlbcps][rwxsStT-]{9}[.+@]?\s|total \d)")
_TREE = lazy_pattern(r"[│ |\t\u00a0]{0,200}(?:[├└]──|[|`+]--)")
_PATH = lazy_pattern(r"(?:[A-Za-z]:)?[.~]{0,2}[\w@.+() -]{0,120}(?:[/\\][^\s/\\:][^/\\:\n\t]{0,120}){1,40}[/\\]?$")
_EXTENSION = re.compile(r"\.[A-Za-z0-9]{1,10}$")
_SHOWN_KINDS = 6


def fits(text: str, hint: str) -> bool:
    lines = sample(text)
    return len(lines) > 5 and any(share(pattern, lines) >= 0.7 for pattern in (_LONG(), _TREE(), _PATH()))


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    if share(_PATH(), sample(text)) >= 0.7:
        return _paths(text, lines, allowance)
    names = [f"{name}/" if line.startswith("d") else name for line in lines if (name := _last_word(line))]
    shown = ["", *lines]
    scores = [20.0, *_sample_scores(lines, lines)]
    add_scores(scores, focus_scores(shown, allowance.focus), 1.0)
    return select_lines(
        text, shown, scores, allowance, source_lines=[0, *([1] * len(lines))], tails={0: f"[{_kinds(names)}]"}
    )


def _paths(text: str, lines: Sequence[str], allowance: Allowance) -> str | None:
    """Return full paths as one line for each directory and the names below it."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        cut = max(line.rfind("/", 0, -1), line.rfind("\\", 0, -1)) + 1 if _PATH().match(line) else 0
        groups.setdefault(line[:cut], []).append(line[cut:])
    shown: list[str] = []
    scores: list[float] = []
    source_lines: list[int] = []
    tails: dict[int, str] = {}
    for folder, names in groups.items():
        if folder:
            tails[len(shown)] = f"[{_kinds(names)}]"
            shown.append(folder)
            scores.append(4.0 + len(names) ** 0.25)
            source_lines.append(0)
        shown.extend(names)
        scores.extend(_sample_scores(names, names))
        source_lines.extend([1] * len(names))
    add_scores(scores, edge_scores(shown), 0.2)
    add_scores(scores, focus_scores(shown, allowance.focus), 1.0)
    return select_lines(text, shown, scores, allowance, of="names", source_lines=source_lines, tails=tails)


def _last_word(line: str) -> str:
    return line.rsplit(None, 1)[-1] if line.strip() and not line.startswith("total ") else ""


def _sample_scores(lines: Sequence[str], names: Sequence[str]) -> list[float]:
    """Return scores that prefer directories, then the first names of each kind, then the last name."""
    seen: Counter[str] = Counter()
    scores: list[float] = []
    for line, name in zip(lines, names, strict=True):
        kind = "/" if line.startswith("d") and _LONG().match(line) else _kind(name)
        seen[kind] += 1
        scores.append((2.0 if kind == "/" else 1.0) / seen[kind] ** 0.7 if name.strip() else 0.0)
    if scores:
        scores[-1] += 0.5
    return scores


def _kind(name: str) -> str:
    found = _EXTENSION.search(name[-12:])
    return found[0] if found else "/" if name.endswith(("/", "\\")) else "other"


def _kinds(names: Iterable[str]) -> str:
    counts = Counter(map(_kind, names))
    common = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    total = sum(counts.values())
    listed = ", ".join(f"{count:,} {'folders' if kind == '/' else kind}" for kind, count in common[:_SHOWN_KINDS])
    return f"{total:,}: {listed}" if len(common) <= _SHOWN_KINDS else f"{total:,}: {listed}, …"
