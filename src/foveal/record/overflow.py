"""Context overflows: a provider's error or usage that shows that a prompt was too long, and the length that it would take.

Only refusals of a number of tokens are overflows. A rate limit speaks of tokens as well, and errors about images, characters or
the length of the reply name numbers too; a fold does not help against them, so they are looked for first. Some servers cut a
prompt without an error: their usage shows it, if the same ceiling is reported for prompts of different length.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from foveal.values.entry import Overflow, Usage

GUESS = 0.75
"""Share of the tokens sent that is assumed as the limit where the provider names none."""

LEAST_LIMIT = 1_000
"""No model is served with a smaller window: an error that names less speaks of something else."""

MOST_SCALE = 3.5
"""The largest ratio of a provider's count to ours that was seen; beyond it the number is of something else."""

_CUT_SHARE = 0.8
"""A prompt that was counted as less than this share of our own count may have been cut. Our count is within a tenth of theirs."""
_CUT_SLACK = 8
"""Tokens by which two reports of one ceiling differ at the most."""
_CUT_GROWTH = 1.05
"""Growth of the prompt between two reports of the same ceiling that rules out a coincidence."""

_RATE_LIMIT = re.compile(
    r"rate.?limit|too many requests|tokens per (?:min|day|hour)|\bTPM\b|\bRPM\b|throttl|quota|overloaded|capacity|billing|credit",
    re.IGNORECASE,
)
_OTHER_UNIT = re.compile(
    r"(?:number of|too many|at most \d+|maximum of \d+) (?:images?|tools?|functions?|files?|documents?|pages?|messages?|items?"
    r"|stop sequences)|images? (?:exceeds?|is too|are too|dimensions?)|array too long|maximum length \d+|characters?\b"
    r"|max(?:_completion|_output)?_tokens (?:is|must|cannot|should)|max(?:_completion|_output)?_tokens: \d+ >"
    r"|(?:completion|output) tokens",
    re.IGNORECASE,
)
_TOKENS_OF_PROMPT = re.compile(r"in the (?:messages|completion)|maximum (?:context|prompt|model) length", re.IGNORECASE)
"""Words by which an error that names some other unit as well is about the tokens of the prompt after all."""
_NUMBER = r"(\d[\d,_.]{0,14})"
_TOO_LONG = (
    rf"maximum (?:context|prompt|model) length (?:is|of) {_NUMBER}",
    rf"prompt is too long:? {_NUMBER} tokens > (?P<limit>\d[\d,]*)",
    rf"exceed context limit:? {_NUMBER} \+ {_NUMBER} > (?P<limit>\d[\d,]*)",
    rf"input token count (?:\(?{_NUMBER}\)? )?exceeds the maximum number of tokens allowed \(?(?P<limit>\d[\d,]*)",
    rf"input token count is {_NUMBER} but (?:the )?model only supports up to (?P<limit>\d[\d,]*)",
    rf"token count of {_NUMBER} exceeds the limit of (?P<limit>\d[\d,]*)",
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
_COUNTED = (
    r"\((\d[\d,]*) (?:in the messages|of text input)",
    r"(?:resulted in|request contains|requested(?: about)?:?|prompt contains|token count of|token count is) \(?(\d[\d,]*)",
    r"prompt is too long:? (\d[\d,]*) tokens",
    r"exceed context limit:? (\d[\d,]*) \+",
    r"input token count \((\d[\d,]*)\)",
    r"prompt \(length (\d[\d,]*)\)",
)


class OverflowRefusal(msgspec.Struct, frozen=True):
    """A provider's error about a prompt's length: the limit and the count that it names, and its words."""

    limit: int | None
    counted: int | None
    """Tokens of the refused prompt, as the provider counted them."""
    said: str


def refusal_in(error: object) -> OverflowRefusal | None:
    """Return the refusal of the prompt's length in this error; None for an error about something else."""
    status = _status(error)
    said = " ".join(_words(error))[:4_000]
    if status == 429 or _RATE_LIMIT.search(said) or (_OTHER_UNIT.search(said) and not _TOKENS_OF_PROMPT.search(said)):
        return None
    for pattern in _TOO_LONG:
        if found := re.search(pattern, said, re.IGNORECASE):
            limit = _limit(found)
            return OverflowRefusal(
                limit if limit and limit >= LEAST_LIMIT else None, _counted(said), found.group()[:200]
            )
    # Some gateways answer 413 without a text.
    return OverflowRefusal(None, None, "HTTP status 413") if status == 413 else None


def refused_overflow(model: str, refusal: OverflowRefusal, sent: int, factor: float = 1.0) -> Overflow:
    """Return the mark of a refused prompt. `sent` are its tokens by our own count, `factor` times as many by the provider's.

    The limit of the mark is in the provider's tokens as our factor knows them: a provider that counted more than that gets a
    limit that is lower in the same proportion.
    """
    expected = max(1, int(sent * factor))
    guess = max(1, int(expected * GUESS))
    limit, counted = refusal.limit, refusal.counted
    if limit is None:
        return Overflow(
            model, guess, f"refused ({refusal.said}); no limit was named, three quarters of what was sent are tried"
        )
    if counted and expected < counted <= MOST_SCALE * expected:
        scaled = int(limit * expected / counted)
        return Overflow(model, min(scaled, expected - 1), f"refused: {refusal.said}; {sent:,} were counted here")
    if limit >= expected:
        # The provider counts more than we do: a prompt of its limit by our count would be refused again.
        return Overflow(model, guess, f"refused ({refusal.said}) although {sent:,} were counted here")
    return Overflow(model, limit, f"refused: {refusal.said}")


def silent_overflow(usage: Usage, window: int, reports: Sequence[tuple[int, int]] = ()) -> Overflow | None:
    """Return the mark of a prompt that was cut without an error, or taken although it is beyond the window; None otherwise.

    `reports` are (our count, the provider's count) of earlier calls. A cut is believed if the same ceiling was reported for a
    shorter prompt as well: proxies that leave cached tokens out and endpoints that count in bytes report other numbers each time.
    """
    if usage.input_tokens > window:
        return Overflow(
            usage.model, window, f"{usage.input_tokens:,} tokens were counted, beyond the window {window:,}"
        )
    sent, counted = usage.estimated, usage.input_tokens
    if (
        not sent
        or usage.cache_read_tokens
        or usage.cache_write_tokens
        or not LEAST_LIMIT <= counted < _CUT_SHARE * sent
    ):
        return None
    for sent_before, counted_before in reports:
        is_same = abs(counted - counted_before) <= _CUT_SLACK and counted_before < _CUT_SHARE * sent_before
        if is_same and max(sent, sent_before) >= _CUT_GROWTH * min(sent, sent_before):
            because = f"{sent_before:,} and {sent:,} tokens were sent and {counted:,} counted of both: the server cuts prompts"
            return Overflow(usage.model, counted, because, is_cut=True)
    return None


def _counted(said: str) -> int | None:
    for pattern in _COUNTED:
        if found := re.search(pattern, said, re.IGNORECASE):
            return int(found.group(1).replace(",", ""))
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
