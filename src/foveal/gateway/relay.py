"""From a client's request to the provider and back: managed by a session, or passed on as it is.

Whatever goes wrong on our side, the request goes on as the client sent it: an agent that works without the gateway works with it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import httpx2
import msgspec

from foveal.dialects.hiding import reply_json
from foveal.dialects.reply_filter import ReplyRound
from foveal.dialects.sse import SseDecoder, SseEvent
from foveal.dialects.stream_start import first_told, stream_error
from foveal.gateway.conversations import ClientConversation, ClientConversations
from foveal.gateway.routes import conversation_name, has_key, provider_of
from foveal.gateway.upstream import Upstream, reply_headers
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.exchange import MOST_ROUNDS, Exchange
from foveal.integrations.followed_sessions import has_known_limit
from foveal.integrations.routes import Route, kept_elsewhere
from foveal.record.overflow import refusal_in
from foveal.values.errors import FovealError, LeaseLost, OverBudget

_OK = 200
_BAD_GATEWAY = 502
_TOO_LARGE = 413
_MOST_TOLD = 1_000

T = TypeVar("T")


@dataclass(frozen=True)
class ClientCall:
    """A request of a client."""

    method: str
    path: str
    """With the query."""
    headers: list[tuple[str, str]]
    body: bytes = b""

    @cached_property
    def named(self) -> Mapping[str, str]:
        """The headers by their names."""
        return {name.lower(): value for name, value in self.headers}

    @cached_property
    def provider(self) -> str:
        """The name of the provider that it is for."""
        return provider_of(self.path, self.named)


class RelayedReply(NamedTuple):
    """The answer to a client: its body comes in pieces."""

    status: int
    headers: list[tuple[bytes, bytes]]
    pieces: AsyncGenerator[bytes]
    held: AsyncExitStack
    """The turn of the conversation. It is closed by the taker of the reply, even if the client has gone."""
    is_stream: bool = False
    """Whether it is a stream of events, in which a client that waits may get signs of life between two pieces."""


class ReplyCut(Exception):
    """A stream that broke off at the provider: the client must see it break off as well, not end."""


class Relay:
    """Relays the requests of all clients. `watch` passes everything on as it is, and only reckons what would have been sent."""

    def __init__(
        self,
        conversations: ClientConversations,
        upstream: Upstream,
        *,
        tell: Callable[[str], None],
        watch: bool = False,
    ) -> None:
        self.conversations, self.upstream, self.tell, self._watch = conversations, upstream, tell, watch
        self._told: set[str] = set()
        """The reasons that were told and will come again."""

    async def pass_on(self, call: ClientCall, pieces: AsyncIterable[bytes] | None = None) -> RelayedReply:
        """Send a request on as it is. The `pieces` of a large body are sent as they come."""
        body = call.body if pieces is None else pieces
        try:
            response = await self.upstream.send(call.provider, call.method, call.path, call.headers, body)
        except httpx2.HTTPError as error:
            return self.unreachable(call.provider, error)
        return as_came(response)

    async def manage(self, call: ClientCall, route: Route) -> RelayedReply:
        """Send a request with the prompt that its session builds, and keep the reply."""
        try:
            request = ClientRequest.read(route.dialect, call.body, route.model)
            if elsewhere := kept_elsewhere(request.body, call.path, route.dialect):
                return await self._unmanaged(call, elsewhere, once=elsewhere)
            if not has_known_limit(self.conversations.policy, request.model):
                because = f"the window of {request.model} is not known; name it in the policy"
                return await self._unmanaged(call, because, once=because)
            query = call.path.partition("?")[2]
            name = conversation_name(call.named, request.body, route.dialect, query=query)
        except FovealError as error:
            return await self._unmanaged(call, str(error))
        try:
            name = await self.conversations.stored_name(name, request, has_key=has_key(call.named, query))
        except Exception as error:  # of any kind: the client's work goes on
            return await self._unmanaged(call, f"{name}: {type(error).__name__}: {error}")
        async with AsyncExitStack() as held:
            try:
                conversation = await held.enter_async_context(self.conversations.turn(name))
            except TimeoutError:
                return await self._unmanaged(call, f"{name} has another request under way")
            conversation.see(call.named)
            try:
                exchange, body = await self._prepared(conversation, request)
            except OverBudget as error:  # at every call of the conversation, until the operator does something
                return await self._unmanaged(call, f"{name}: {error}", once=f"{name} {request.model}")
            except Exception as error:  # of any kind: the client's work goes on
                return await self._unmanaged(call, f"{name}: {type(error).__name__}: {error}")
            sent = _Sending(self, call, conversation, exchange)
            try:
                if self._watch:
                    exchange.sent_whole()
                response = await sent.send(call.body if self._watch else body, is_fixed=self._watch)
                self._count(conversation, exchange, response)
                if response.status_code != _OK:
                    sent.count_failure()
                    return as_came(response)
                is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
                pieces = sent.streamed(response) if is_stream else _one(await sent.whole(response))
            except httpx2.HTTPError as error:
                sent.count_failure()
                return self.unreachable(call.provider, error)
            return RelayedReply(_OK, reply_headers(response, is_changed=True), pieces, held.pop_all(), is_stream)

    async def _prepared(self, conversation: ClientConversation, request: ClientRequest) -> tuple[Exchange, bytes]:
        conversations = self.conversations

        def prepare() -> tuple[Exchange, bytes]:
            session = conversation.session(conversations.store, conversations.policy, request)
            exchange = Exchange(session, request)
            body = exchange.body()
            conversation.own_tools = exchange.own_tools
            return exchange, body

        try:
            return await conversations.in_thread(conversation, prepare)
        except LeaseLost:  # another gateway on this store had the conversation meanwhile; it comes back now
            return await conversations.in_thread(conversation, prepare)

    async def _unmanaged(self, call: ClientCall, because: str, *, once: str = "") -> RelayedReply:
        """Pass a request on, and tell why; a reason that comes again with every call is told `once`."""
        self.conversations.figures.unmanaged += 1
        self.conversations.passed_because = because
        if once not in self._told:
            self.tell(f"passed on as it came: {because}")
        if once:
            self._told = {*self._told, once} if len(self._told) < _MOST_TOLD else {once}
        reply = await self.pass_on(call)
        self.conversations.figures.failed += reply.status != _OK
        return reply

    def refused(self, provider: str, message: str) -> RelayedReply:
        """Return the answer to a request that is too large for the gateway, in the provider's own form."""
        self.tell(message)
        body = msgspec.json.encode(_spelled_failure(provider, message, _TOO_LARGE))
        # What the client has not sent yet is not read: the connection cannot be used again.
        return reply_of(_TOO_LARGE, [(b"content-type", b"application/json"), (b"connection", b"close")], body)

    def unreachable(self, provider: str, error: httpx2.HTTPError) -> RelayedReply:
        """Return the answer to a request that did not reach its provider, in the provider's own form."""
        message = self.upstream.complaint(provider, error)
        self.tell(message)
        body = msgspec.json.encode(_spelled_failure(provider, message))
        return reply_of(_BAD_GATEWAY, [(b"content-type", b"application/json")], body)

    def _count(self, conversation: ClientConversation, exchange: Exchange, response: httpx2.Response) -> None:
        """Count a call that the provider answered, and tell of a fold."""
        prompt = exchange.prompt
        if prompt is None:
            return
        asked = exchange.asked_tokens
        is_answered = response.status_code == _OK
        for figures in (conversation.figures, self.conversations.figures):
            figures.folds += prompt.fold is not None
            if is_answered:
                figures.calls += 1
                figures.asked_tokens += asked
                figures.sent_tokens += asked if self._watch else prompt.tokens
        if is_answered:
            conversation.cost.ask(prompt, asked, self.conversations.policy.models, is_whole_sent=self._watch)
        if prompt.fold:
            sent = "would be sent" if self._watch else "sent"
            self.tell(f"{conversation.name}: {prompt.tokens:,} of {asked:,} tokens {sent}; {prompt.fold.reason}")


class _Sending:
    """One exchange on its way."""

    def __init__(self, relay: Relay, call: ClientCall, conversation: ClientConversation, exchange: Exchange) -> None:
        self._upstream, self._conversations, self._tell = relay.upstream, relay.conversations, relay.tell
        self._call, self._conversation, self._exchange = call, conversation, exchange
        self._figures = (conversation.figures, relay.conversations.figures)
        self._rounds, self._is_fixed = 0, False

    def count_failure(self) -> None:
        """Count a request that has no whole reply."""
        for figures in self._figures:
            figures.failed += 1

    async def send(self, body: bytes, *, is_fixed: bool = False) -> httpx2.Response:
        """Send a body, and smaller ones as long as the provider says that it is too long, unless it `is_fixed`."""
        call, self._is_fixed = self._call, is_fixed
        while True:
            response = await self._upstream.send(
                call.provider, call.method, call.path, call.headers, body, conversation=self._conversation.name
            )
            if response.status_code not in (400, 413) or is_fixed:
                return response
            smaller = await self._smaller(_error(await response.aread()))
            if smaller is None:
                return response
            body = smaller

    async def _smaller(self, error: object) -> bytes | None:
        """Return a smaller body after an error that says that the last one was too long; None if it says something else."""
        if self._is_fixed or refusal_in(error) is None:
            return None
        try:
            body = await self._in_thread(lambda: self._exchange.recovered(error))
        except Exception as failed:  # the client gets the provider's refusal
            self._tell(f"{self._conversation.name}: {type(failed).__name__}: {failed}")
            return None
        for figures in self._figures:
            figures.recovered += 1
        return body

    async def _events(self, response: httpx2.Response) -> AsyncGenerator[Sequence[SseEvent]]:
        """Yield the events of a stream; where it begins with the words that the prompt is too long, those of a smaller one."""
        held: list[SseEvent] = []
        is_begun = False
        again: httpx2.Response | None = None
        async with aclosing(_events(response)) as came:
            async for events in came:
                held += events
                if not is_begun:
                    data = first_told(events)
                    if data is None:
                        continue
                    if (error := stream_error(data)) and (again := await self._restarted(error)):
                        break
                    is_begun = True
                yield held
                held = []
        if again is None:
            if held:
                yield held
            return
        async with aclosing(self._events(again)) as came:
            async for events in came:
                yield events

    async def _restarted(self, error: object) -> httpx2.Response | None:
        """Return the reply to a smaller body, for a stream of which the client has seen nothing; None if there is none."""
        body = await self._smaller(error)
        if body is None:
            return None
        response = await self.send(body)
        if response.status_code == _OK:
            return response
        await response.aclose()
        return None

    async def streamed(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        """Yield the stream that the client sees, over all rounds. Raise `ReplyCut` where the provider's stream broke off."""
        while True:
            is_cut = False
            try:
                async with aclosing(self._events(response)) as came:
                    async for events in came:
                        replies = self._exchange.replies  # from the first event on, it is known which body was sent
                        if shown := _joined(one for event in events for one in replies.feed(event)):
                            yield shown
            except httpx2.HTTPError:
                is_cut = True
            except (GeneratorExit, asyncio.CancelledError):  # the client has gone: perhaps it has all of the reply
                await self._keep_whole(self._exchange.replies.end_round())
                raise
            replies = self._exchange.replies
            ended = replies.end_round()
            await self._keep(ended)  # before the client knows that it has all of it
            if ended.events:
                yield _joined(ended.events)
            if is_cut:
                self.count_failure()
                raise ReplyCut
            again = await self._again(ended)
            if again is None:
                if ended.again:
                    yield _joined(replies.finish())
                return
            response = again

    async def whole(self, response: httpx2.Response) -> bytes:
        """Return the unstreamed reply that the client sees."""
        replies = self._exchange.replies
        raw = await response.aread()
        while True:
            body = reply_json(raw)
            if body is None:
                return msgspec.json.encode(replies.body) if replies.rounds else raw
            ended = replies.take(body)
            await self._keep(ended)
            again = await self._again(ended)
            if again is None:
                return raw if replies.body is body else msgspec.json.encode(replies.body)
            try:
                raw = await again.aread()
            except httpx2.HTTPError as error:
                self._tell(f"{self._conversation.name}: the answer to a recall broke off: {type(error).__name__}")
                return msgspec.json.encode(replies.body)

    async def _again(self, ended: ReplyRound) -> httpx2.Response | None:
        """Ask the model again, after its own calls were answered; None if it need not be asked, or cannot be."""
        self._rounds += 1
        if not ended.again or self._rounds >= MOST_ROUNDS:
            return None
        try:
            response = await self.send(await self._in_thread(self._exchange.body))
        except Exception as error:  # the client gets the rounds that there were
            self._tell(
                f"{self._conversation.name}: not asked again after a recall, because of {type(error).__name__}: {error}"
            )
            return None
        if response.status_code != _OK:
            await response.aclose()
            self._tell(
                f"{self._conversation.name}: the provider answered {response.status_code} to the answer of a recall"
            )
            return None
        prompt = self._exchange.prompt
        for figures in self._figures:
            figures.recalls += 1
            figures.sent_tokens += prompt.tokens if prompt else 0
            figures.folds += prompt is not None and prompt.fold is not None
        return response

    async def _keep_whole(self, ended: ReplyRound) -> None:
        """Keep a reply that came to its end. Of another one the client knows nothing for certain, and asks again."""
        if ended.reply and ended.reply.message.stop == "done" and not ended.again:
            await self._keep(ended)

    async def _keep(self, ended: ReplyRound) -> None:
        if ended.reply and ended.reply.usage:
            self._conversations.count_usage(self._conversation, ended.reply.usage)
        try:
            await self._in_thread(lambda: self._exchange.keep(ended))
        except Exception as error:  # the client has its reply all the same, and tells it with its next request
            self._tell(f"{self._conversation.name}: the reply was not kept: {type(error).__name__}: {error}")

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await self._conversations.in_thread(self._conversation, act)


async def _events(response: httpx2.Response) -> AsyncGenerator[Sequence[SseEvent]]:
    """Yield the events of a stream as they come. The last one may be torn."""
    decoder = SseDecoder()
    try:
        async for piece in response.aiter_raw():
            if events := decoder.feed(piece):
                yield events
    except httpx2.HTTPError:
        if rest := decoder.end():
            yield rest
        raise
    finally:
        await response.aclose()
    if rest := decoder.end():
        yield rest


def reply_of(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> RelayedReply:
    """Return a reply of the gateway's own."""
    return RelayedReply(status, [*headers, (b"content-length", str(len(body)).encode())], _one(body), AsyncExitStack())


def as_came(response: httpx2.Response) -> RelayedReply:
    """Return a reply of the provider as it came."""
    is_read = response.is_stream_consumed  # then it is decoded as well
    held = AsyncExitStack()
    held.push_async_callback(response.aclose)
    pieces = _one(response.content) if is_read else _raw(response)
    return RelayedReply(response.status_code, reply_headers(response, is_changed=is_read), pieces, held)


async def _raw(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the body of a reply as it comes."""
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx2.HTTPError as error:
        raise ReplyCut from error


def _joined(events: Iterable[SseEvent]) -> bytes:
    return b"".join(event.raw for event in events)


async def _one(body: bytes) -> AsyncGenerator[bytes]:
    yield body


def _spelled_failure(provider: str, message: str, status: int = _BAD_GATEWAY) -> Mapping[str, Any]:
    """Return an error in the form of a provider."""
    is_large = status == _TOO_LARGE
    match provider:
        case "anthropic":
            return {
                "type": "error",
                "error": {"type": "request_too_large" if is_large else "api_error", "message": message},
            }
        case "gemini":
            told = "INVALID_ARGUMENT" if is_large else "UNAVAILABLE"
            return {"error": {"code": status, "message": message, "status": told}}
        case _:
            kind = "invalid_request_error" if is_large else "server_error"
            code = "request_too_large" if is_large else "upstream_unreachable"
            return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _error(raw: bytes) -> object:
    return reply_json(raw) or raw.decode("utf-8", "replace")
