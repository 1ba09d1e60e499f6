"""Extractor of failing tests and errors, and of the evidence that they are over.

Evidence is a later run that names the test as passing, or a later run of the same command that passes as a whole.
"""

import re
from collections.abc import Iterator

from foveal.summary.ledger.events import CallEnded, CheckPassed, LedgerEvent
from foveal.summary.ledger.items import LedgerFailure
from foveal.summary.ledger.outcome import CONTINUES, comparable_command, error_line, is_piped, is_read_only, outcome_of
from foveal.text.lazy_pattern import lazy_pattern

_FAILED = lazy_pattern(
    r"^[ \t]{0,12}(?:"
    r"(?:FAILED|ERROR) (?P<pytest>[\w./-]{1,200}(?:::[^\s]{1,200})?)(?: - (?P<why>.{0,200}))?"
    r"|--- FAIL: (?P<go>\S{1,200})"
    r"|FAIL[\t ]{1,4}(?P<package>[\w./@-]{3,200})"
    r"|test (?P<cargo>[\w:]{1,200}) \.\.\. FAILED"
    r"|(?:FAIL|ERROR): (?P<unittest>\w{1,100} \([\w.]{1,200}\))"
    r"|(?:[✕✗×]|not ok \d{1,6} -) (?P<mark>.{1,160})"
    r"|● (?P<jest>.{1,160} › .{1,160})"
    r"|(?P<compiler>[\w./@+-]{1,200})(?P<place>:\d{1,6}(?::\d{1,6})?:|\(\d{1,6},\d{1,6}\):)"
    r" (?P<said>(?:\w{0,12} ?error\b|undefined\b|cannot\b).{0,200})"
    r")",
    re.MULTILINE,
)
_PASSED = lazy_pattern(
    r"^[ \t]{0,12}(?:"
    r"(?P<pytest>[\w./-]{1,200}::[^\s]{1,200}) PASSED"
    r"|--- PASS: (?P<go>\S{1,200})"
    r"|ok[ \t]{1,4}(?P<package>[\w./@-]{3,200})\t"
    r"|PASS[\t ]{1,4}(?P<file>[\w./@-]{3,200})"
    r"|test (?P<cargo>[\w:]{1,200}) \.\.\. ok"
    r"|(?:[✓✔]|ok \d{1,6} -) (?P<mark>.{1,160})"
    r")",
    re.MULTILINE,
)
_IDS = ("pytest", "go", "package", "cargo", "unittest", "mark", "jest")
_TIME = re.compile(r" \(?\d[\d.]{0,9} ?m?s\)?\s*\Z")
_GOOD = lazy_pattern(
    r"\b\d+ passed\b|^ok\b|\bPASS\b|\b0 (?:failed|failures|errors|issues)\b|\ball (?:tests|checks) passed",
    re.MULTILINE | re.IGNORECASE,
)
_MOST = 40
"""Most tests of one run: more than these fail for one reason."""
_LOOKED_CHARS, _LAST_CHARS = 60_000, 1_500
"""Characters searched, and characters at the end in which runners sum up."""


def failures(event: LedgerEvent) -> Iterator[LedgerFailure | CheckPassed]:
    match event:
        case CallEnded(command=command, tool=tool) if command or tool in CONTINUES:
            if not is_read_only(event):
                yield from _of_command(event)
        case CallEnded(tool=tool) if tool:
            tried = " ".join((tool, *(file.path for file in event.asked[:1])))
            if event.status == "error":
                yield LedgerFailure(name=tried, line=error_line(event.text))
            elif event.status == "ok":
                yield CheckPassed(name=tried)
        case _:
            pass


def _of_command(event: CallEnded) -> Iterator[LedgerFailure | CheckPassed]:
    text, command, outcome = event.text[-_LOOKED_CHARS:], comparable_command(event.command), outcome_of(event)
    failed = _failing(text)
    yield from (CheckPassed(name=name) for name in _passing(text) if name not in failed)
    for name, line in failed.items():
        yield LedgerFailure(name=name, line=line.strip(), command=command)
    if outcome == "failed" and not failed and command and (line := error_line(text)):
        yield LedgerFailure(name=command, line=line, command=command)
    if (
        outcome == "ok"
        and not failed
        and command
        and (not is_piped(event.command) or _GOOD().search(text[-_LAST_CHARS:]))
    ):
        yield CheckPassed(command=command)


def _failing(text: str) -> dict[str, str]:
    """Return the failing tests with their messages. The errors of a compiler are one failure a file."""
    failed: dict[str, str] = {}
    for found in _FAILED().finditer(text):
        named = found.groupdict()
        name = named["compiler"] or _TIME.sub("", next(named[key] for key in _IDS if named[key]))
        said = f"{named['place']} {named['said']}" if named["compiler"] else named["why"]
        failed.setdefault(name, said or "")
        if len(failed) == _MOST:
            break
    return failed


def _passing(text: str) -> list[str]:
    found = (next(v for v in one.groups() if v) for one in _PASSED().finditer(text))
    return list(dict.fromkeys(_TIME.sub("", name) for name in found))
