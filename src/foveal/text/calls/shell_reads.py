"""The files that a shell command reads and writes.

Reads count only if every part of the command is understood, so that everything its result shows is known. Writes count in
any part of it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from foveal.text.calls.access import Access, AccessKind, clean_path, is_absolute, is_whole
from foveal.text.calls.shell_shown import printed_files
from foveal.text.calls.shell_words import Pipeline, ShellCommand, Word, pipelines

_PATCHED = re.compile(r"^\*\*\* (?P<how>Update File|Add File|Delete File|Move to): (?P<path>.+?)\s*$", re.MULTILINE)
_FORMATTERS = {"gofmt": "-w", "goimports": "-w", "gofumpt": "-w", "prettier": "--write", "rustfmt": "", "black": ""}
"""Programs that rewrite the files they are given, with the option that makes them do so."""


class FileAccesses(NamedTuple):
    """The accesses of one call. `directories` are the absolute directories that it names as its own."""

    accesses: tuple[Access, ...] = ()
    directories: tuple[str, ...] = ()


def patch_accesses(text: str) -> tuple[Access, ...]:
    """Return the files of a patch in the format of `apply_patch`."""
    if not is_whole(text):
        return ()
    return tuple(Access(f["path"], "edit" if f["how"] == "Update File" else "write") for f in _PATCHED.finditer(text))


def shell_accesses(text: str, directory: str | None = None) -> FileAccesses:
    """Return the files that a command reads and writes if it is run in this directory."""
    parsed = pipelines(text) if is_whole(text) else None
    found: list[Access] = []
    seen: list[str] = []
    is_clear = parsed is not None
    for pipeline in parsed or ():
        if pipeline[0].program == "cd":
            target = pipeline[0].operands()[:1]
            directory = clean_path(target[0].text, directory) if target and target[0].plain else None
            if directory is None:
                return FileAccesses((), tuple(seen))  # the directory of the remaining commands is not known
            seen += [directory] * is_absolute(directory)
            continue
        changed, printed = list(_changes(pipeline, text)), printed_files(pipeline)
        is_clear &= printed is not None or bool(changed and _is_quiet(pipeline))
        for access in (*(printed or ()), *changed):
            path = clean_path(access.path, directory)
            found += [access._replace(path=path)] if path else []
    kept = [access for access in found if is_clear or access.kind in ("write", "edit")]
    return FileAccesses(tuple(dict.fromkeys(kept)), tuple(seen))


def _is_quiet(pipeline: Pipeline) -> bool:
    return len(pipeline) == 1 and (pipeline[0].is_silent or pipeline[0].program in ("mv", "cp", "rm", *_FORMATTERS))


def _changes(pipeline: Pipeline, text: str) -> Iterator[Access]:
    """Yield the files that the pipeline writes, with paths as the command spells them."""
    for command in pipeline:
        for word in command.into:
            if word.plain and not word.text.startswith("/dev/"):
                yield Access(word.text, "write")
        yield from (access for access in _changed_by(command, text) if access.path)


def _changed_by(command: ShellCommand, text: str) -> Iterator[Access]:
    operands = [word for word in command.operands() if word.text]
    match command.program:
        case "mv" | "rm" | "tee":
            yield from _each(operands, "write")
        case "cp":
            yield from _each(operands[-1:], "write")
        case "sed" if any(option.startswith(("-i", "--in-place")) for option in command.options):
            files = [word for word in command.operands("-e", "-f") if word.text]
            yield from _each(files[0 if {"-e", "-f"} & set(command.options) else 1 :], "edit")
        case "git" if [word.text for word in command.arguments[:2]] == ["checkout", "--"]:
            yield from _each(list(command.arguments[2:]), "edit")
        case "git" if operands[:1] == [Word("restore")] and "--staged" not in command.options:
            yield from _each(operands[1:], "edit")
        case "apply_patch" | "applypatch":
            yield from patch_accesses(text)
        case program if program in _FORMATTERS and (not (needed := _FORMATTERS[program]) or needed in command.options):
            yield from _each(operands, "edit")
        case _:
            pass


def _each(words: list[Word], kind: AccessKind) -> Iterator[Access]:
    yield from (Access(word.text, kind) for word in words if word.plain)
