"""Counts of tokens that clients ask their providers for.

A client that counts its history compacts it by the answer, so that it must be the count of the request that would be sent:
where the session of the conversation has folded, the folded one is counted. All others go to the provider as they came. The same
request is counted once, because editors count dozens of texts at their start; where a provider cannot count, it is estimated.
"""

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from hashlib import sha256
from typing import Any, NamedTuple

import httpx2
import msgspec

from foveal.gateway.conversations import ClientConversation
from foveal.gateway.relay import ClientCall, Relay, RelayedReply, as_came, reply_of
from foveal.gateway.routes import key_hash
from foveal.gateway.upstream import reply_headers
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.next_request import next_request
from foveal.integrations.routes import Route
from foveal.models import counters
from foveal.session.follow import Followed, told_list
from foveal.values.errors import FovealError

MOST_KEPT = 1_000
"""Counts that are remembered."""

_OK = 200
_CANNOT = (404, 405, 501)
_NESTED = "generateContentRequest"
"""The field of Gemini's count that holds a whole request."""

_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class _Kept(NamedTuple):
    headers: list[tuple[bytes, bytes]]
    body: bytes


class TokenCounts:
    """Answers requests for counts. `is_whole_sent` says that clients' requests are sent as they come, whatever was folded."""

    def __init__(self, relay: Relay, *, is_whole_sent: bool) -> None:
        self._relay, self._is_whole_sent = relay, is_whole_sent
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    async def answer(self, call: ClientCall, route: Route) -> RelayedReply:
        """Return the count of a request."""
        folded = None if self._is_whole_sent else await self._folded(call, route)
        if folded is not None:
            counted = await self._counted(call, folded)
            if counted is not None:
                return reply_of(_OK, counted.headers, counted.body)
        return await self._plain(call, route)

    async def _plain(self, call: ClientCall, route: Route) -> RelayedReply:
        """Return the count of a request as it came."""
        key = _key(call, call.body)
        if kept := self._recalled(key):
            return reply_of(_OK, kept.headers, kept.body)
        try:
            response = await self._relay.upstream.send(call.provider, call.method, call.path, call.headers, call.body)
            if response.status_code in _CANNOT and (estimate := _estimate(call.body, route)) is not None:
                await response.aclose()
                return reply_of(_OK, [(b"content-type", b"application/json")], estimate)
            if response.status_code != _OK:
                return as_came(response)
            return self._keep(key, response, await response.aread())
        except httpx2.HTTPError as error:
            return self._relay.unreachable(call.provider, error)

    async def _counted(self, call: ClientCall, body: bytes) -> _Kept | None:
        """Return the provider's count of another body; None if it does not give one."""
        key = _key(call, body)
        if kept := self._recalled(key):
            return kept
        try:
            response = await self._relay.upstream.send(call.provider, call.method, call.path, call.headers, body)
            raw = await response.aread()
        except httpx2.HTTPError:
            return None
        if response.status_code != _OK:
            return None
        self._keep(key, response, raw)
        return self._kept[key]

    def _recalled(self, key: bytes) -> _Kept | None:
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def _keep(self, key: bytes, response: httpx2.Response, raw: bytes) -> RelayedReply:
        kind = response.headers.get("content-type", "application/json").encode("latin-1")
        self._kept[key] = _Kept([(b"content-type", kind)], raw)
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return reply_of(_OK, reply_headers(response, is_changed=True), raw)

    async def _folded(self, call: ClientCall, route: Route) -> bytes | None:
        """Return the request that would be sent for a client's now; None if it is the client's own, or cannot be told."""
        conversations, key = self._relay.conversations, key_hash(call.named, call.path.partition("?")[2])
        candidates = [one for one in conversations if one.name.endswith(f"-{key}") and _has_folded(one)]
        if not candidates:
            return None
        try:
            request, outer = _read(call.body, route)
            told = await conversations.in_thread(candidates[0], lambda: _told(request))
            found = next((one for one in candidates if one.opened and one.opened.is_told_in(told)), None)
            if found is None:
                return None
            async with AsyncExitStack() as held:
                turn = await held.enter_async_context(conversations.turn(found.name))
                session = turn.opened
                body = session and await conversations.in_thread(
                    turn, lambda: next_request(session, request, told, turn.own_tools)
                )
        except (FovealError, TimeoutError, ValueError, LookupError):
            return None  # the provider tells the client what is wrong with it
        return _wrapped(body, outer) if body else None


def _has_folded(conversation: ClientConversation) -> bool:
    return conversation.opened is not None and conversation.opened.view.facts.is_reduced


def _told(request: ClientRequest) -> Followed:
    return told_list(request.messages, dialect=request.dialect, model=request.model)


def _read(raw: bytes, route: Route) -> tuple[ClientRequest, Mapping[str, msgspec.Raw] | None]:
    """Return the request that is to be counted, and the fields around it, if it is a part of the body."""
    outer = _raw_fields.decode(raw) if route.dialect == "gemini" else {}
    if _NESTED in outer:
        return ClientRequest.read(route.dialect, bytes(outer[_NESTED]), route.model), outer
    return ClientRequest.read(route.dialect, raw, route.model), None


def _wrapped(body: bytes, outer: Mapping[str, msgspec.Raw] | None) -> bytes:
    return body if outer is None else msgspec.json.encode({**outer, _NESTED: msgspec.Raw(body)})


def _estimate(raw: bytes, route: Route) -> bytes | None:
    """Return an answer in the provider's form, by our own count of the body; None if the body cannot be read."""
    try:
        body: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
    counter = counters.counter_for(str(body.get("model") or route.model))
    tokens = round(counter.counter.count(raw.decode("utf-8", "replace")) * max(1.0, counter.factor))
    match route.dialect:
        case "gemini":
            return msgspec.json.encode({"totalTokens": tokens})
        case "openai_responses":
            return msgspec.json.encode({"object": "response.input_tokens", "input_tokens": tokens})
        case _:
            return msgspec.json.encode({"input_tokens": tokens})


def _key(call: ClientCall, body: bytes) -> bytes:
    """Return a key that is equal for equal requests of one client."""
    told = "\0".join((call.provider, call.path, key_hash(call.named), call.named.get("anthropic-beta", "")))
    return sha256(told.encode() + b"\0" + body).digest()
