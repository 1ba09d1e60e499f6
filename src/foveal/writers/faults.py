"""Kinds of failures of a summariser, and their descriptions without secrets.

The status is read where the SDKs put it (`status_code`, `code`), so that a user's own function around any SDK is understood as
well. A rate limit is looked for first: its message often mentions tokens and limits too.
"""

import re

from foveal.writers.port import Fault, Unanswered

_RATE_LIMIT = re.compile(
    r"rate.?limit|too many requests|throttl|tokens per (?:min|day)|quota|overloaded|\b(?:429|529)\b", re.I
)
_TOO_LONG = re.compile(
    r"context.?(?:length|window|size)|prompt is too long|too many (?:input )?tokens|maximum (?:context|prompt|input)"
    r"|input (?:is )?too long|exceeds? the (?:available|maximum|model)|reduce the length",
    re.I,
)
_SECRET = re.compile(
    r"(?:sk|pk|rk|key|tok)-[\w-]{8,200}|(?<=bearer )[\w.~+/=-]{8,2000}|(?<=://)[^/\s@]{1,200}(?=@)|AIza[\w-]{20,80}",
    re.I,
)
_REJECTED = frozenset((400, 401, 402, 403, 404, 405, 422))
"""Statuses that the same request would get again. Others (timeouts, conflicts, the server's own errors) may pass."""
_MOST_CHARS = 300


def fault_of(error: BaseException) -> Fault:
    """Return the kind of failure of an exception."""
    if isinstance(error, Unanswered):
        return error.fault
    status = getattr(error, "status_code", None)
    code = getattr(error, "code", None)
    said = f"{type(error).__name__} {code if isinstance(code, str) else ''} {_text(error)}"
    if status in (429, 529) or (status in (None, 503) and _RATE_LIMIT.search(said)):
        return "rate_limited"
    if status == 413 or (status in (None, 400, 422) and _TOO_LONG.search(said)):
        return "too_long"
    return "rejected" if status in _REJECTED else "raised"


def describe(error: BaseException) -> str:
    """Return a description of an exception on one short line, without keys."""
    text = _text(error)
    line = (
        text if isinstance(error, Unanswered) else f"{type(error).__name__}: {text}" if text else type(error).__name__
    )
    return without_secrets(line)


def without_secrets(text: str) -> str:
    """Return the text on one line of bounded length, with everything that looks like a key or a password replaced."""
    line = _SECRET.sub("***", " ".join(text[: 8 * _MOST_CHARS].split()))
    return line if len(line) <= _MOST_CHARS else f"{line[: _MOST_CHARS - 1]}…"


def _text(error: BaseException) -> str:
    """Return the text of an exception; empty if the exception's own `__str__` fails."""
    try:
        return str(error)[: 8 * _MOST_CHARS]
    except Exception:  # noqa: BLE001, RUF100 - whatever it is, the type's name must do
        return ""
