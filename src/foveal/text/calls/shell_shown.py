"""The files that a pipeline prints, whole or in part. A program that is not in the tables makes the pipeline unclear (None)."""

import re
from collections.abc import Callable
from typing import TypeAlias

from foveal.text.calls.access import Access, AccessKind
from foveal.text.calls.shell_words import Pipeline, ShellCommand, Word

PrintedFiles: TypeAlias = tuple[Access, ...] | None

OpenLineSpan: TypeAlias = tuple[int, int | None]
"""First and last line, counted from 1; None is the end of the file."""

_SED_LINES = re.compile(r"(?:(?P<first>\d{1,9})(?:,(?:(?P<last>\d{1,9})|(?P<end>\$)))?p|\d{1,9}q)(?:[;\n ]+|\Z)")
_COUNT = re.compile(r"-(?:n|-lines=)?(?P<plus>\+?)(?P<count>\d{1,9})\Z")

_SEARCH_VALUES = ("-e", "-g", "-t", "-T", "-A", "-B", "-C", "-m", "-f", "--glob", "--type", "--include", "--exclude")
_ACTS = frozenset(("-exec", "-execdir", "-delete", "-ok", "-okdir", "-fprint", "-fls", "-x", "-X", "--exec"))
"""Options by which `find` and `fd` do more than list."""


def printed_files(pipeline: Pipeline) -> PrintedFiles:
    """Return the files whose content or names the pipeline prints, with paths as the command spells them; None if unclear."""
    source, *filters = pipeline
    shown = _SOURCES[source.program](source) if source.program in _SOURCES else None
    if source.is_silent:
        return () if shown is not None else None
    for command in filters:
        shown = _narrowed(shown, command) if shown is not None else None
        shown = () if shown is not None and command.is_silent else shown
    return shown


def _narrowed(shown: tuple[Access, ...], command: ShellCommand) -> PrintedFiles:
    """Return the files that are still printed behind a filter."""
    if command.program in ("cat", "nl", "bat", "tee"):
        return shown
    if command.program not in _FILTERS or command.operands(*_FILTERS[command.program])[1:]:
        return None
    if len(shown) == 1 and shown[0].kind == "read" and (span := _filter_span(command)):
        (whole,) = shown
        start = whole.first or 1
        ends = [end for end in (whole.last, start + span[1] - 1 if span[1] else None) if end is not None]
        return (Access(whole.path, "read", start + span[0] - 1, min(ends, default=None)),)
    return _as_search(shown)


def _cat(command: ShellCommand) -> PrintedFiles:
    if command.is_fed:
        return ()  # it prints a text of the command itself
    return _each(command.operands(*("-b", "-w", "-s", "-v") * (command.program == "nl")), "read")


def _head_or_tail(command: ShellCommand) -> PrintedFiles:
    span, files = _count_span(command), _each(command.operands("-n", "-c"), "read")
    if files is None or span is None:
        return files and _as_search(files)
    return tuple(Access(file.path, "read", *span) for file in files)


def _sed(command: ShellCommand) -> PrintedFiles:
    if any(option.startswith(("-i", "--in-place")) for option in command.options):
        return ()
    operands = command.operands()
    if not operands or not set(command.options) <= {"-n", "-E", "-r", "-u"}:
        return None
    spans, files = _sed_spans(command), _each(operands[1:], "read")
    if files is None or spans is None:
        return files and _as_search(files)
    return tuple(Access(file.path, "read", *span) for file in files for span in spans)


def _search(command: ShellCommand) -> PrintedFiles:
    operands = command.operands(*_SEARCH_VALUES)
    if "--files" in command.options:
        return _each(operands or [Word(".")], "list")
    return _each((operands if "-e" in command.options else operands[1:]) or [Word(".")], "search")


def _listing(command: ShellCommand) -> PrintedFiles:
    words = [word.text for word in command.arguments]
    operands = command.operands("-L", "-I")
    if command.program == "find":
        operands = command.arguments[: next((i for i, w in enumerate(words) if w[:1] in "-(!"), len(words))]
    elif command.program in ("fd", "find_file"):
        operands = operands[1:]
    return None if _ACTS & set(words) else _each(list(operands) or [Word(".")], "list")


def _open(command: ShellCommand) -> PrintedFiles:
    """Return the file of SWE-agent's viewer, which shows a window around a line and numbers the lines itself."""
    operands = command.operands()
    around = all(word.text.isdecimal() for word in operands[1:])
    return _each(operands[:1], "read") if around and len(operands) <= 2 else None


def _filter_span(command: ShellCommand) -> OpenLineSpan | None:
    """Return the lines that a filter lets through; None if it selects by content."""
    if command.program == "sed":
        spans = _sed_spans(command)
        return spans[0] if spans and len(spans) == 1 else None
    return _count_span(command) if command.program in ("head", "tail") else None


def _count_span(command: ShellCommand) -> OpenLineSpan | None:
    """Return the lines that head or tail print; None if they depend on the length of the file."""
    words = [word.text for word in command.arguments]
    words = [f"-n{words[i + 1]}" if word == "-n" and i + 1 < len(words) else word for i, word in enumerate(words)]
    options = [word for word in words if word.startswith("-")]
    found = [_COUNT.match(option) for option in options if option != "-q"]
    if len(found) > 1 or (found and found[0] is None):
        return None
    plus, count = (found[0]["plus"], int(found[0]["count"])) if found and found[0] else ("", 10)
    if command.program == "head":
        return None if plus or not count else (1, count)
    return (max(1, count), None) if plus else None


def _sed_spans(command: ShellCommand) -> list[OpenLineSpan] | None:
    """Return the lines that a script of the form `1,20p;30p` prints; None if the script does anything else."""
    operands = command.operands()
    script, at, spans = operands[0].text if operands else "", 0, list[OpenLineSpan]()
    if command.options != ["-n"]:
        return None
    while at < len(script):
        found = _SED_LINES.match(script, at)
        if found is None:
            return None
        if first := found["first"]:
            spans.append((max(1, int(first)), None if found["end"] else int(found["last"] or first)))
        at = found.end()
    return spans or None


def _each(words: list[Word], kind: AccessKind) -> PrintedFiles:
    """Return an access for each word; None if there is no word, or if one of them is no plain path."""
    if not words or any(not word.plain or word.text in ("-", "") for word in words):
        return None
    return tuple(Access(word.text, kind) for word in words)


def _as_search(files: tuple[Access, ...]) -> tuple[Access, ...]:
    return tuple(Access(file.path, "search") if file.kind == "read" else file for file in files)


_SOURCES: dict[str, Callable[[ShellCommand], PrintedFiles]] = {
    **dict.fromkeys(("cat", "nl", "bat"), _cat),
    **dict.fromkeys(("head", "tail"), _head_or_tail),
    **dict.fromkeys(("rg", "grep", "egrep", "fgrep", "ag", "search_dir", "search_file"), _search),
    **dict.fromkeys(("ls", "tree", "find", "fd", "find_file"), _listing),
    **dict.fromkeys(("wc", "stat", "file", "du"), lambda command: _each(command.operands("-c", "-f", "-d"), "search")),
    **dict.fromkeys(("echo", "printf", "pwd", "true", ":", "date", "which"), lambda _command: ()),
    **dict.fromkeys(("sleep", "mkdir", "touch", "chmod"), lambda _command: ()),
    "sed": _sed,
    "open": _open,
}
_FILTERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("rg", "grep", "egrep", "fgrep"), _SEARCH_VALUES),
    **dict.fromkeys(("head", "tail", "sed", "wc", "uniq"), ("-n", "-c")),
    **dict.fromkeys(("sort", "cut", "column"), ("-k", "-t", "-d", "-f", "-s", "-c")),
    "tr": (),
    "less": (),
}
"""Programs that may follow a pipe, with their options that have a value; a second operand would be a file of its own."""
