"""Context overflows: a provider's error or usage that shows that a prompt was too long, and the length that it would take.

A rate limit speaks of tokens as well, and a fold does not help against it, so errors that are no overflow are looked for first.
Some servers cut a prompt without an error: their usage shows it.
"""

import re
from collections.abc import Iterator

import msgspec

from foveal.values.entry import Overflow, Usage

GUESS = 0.75
"""Share of the tokens sent that is assumed as the limit where the provider names none."""

_CUT_SILENTLY = 0.8
"""A prompt that was counted as less than this share of our own count was cut. Our count is within a tenth of theirs, and
a server cuts down to a power of two or a round number, which is checked as well."""

_NOT_OVERFLOW = re.compile(
    r"rate.?limit|too many requests|tokens per (?:min|day|hour)|\bTPM\b|\bRPM\b|throttl|quota|overloaded|capacity|billing|credit",
    re.IGNORECASE,
)
_NUMBER = r"(\d[\d,_.]{0,14})"
_TOO_LONG = (
    rf"maximum (?:context|prompt|model) length (?:is|of) {_NUMBER}",
    rf"prompt is too long:? {_NUMBER} tokens > (?P<limit>\d[\d,]*)",
    rf"exceed context limit:? {_NUMBER} \+ {_NUMBER} > (?P<limit>\d[\d,]*)",
    rf"input token count (?:\(?{_NUMBER}\)? )?exceeds the maximum number of tokens allowed \(?(?P<limit>\d[\d,]*)",
    rf"input token count is {_NUMBER} but (?:the )?model only supports up to (?P<limit>\d[\d,]*)",
    rf"exceeds the limit of {_NUMBER}",
    rf"exceeded model token limit:? {_NUMBER}",
    rf"too large for model with {_NUMBER} maximum context",
    rf"exceeds the available context size \(?{_NUMBER}",
    rf"context (?:window|length|size) (?:is|of) (?:only )?{_NUMBER}",
    r"context[_ ]length[_ ]exceeded|context_window_exceeded|request_too_large|string_above_max_length",
    r"prompt (?:is )?too long|input is too long|input exceeds the context window|exceeds the available context size",
    r"exceeds? (?:the |this )?(?:model'?s? )?(?:maximum )?context (?:window|length|limit|size)",
    r"context window exceeds limit|longer than the (?:maximum )?(?:model|context) length|exceeded max context length",
    r"reduce the length of (?:the|your) (?:messages|prompt|input)|tokens to keep from the initial prompt",
    r"request (?:body )?exceeds the maximum size|payload too large|too many tokens in (?:the )?(?:prompt|request|input)",
)


class OverflowRefusal(msgspec.Struct, frozen=True):
    """The limit and the words of a provider's error about a prompt's length."""

    limit: int | None
    said: str


def refusal_in(error: object) -> OverflowRefusal | None:
    """Return the refusal of the prompt's length in this error; None for an error about something else."""
    status = _status(error)
    said = " ".join(_words(error))[:4_000]
    if status == 429 or _NOT_OVERFLOW.search(said):
        return None
    for pattern in _TOO_LONG:
        if found := re.search(pattern, said, re.IGNORECASE):
            return OverflowRefusal(_limit(found), found.group()[:200])
    # Some gateways answer 413 without a text.
    return OverflowRefusal(None, "HTTP status 413") if status == 413 else None


def refused_overflow(model: str, refusal: OverflowRefusal, sent: int) -> Overflow:
    """Return the mark of a refused prompt. `sent` are its tokens by our own count."""
    guess = max(1, int(sent * GUESS))
    limit = refusal.limit
    if limit is None:
        return Overflow(
            model, guess, f"refused ({refusal.said}); no limit was named, three quarters of what was sent are tried"
        )
    if limit >= sent:
        # The provider counts more than we do: a prompt of its limit by our count would be refused again.
        return Overflow(model, min(limit, guess), f"refused ({refusal.said}) although {sent:,} were counted here")
    return Overflow(model, limit, f"refused: {refusal.said}")


def silent_overflow(usage: Usage, window: int) -> Overflow | None:
    """Return the mark of a prompt that was cut without an error, or taken although it is beyond the window; None otherwise."""
    if usage.input_tokens > window:
        return Overflow(
            usage.model, window, f"{usage.input_tokens:,} tokens were counted, beyond the window {window:,}"
        )
    if not usage.estimated or usage.cache_read_tokens or usage.cache_write_tokens:
        return None
    is_round = usage.input_tokens >= 1_024 and min(usage.input_tokens % 1_024, -usage.input_tokens % 1_024) <= 8
    if is_round and usage.input_tokens < _CUT_SILENTLY * usage.estimated:
        return Overflow(
            usage.model,
            usage.input_tokens,
            f"{usage.estimated:,} tokens were sent and {usage.input_tokens:,} counted: the server cut the prompt",
        )
    return None


def _limit(found: re.Match[str]) -> int | None:
    named = found.groupdict().get("limit") or (found.group(1) if found.re.groups else None)
    digits = re.sub(r"\D", "", named or "")
    return int(digits) if digits and int(digits) > 0 else None


def _status(error: object) -> int | None:
    for name in ("status_code", "status", "code"):
        value = getattr(error, name, None)
        if isinstance(value, int):
            return value
    return None


def _words(error: object) -> Iterator[str]:
    """Yield the message of an error, and the body that SDKs keep beside it."""
    yield str(error)
    for name in ("body", "message", "response_json", "details"):
        if value := getattr(error, name, None):
            yield str(value)
