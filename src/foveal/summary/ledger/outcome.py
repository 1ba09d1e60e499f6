"""The outcome of a call, read from its result: exit code, error line, and whether it repeats an earlier command."""

import re
from functools import lru_cache

from foveal.summary.ledger.events import CallEnded
from foveal.summary.ledger.items import CommandOutcome
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.signals import alarms

CONTINUES = frozenset(("writestdin", "bashoutput", "readoutput", "taskoutput", "wait"))
"""Tools that follow a command in the background."""

_EXIT = re.compile(r"\bexit(?:ed with)?(?: code| status|_code)?\"?[:= ]{1,2}(?:code |status )?(\d{1,3})\b")
_HEAD, _TAIL = 400, 160
"""Harnesses state the exit code in their first or last lines; further in, such words belong to the output."""
_RUNNING = lazy_pattern(
    r"(?:running (?:in (?:the )?background )?with (?:session )?ID:?|\"session_id\":) ?[\"']?([\w-]{1,64})",
    re.IGNORECASE,
)
_FAILED_HEAD = re.compile(
    r"\W{0,8}(?:<?tool_use_error|error\b|traceback|(?:bash|zsh|sh): |command not found|fatal:)", re.IGNORECASE
)
_BOILERPLATE = lazy_pattern(
    r"exit code|exited with|tool_use_error>?$|^(?:command|chunk id|wall time|output|original token count)\b",
    re.IGNORECASE,
)
_SUMMED_UP = lazy_pattern(
    r"^[= ]{0,80}(?:Tests?:? {1,12})?(?:\d{1,7} [a-z]{1,20},? ){0,6}"
    r"(?:[1-9]\d{0,6} (?:failed|failing|fail|failures?)(?: in \d|[ =]{0,80}(?:[,;.|()]|$))|[1-9]\d{0,6} errors? in \d)"
    r"|^test result: FAILED|^FAILED \((?:failures|errors)=|^FAIL(?:$|[\t ])|^Tests run: \d{1,7}, Failures: (?!0, Errors: 0\b)",
    re.MULTILINE,
)
"""Phrases by which test runners report failures at the end."""
_SUM_CHARS = 1_500
_ERROR_CHARS, _LOOKED_CHARS = 240, 30_000
_SPACES = re.compile(r"[ \t\r\n]+")
_LOOKS = lazy_pattern(
    r"(?:cd \S{1,300} && )?(?:(?:ls|cat|nl|head|tail|sed -n|rg|grep|find|fd|wc|pwd|which|tree|stat|file|sleep|echo)\b"
    r"|git (?:--no-pager )?(?:status|log|diff|show|branch|rev-parse|blame|ls-files)\b)[^>&;]*\Z"
)
"""Commands that only look: their output is recorded by the files and the names."""
_TRIM = lazy_pattern(
    r" ?(?:\| ?(?:tail|head|less|cat)(?: [-+\w]{1,12}){0,3}"
    r"|\| ?grep [^|&;]{0,80}(?:error|fail|warn|pass)[^|&;]{0,80}"
    r"|2>&1|2> ?/dev/null|;? ?echo \"?[\w =:]{0,20}\$\?\"?) ?\Z",
    re.IGNORECASE,
)
_PIPED = re.compile(r"\|(?!\|)")
_COMMAND_CHARS = 300


def exit_code(text: str) -> int | None:
    """Return the exit code that a harness states before or after the output."""
    found = _EXIT.search(text[:_HEAD].lower()) or _EXIT.search(text[-_TAIL:].lower())
    return int(found[1]) if found else None


def outcome_of(event: CallEnded) -> CommandOutcome:
    if event.status == "interrupted":
        return "interrupted"
    text, code = event.text, exit_code(event.text)
    if event.status == "error" or code:
        return "failed"
    if code is None and _RUNNING().search(text, 0, _HEAD):
        return "running"
    if code == 0 and not is_piped(event.command):
        return "ok"
    has_failed = (code is None and _FAILED_HEAD.match(text)) or _SUMMED_UP().search(text[-_SUM_CHARS:])
    return "failed" if has_failed else "ok"


def handle_of(text: str) -> str:
    found = _RUNNING().search(text, 0, _HEAD)
    return found[1] if found else ""


def error_line(text: str) -> str:
    """Return the first of the lines that announce the worst trouble; the first line of all if none does."""
    shown = text if len(text) <= _LOOKED_CHARS else text[: _LOOKED_CHARS // 2] + "\n" + text[-_LOOKED_CHARS // 2 :]
    lines = [line.strip() for line in shown.split("\n")]
    lines = [line for line in lines if len(line) > 3 and not _BOILERPLATE().search(line, 0, 80)]
    found = alarms(lines)
    at = max(found, key=lambda i: (found[i], -i), default=0)
    return lines[at][:_ERROR_CHARS] if lines else ""


@lru_cache(maxsize=256)
def comparable_command(command: str) -> str:
    """Return the command on one line, without filters that only trim its output, so that repeated runs are recognised."""
    line = _SPACES.sub(" ", command[: _COMMAND_CHARS * 2]).strip()
    while found := _TRIM().search(line):
        line = line[: found.start()]
    return line if len(line) <= _COMMAND_CHARS else line[: _COMMAND_CHARS - 1] + "…"


def is_read_only(event: CallEnded) -> bool:
    """Return whether a command changes and tests nothing."""
    if event.asked:
        return not any(file.change for file in event.asked)
    return _LOOKS().match(comparable_command(event.command)) is not None


def is_piped(command: str) -> bool:
    """Return whether the exit code may be another program's."""
    return _PIPED.search(command) is not None and "pipefail" not in command
