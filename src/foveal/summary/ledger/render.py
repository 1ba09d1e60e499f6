"""The ledger as text: compact lines in order of importance, within a number of tokens, with counts of the items left out."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from foveal.summary.ledger.items import (
    Ledger,
    LedgerCommand,
    LedgerFailure,
    LedgerFile,
    LedgerItem,
    Todo,
)
from foveal.summary.ledger.quotations import TITLE, render_quotes
from foveal.summary.ledger.sections import rank_file
from foveal.text.calls.coverage import END
from foveal.text.shorten.allowance import CountTokens


class LedgerSection(NamedTuple):
    """A section: its heading, its lines from the best on, the noun for them, and its share of the remaining tokens."""

    title: str
    lines: Iterable[str]
    called: str
    share: float = 1.0


VITAL = frozenset((TITLE, "Todos", "Plan", "Open failures", "Running"))
"""Sections that an agent cannot work without; the others save it a look."""

SAID_SHARE = 0.6
"""Share of the tokens for the user's words, before short messages are given more."""

HELPFUL = frozenset(("Files changed", "Files read", "Commands", "Open questions"))


def render(
    ledger: Ledger, tokens: int, count: CountTokens, *, only: frozenset[str] | None = None, said: int = 0
) -> str:
    """Return the ledger as text of at most `tokens`. Sections come in order of worth; each takes at most its share of the
    remaining tokens. `only` selects sections by their titles. Short messages of the user may take `said` tokens, if that is
    more than their share; the other sections have theirs beside it."""
    share = int(tokens * SAID_SHARE)
    is_asked = only is None or TITLE in only
    quoted = render_quotes(ledger.quotes, share, count, most=max(said, share)) if is_asked else ""
    written = [quoted] if quoted else []
    taken = count(quoted)
    tokens += max(0, taken - share)
    left = tokens - taken - bool(quoted)
    for block in _blocks(ledger):
        if only is not None and block.title not in only:
            continue
        text = _fitted(block, tuple(block.lines), int(left * block.share), count)
        if text:
            written.append(text)
            left = tokens - count("\n".join(written)) - 1
    return "\n".join(written)


def _fitted(block: LedgerSection, lines: tuple[str, ...], tokens: int, count: CountTokens) -> str:
    """Return as many lines as fit, found by bisection; empty if not even one does."""
    low, high, best = 0, len(lines), ""
    while low < high:
        middle = (low + high + 1) // 2
        text = _written(block, lines[:middle], len(lines) - middle)
        if count(text) <= tokens:
            low, best = middle, text
        else:
            high = middle - 1
    return best


def _written(block: LedgerSection, lines: Sequence[str], rest: int) -> str:
    more = [f"… and {rest} more {block.called}"] if rest else []
    return "\n".join((f"## {block.title}", *(group_by_directory(lines) if block.called == "files" else lines), *more))


def _blocks(ledger: Ledger) -> Iterator[LedgerSection]:
    yield LedgerSection("Todos", map(_todo, ledger.todos), "todos", 0.6)
    if ledger.plan:
        yield LedgerSection("Plan", ledger.plan.text.split("\n"), "lines", 0.2)
    broken = sorted((one for one in ledger.failures if not one.resolved), key=_newest)
    yield LedgerSection("Open failures", map(_failure, broken), "failures", 0.3)
    files = sorted(ledger.files, key=lambda one: (*(-x for x in rank_file(one)), one.path))
    yield LedgerSection("Files changed", (_file(one) for one in files if one.change), "files", 0.4)
    yield LedgerSection("Files read", (_file(one) for one in files if not one.change), "files", 0.35)
    told = {one.command for one in broken}
    commands = sorted(ledger.commands, key=_newest)
    yield LedgerSection("Commands", (_command(one, is_told=one.text in told) for one in commands), "commands", 0.25)
    yield LedgerSection(
        "Open questions", (f"- {one.text}" for one in sorted(ledger.questions, key=_newest)), "questions"
    )
    yield LedgerSection(
        "Running", (f"- {one.id}: {one.text}" for one in sorted(ledger.children, key=_newest)), "children"
    )


def _newest(item: LedgerItem) -> tuple[int, str]:
    return -item.seq, str(item)


_NAME_CHARS = 140
_BOXES = {"completed": "x", "done": "x", "pending": " ", "in_progress": "~"}


def _todo(todo: Todo) -> str:
    return f"- [{_BOXES.get(todo.status, todo.status)}] {todo.text}"


def _failure(failure: LedgerFailure) -> str:
    said = f": {failure.line}" if failure.line and failure.line != failure.name else ""
    return f"- {failure.name[:_NAME_CHARS]}{said} [{failure.ref}]"


def _command(command: LedgerCommand, *, is_told: bool) -> str:
    end = f"exit {command.exit}" if command.outcome == "failed" and command.exit else command.outcome
    times = f" ×{command.uses}" if command.uses > 1 else ""
    error = f": {command.error}" if command.error and not is_told else ""
    return f"- `{command.text}` {end}{times}{error}"


def _file(file: LedgerFile) -> str:
    spans = ",".join(
        f"{first}-{'' if last >= END else last}" for first, last in file.spans if (first, last) != (1, END)
    )
    how = "" if file.change in ("", "edited") else f" ({file.change})"
    return f"{file.path}{':' if spans else ''}{spans}{how}"


def group_by_directory(paths: Iterable[str]) -> list[str]:
    """Return one line a directory, `src/: a.py, b.py`; a path that is alone in its directory stays whole."""
    directories: dict[str, list[str]] = {}
    for path in paths:
        directory, name = posixpath.split(path)
        directories.setdefault(directory, []).append(name)
    return [
        f"- {directory}/: {', '.join(names)}"
        if directory and names[1:]
        else f"- {posixpath.join(directory, names[0])}"
        if directory
        else f"- {', '.join(names)}"
        for directory, names in directories.items()
    ]
