"""What an exception tells, and what is never told."""

import pytest

from foveal.writers.faults import describe, fault_of, without_secrets
from foveal.writers.port import Unanswered


class Said(Exception):
    """An SDK's exception: words, and a status where there was an answer."""

    def __init__(self, text: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self.status_code, self.code = status, code


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (Said("slow down", 429), "rate_limited"),
        (Said("Overloaded", 529), "rate_limited"),
        (Said("Rate limit reached: tokens per min, maximum context 8192"), "rate_limited"),
        (Said("ThrottlingException: Too many tokens, please wait"), "rate_limited"),
        (Said("overloaded, try later", 503), "rate_limited"),
        (Said("This model's maximum context length is 8192 tokens", 400), "too_long"),
        (Said("x", 400, "context_length_exceeded"), "too_long"),
        (Said("prompt is too long: 210000 tokens > 200000 maximum", 400), "too_long"),
        (Said("request (900 tokens) exceeds the available context size (512 tokens)"), "too_long"),
        (Said("Request too large", 413), "too_long"),
        (Said("invalid model", 400), "rejected"),
        (Said("context window service is down", 500), "raised"),
        (Said("bad key", 401), "rejected"),
        (Said("request timed out", 408), "raised"),
        (ValueError("x"), "raised"),
        (Unanswered("cut_off", "x"), "cut_off"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_kind_of_failure_is_found(error, fault):
    """By status where there is one, by words elsewhere; a rate limit is never taken for a long prompt or the reverse."""
    assert fault_of(error) == fault


@pytest.mark.parametrize(
    "secret",
    ["sk-proj-abcdefgh12345678", "sk-ant-api03-Zyxw_vuts-rqpo", "AIzaSyA1234567890abcdefghijk", "hunter2pass"],
)
def test_no_secret_is_told(secret):
    """Whether the provider, a proxy or an address put it there."""
    text = f"401: wrong key {secret}, Authorization: Bearer {secret}, at https://me:{secret}@host/v1"
    shown = describe(Said(text.replace(f"key {secret}", "key") if secret == "hunter2pass" else text))
    assert secret not in shown
    assert "***" in shown


def test_what_is_told_is_one_short_line():
    """A page of HTML from a proxy does not fill the log."""
    shown = without_secrets("a\n\n  b " + "x y " * 100_000)
    assert shown.startswith("a b x y")
    assert len(shown) <= 300
    assert "\n" not in shown
