"""Classes of the errors that providers answer with, and the time after which to ask again."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias, cast

from foveal.record.overflow import refusal_in
from foveal.values.errors import FovealError, ModelFailed
from foveal.writers.faults import describe

FaultClass: TypeAlias = Literal["auth", "quota", "overflow", "filtered", "transient", "rejected"]
"""`auth`: a key that is missing or wrong. `quota`: no money left. `overflow`: too long a prompt. `filtered`: the content was
refused. `transient`: the same request may succeed later. `rejected`: it never will."""

FIRST_PAUSE_S, MOST_PAUSE_S = 1.0, 60.0
"""Pause after the first failure, doubled with each further one; a provider that asks for more is obeyed up to the second."""

_QUOTA = re.compile(r"insufficient.?quota|billing|credit balance|exceeded your current quota|payment", re.I)
_NO_CREDIT = re.compile(r"credit balance", re.I)
"""Of an error 400, which Anthropic answers then."""
_RATE_LIMITS = frozenset({429, 503})
_NAMED_DELAY = re.compile(r"retry(?:Delay\W{2,5}| in )(\d{1,6}(?:\.\d+)?)s\b")
"""The time after which Google allows the next call. Its words for that are those of others for an account without credit."""
_FILTER = re.compile(
    r"content.?(?:filter|policy|management)|safety (?:system|settings)|blocked by|responsible.?ai|prohibited.?content",
    re.I,
)
_AUTH = re.compile(r"api.?key|authenticat|unauthori[sz]ed|permission", re.I)
_WRONG_KEY = re.compile(r"api.?key.?(?:not valid|invalid)|invalid.?api.?key", re.I)
_REJECTED = frozenset({400, 404, 405, 411, 413, 415, 422})
_NOT_CONNECTED = frozenset({"ConnectTimeout", "ConnectError"})
_BROKEN_OFF = frozenset(
    {"RemoteProtocolError", "ReadError", "ConnectionResetError", "ServerDisconnectedError", "IncompleteRead"}
)
"""Names of errors of connections that were made and then broke, in the HTTP libraries of the SDKs."""


ADVICE: dict[FaultClass, str] = {
    "auth": "Set the key of this provider, or name its variable with key_env.",
    "quota": "The account has no credit left; top it up or name another model as a fallback.",
    "overflow": "Set max_context_tokens of the policy to a size that the model takes.",
    "filtered": "The provider refused the content; another wording or another model may do.",
    "transient": "The run can be resumed: nothing is lost.",
    "rejected": "The provider will refuse this again; check the name of the model and its options.",
}


def fault_class(error: BaseException) -> FaultClass:
    """Return the class of an error that an SDK raised."""
    if isinstance(error, ModelFailed):
        return cast("FaultClass", error.fault)
    status, said = _status(error), f"{type(error).__name__} {getattr(error, 'code', '')} {error}"
    if status == 429 and _NAMED_DELAY.search(said):
        return "transient"
    is_unpaid = (status in (None, 403, 429) and _QUOTA.search(said)) or (status == 400 and _NO_CREDIT.search(said))
    if status == 402 or is_unpaid:
        return "quota"
    if status in (401, 403):
        return "auth"
    if refusal_in(error) is not None:
        return "overflow"
    if _FILTER.search(said) and (status is None or status in _REJECTED):
        return "filtered"
    if status in _REJECTED:
        return "auth" if status == 400 and _WRONG_KEY.search(said) else "rejected"
    if status is None and isinstance(error, TypeError | ValueError | FovealError):
        return "auth" if _AUTH.search(said) else "rejected"
    return "transient"


def may_be_billed(error: BaseException) -> bool:
    """Return whether a call that ended by this error before its answer may be billed: the provider may have worked on it."""
    chain: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in chain:
        chain.append(cause)
        cause = cause.__cause__ or cause.__context__
    names = {type(one).__name__ for one in chain}
    if _status(error) is not None or names & _NOT_CONNECTED:
        return False
    return bool(names & _BROKEN_OFF) or "timeout" in type(error).__name__.lower()


def retry_after_s(error: BaseException, now_s: float) -> float | None:
    """Return the seconds that a provider asks to wait; None if it does not say. `now_s` is the time, for dates."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        if said := headers.get("retry-after-ms"):
            return max(0.0, float(said) / 1_000)
        if said := headers.get("retry-after"):
            is_number = re.fullmatch(r"[\d.]+", said) is not None
            return max(0.0, float(said) if is_number else parsedate_to_datetime(said).timestamp() - now_s)
    except (ValueError, TypeError, OverflowError):
        return None
    named = _NAMED_DELAY.search(str(error)) if _status(error) in _RATE_LIMITS else None
    return float(named[1]) if named else None


def pause_s(attempt: int, asked_s: float | None) -> float:
    """Return the seconds to wait after this failed attempt, counted from 1."""
    return min(MOST_PAUSE_S, asked_s if asked_s is not None else FIRST_PAUSE_S * 2 ** (attempt - 1))


def failed(model: str, error: BaseException) -> ModelFailed:
    """Return an SDK's error as ours, on one line and without secrets."""
    if isinstance(error, ModelFailed):
        return error
    fault = fault_class(error)
    return ModelFailed(model, fault, describe(error), ADVICE[fault])


def _status(error: BaseException) -> int | None:
    for name in ("status_code", "code", "status"):
        if isinstance(value := getattr(error, name, None), int):
            return value
    return None
