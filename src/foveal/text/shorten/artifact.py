"""Artifacts too large to be read whole: their first and last lines, and the lines between them that tell of trouble.

The lines and their numbers are kept in the log beside the reference, so that no view has to read the artifact. The note names
the number of all its lines, and so does each mark where some are left out.
"""

from foveal.text.guard.seals import sealable, sealed, unsealed
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, alarms, edge_scores, novelty
from foveal.text.shorten.terminal_text import clean_lines
from foveal.values.entry import Stored

_LEFT_OUT = "…" * 1_000
"""The text of a line that stands for all lines between two that are known: longer than a mark, so that it is never shown."""

_ENDS_CHARS = 3
"""Characters that one token of head or tail may take, for a text without lines."""


def excerpt(stored: Stored, allowance: Allowance) -> str:
    """Return the lines of an artifact that are worth most, in at most as many tokens as are allowed."""
    lines, counts = _known_lines(stored)
    if sum(counts) > stored.lines:  # its head and its tail are pieces of the same line
        return unsealed(_ends(stored, allowance), allowance.guard)
    scores = [0.2] * len(lines)
    add_scores(scores, novelty(lines), 0.6)
    add_scores(scores, edge_scores(lines), 1.0)
    add_scores(scores, alarms(lines), 1.0)
    scores = [0.0 if line is _LEFT_OUT else score for line, score in zip(lines, scores, strict=True)]
    source = f"{stored.head}\n{stored.tail}\n" * 2  # longer than any choice of its lines
    shown = select_lines(source, lines, scores, allowance, source_lines=counts)
    return unsealed(_ends(stored, allowance) if shown is None else shown, allowance.guard)


def _known_lines(stored: Stored) -> tuple[list[str], list[int]]:
    """Return the known lines in their order, and how many lines of the artifact each represents."""
    head, tail = (clean_lines(sealable(text)) for text in (stored.head, stored.tail.removesuffix("\n")))
    first_of_tail = max(len(head), stored.lines - len(tail))
    known = list(enumerate(head))
    for line in stored.between:
        if known[-1][0] < line.number < first_of_tail:
            known.append((line.number, " ".join(clean_lines(sealable(line.text)))))
    known += enumerate(tail, first_of_tail)
    lines, counts, after = list[str](), list[int](), 0
    for number, line in known:
        if number > after:
            lines.append(_LEFT_OUT)
            counts.append(number - after)
        lines.append(line)
        counts.append(1)
        after = number + 1
    return lines, counts


def _ends(stored: Stored, allowance: Allowance) -> str:
    """Return the beginning and the end of an artifact whose lines are too long to choose from."""
    note = sealed(f"[… {stored.size_bytes:,} bytes in {stored.lines:,} lines; ref {allowance.ref}]")
    chars = max(0, allowance.tokens - allowance.count(note)) * _ENDS_CHARS // 2
    for _ in range(8):
        shown = f"{sealable(stored.head)[:chars]}\n{note}\n…{sealable(stored.tail)[len(stored.tail) - chars :]}"
        if chars == 0 or allowance.count(shown) <= allowance.tokens:
            return shown if chars else note
        chars = chars * 2 // 3
    return note
