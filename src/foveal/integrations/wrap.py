"""Wrapping the client of an SDK: its requests are built by a session, and its surface stays the SDK's own.

    client = foveal.wrap(OpenAI(), session="fix-login", budget=80_000)

The hook is below the SDK, in its HTTP client: `create`, `stream`, `parse`, raw responses, retries and all helpers go through it,
synchronous and asynchronous. Requests without a conversation, and those that cannot be managed, go on as they are.
"""

from pathlib import Path
from typing import Any, TypeVar, cast

import httpx2
import msgspec

from foveal.integrations.followed_sessions import FollowedSessions
from foveal.integrations.http_transport import AsyncFittingTransport, FittingTransport, WireCalls
from foveal.session.policy import Policy
from foveal.stores.port import Store
from foveal.values.errors import BadInput

C = TypeVar("C")


def wrap(
    client: C,
    *,
    session: str,
    budget: int | None = None,
    policy: Policy | None = None,
    store: Store | str | Path = ":memory:",
) -> C:
    """Return a client like this one of OpenAI's or Anthropic's SDK, whose requests are within the budget.

    `session` names the conversation in the store; a request with the header `x-foveal-session` has another one. `budget` is the
    most tokens that are sent for a call, in place of the policy's.
    """
    inner: object = getattr(client, "_client", None)
    if not isinstance(inner, httpx2.Client | httpx2.AsyncClient) or not hasattr(client, "copy"):
        raise BadInput(
            f"{type(client).__name__} cannot be wrapped: it is no client of OpenAI's or Anthropic's SDK that sends with httpx2"
        )
    chosen = policy or Policy()
    if budget is not None:
        chosen = msgspec.structs.replace(chosen, max_context_tokens=budget)
    calls = WireCalls(FollowedSessions(store, chosen), session)
    http = (
        httpx2.Client(transport=FittingTransport(calls, inner), timeout=inner.timeout)
        if isinstance(inner, httpx2.Client)
        else httpx2.AsyncClient(transport=AsyncFittingTransport(calls, inner), timeout=inner.timeout)
    )
    return cast("C", cast("Any", client).copy(http_client=http))
