"""Senders: one for each dialect, through the provider's own SDK. A request goes out, a reply or the reason for none comes back.

Keys come from the environment, under the names that the SDKs know, and go to the provider's own address alone. Another address
gets the key of the variable that was named for it, or none.
"""

import os
import time
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, cast

import msgspec

from foveal.values.errors import BadInput, MissingExtra
from foveal.writers.endpoint import Endpoint
from foveal.writers.faults import describe, fault_of
from foveal.writers.port import Fault

TIMEOUT_S = 600.0
"""The time that the SDKs give a reply by default."""
TRIES = 6
LONGEST_PAUSE_S = 300.0
"""A provider that asks for more is not waited for: the call counts as failed, and the next run asks again."""


class NoReply(msgspec.Struct, frozen=True):
    """The reason why a request has no reply."""

    fault: Fault
    detail: str
    status: int | None = None
    retry_after_s: float | None = None

    @property
    def may_pass(self) -> bool:
        """Whether the same request may be answered later: a rate limit, an error of the server, no connection."""
        return self.fault in ("rate_limited", "raised")

    @property
    def is_for_all(self) -> bool:
        """Whether every other request would be refused as well: the key or the model is wrong."""
        return self.status in (401, 403, 404)


Sender: TypeAlias = Callable[[dict[str, Any]], "dict[str, Any] | NoReply"]


Pause: TypeAlias = Callable[[float], object]
"""Waits for some seconds. A true answer ends the waiting for good."""


class _Sdk(NamedTuple):
    package: str
    client: str
    error: str
    method: str
    key: str
    """The environment variable of its key."""


_OPENAI = _Sdk("openai", "OpenAI", "OpenAIError", "chat.completions.create", "OPENAI_API_KEY")
_SDKS = {
    "openai_chat": _OPENAI,
    "openai_responses": _OPENAI._replace(method="responses.create"),
    "anthropic": _Sdk("anthropic", "Anthropic", "AnthropicError", "messages.create", "ANTHROPIC_API_KEY"),
    "gemini": _Sdk("google.genai", "Client", "errors.APIError", "models.generate_content", "GEMINI_API_KEY"),
}


@contextmanager
def opened_sender(dialect: str, *, url: str | None = None, key_variable: str | None = None) -> Generator[Sender]:
    """Yield the sender of a dialect, to the provider's own address or another one. Any thread may use it."""
    sdk = _SDKS[dialect]
    module = _loaded(sdk)
    key = _key(key_variable) if key_variable else None
    errors, endpoint = attrgetter(sdk.error)(module), Endpoint(url, key, TIMEOUT_S)
    try:
        client = getattr(module, sdk.client)(**_settings(dialect, endpoint))
    except (errors, ValueError) as error:
        raise BadInput(f"{describe(error)} (is ${sdk.key} set?)") from None
    method = attrgetter(sdk.method)(client)

    def send(request: dict[str, Any]) -> dict[str, Any] | NoReply:
        try:
            reply = method(**request)
        except Exception as error:  # connections fail in ways that no SDK wraps
            return _no_reply(error, key)
        return cast("dict[str, Any]", reply.model_dump(exclude_unset=True, warnings=False))

    try:
        yield send
    finally:
        client.close()


def with_limit(dialect: str, request: Mapping[str, Any], tokens: int, *, is_provider: bool) -> dict[str, Any]:
    """Return the request with the most tokens that its reply may have. Servers other than the provider know its older name."""
    match dialect:
        case "anthropic":
            return {**request, "max_tokens": tokens}
        case "openai_responses":
            return {**request, "max_output_tokens": tokens}
        case "gemini":
            return {**request, "config": {**request["config"], "max_output_tokens": tokens}}
        case _:
            return {**request, "max_completion_tokens" if is_provider else "max_tokens": tokens}


def patiently(sender: Sender, request: dict[str, Any], *, pause: Pause = time.sleep) -> dict[str, Any] | NoReply:
    """Send a request until it is answered or refused for good: `TRIES` times at most, with the pauses that the provider wants."""
    for number in range(TRIES):
        reply = sender(request)
        if not isinstance(reply, NoReply) or not reply.may_pass or number == TRIES - 1:
            return reply
        wait_s = 2.0**number if reply.retry_after_s is None else reply.retry_after_s
        if wait_s > LONGEST_PAUSE_S:
            return reply
        if pause(wait_s):
            return reply
    raise AssertionError  # the last try returns


def reason_for_none(dialect: str, body: Mapping[str, Any]) -> NoReply | None:
    """Return why a reply is no answer, where the model declined or was cut off; None for one that is."""
    stop: Any
    match dialect:
        case "anthropic":
            stop = body.get("stop_reason")
        case "openai_responses":
            stop = cast("dict[str, Any]", body.get("incomplete_details") or {}).get("reason")
        case "gemini":
            candidates = cast("list[dict[str, Any]]", body.get("candidates") or [{}])
            stop = candidates[0].get("finish_reason") or candidates[0].get("finishReason")
        case _:
            choice = body["choices"][0]
            stop = "refusal" if choice["message"].get("refusal") else choice.get("finish_reason")
    match str(getattr(stop, "value", stop)).lower():
        case "length" | "max_tokens" | "max_output_tokens":
            return NoReply("cut_off", "The reply was cut off at its limit of tokens; --reply-tokens raises it.")
        case "refusal" | "content_filter" | "safety" | "prohibited_content" | "blocklist" | "recitation":
            return NoReply("refusal", f"The model declined ({stop}).")
        case _:
            return None


def _loaded(sdk: _Sdk) -> Any:
    try:
        is_there = find_spec(sdk.package) is not None
    except ModuleNotFoundError:  # the package above it is missing as well
        is_there = False
    if is_there:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the SDK's own affair
            return import_module(sdk.package)
    if sdk.package == "google.genai":
        raise BadInput("asking Gemini needs Google's SDK; install it with: pip install google-genai")
    raise MissingExtra(f"Asking a model through {sdk.client}'s SDK", sdk.package)


def _settings(dialect: str, endpoint: Endpoint) -> dict[str, Any]:
    if dialect != "gemini":
        return endpoint.settings()
    options: dict[str, Any] = {"timeout": int(endpoint.timeout_s * 1_000)}
    if not endpoint.base_url:
        return {"http_options": options}
    return {"api_key": endpoint.api_key or "none", "http_options": {**options, "base_url": endpoint.base_url}}


def _key(variable: str) -> str:
    if not os.environ.get(variable):
        raise BadInput(f"--key-env {variable}: there is no such environment variable, or it is empty")
    return os.environ[variable]


def _no_reply(error: Exception, key: str | None) -> NoReply:
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    status = found if isinstance(found, int) else None
    fault = fault_of(error)
    if fault == "raised" and status is not None and status < 500 and status not in (408, 409):
        fault = "rate_limited" if status == 429 else "rejected"
    text = describe(error)
    return NoReply(fault, text.replace(key, "***") if key else text, status, _retry_after_s(error))


def _retry_after_s(error: Exception) -> float | None:
    """Return the seconds that the provider asks to wait, where it names a number."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * unit_s)
        except (KeyError, TypeError, ValueError):  # absent, or a date
            continue
    return None
