"""The lines that `head`, `tail` and `sed -n` print."""

import re
from typing import TypeAlias

from foveal.text.calls.shell_command import ShellCommand

OpenLineSpan: TypeAlias = tuple[int, int | None]
"""First and last line, counted from 1; None is the end of the file."""

_SED_LINES = re.compile(r"(?:(?P<first>\d{1,9})(?:,(?:(?P<last>\d{1,9})|(?P<end>\$)))?p|\d{1,9}q)(?:[;\n ]+|\Z)")
_COUNT = re.compile(r"-(?:n|-lines=)?(?P<plus>\+?)(?P<count>\d{1,9})\Z")


def filter_span(command: ShellCommand) -> OpenLineSpan | None:
    """Return the lines that a filter lets through; None if it selects by content."""
    if command.program == "sed":
        spans = sed_spans(command)
        return spans[0] if spans and len(spans) == 1 else None
    return count_span(command) if command.program in ("head", "tail") else None


def count_span(command: ShellCommand) -> OpenLineSpan | None:
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


def sed_spans(command: ShellCommand) -> list[OpenLineSpan] | None:
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
