"""The files that a pipeline prints, whole or in part. A program that is not in the tables makes the pipeline unclear (None)."""

from collections.abc import Callable
from typing import TypeAlias

from foveal.text.calls.access import Access, AccessKind
from foveal.text.calls.shell_command import Pipeline, ShellCommand, Word
from foveal.text.calls.shell_spans import count_span, filter_span, sed_spans

PrintedFiles: TypeAlias = tuple[Access, ...] | None

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
    if len(shown) == 1 and shown[0].kind == "read" and (span := filter_span(command)):
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
    span, files = count_span(command), _each(command.operands("-n", "-c"), "read")
    if files is None or span is None:
        return files and _as_search(files)
    return tuple(Access(file.path, "read", *span) for file in files)


def _sed(command: ShellCommand) -> PrintedFiles:
    if any(option.startswith(("-i", "--in-place")) for option in command.options):
        return ()
    operands = command.operands()
    if not operands or not set(command.options) <= {"-n", "-E", "-r", "-u"}:
        return None
    spans, files = sed_spans(command), _each(operands[1:], "read")
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


def _counting(command: ShellCommand) -> PrintedFiles:
    return _each(command.operands("-c", "-f", "-d"), "search")


def _open(command: ShellCommand) -> PrintedFiles:
    """Return the file of SWE-agent's viewer, which shows a window around a line and numbers the lines itself."""
    operands = command.operands()
    around = all(word.text.isdecimal() for word in operands[1:])
    return _each(operands[:1], "read") if around and len(operands) <= 2 else None


def _nothing(_command: ShellCommand) -> PrintedFiles:
    return ()


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
    **dict.fromkeys(("wc", "stat", "file", "du"), _counting),
    **dict.fromkeys(
        ("echo", "printf", "pwd", "true", ":", "date", "which", "sleep", "mkdir", "touch", "chmod"), _nothing
    ),
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
