"""From a client's request to the provider and back: managed by a session, or passed on as it is.

Whatever goes wrong on our side, the request goes on as the client sent it: an agent that works without the gateway works with it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import NamedTuple, TypeVar, cast

import httpx2
import msgspec

from foveal.dialects.port import Wire
from foveal.dialects.reply_filter import ReplyRound
from foveal.dialects.sse import KEEP_ALIVE, SseDecoder
from foveal.gateway.conversations import CallFigures, ClientConversation, ClientConversations, in_thread
from foveal.gateway.routes import Route, conversation_name, provider_of
from foveal.gateway.upstream import Upstream, reply_headers
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.exchange import MOST_ROUNDS, Exchange
from foveal.record.overflow import refusal_in
from foveal.values.errors import ContextOverflow, FovealError

PING_S = 10.0
"""Seconds of silence after which a client that waits for a stream gets a sign of life."""

_OK = 200

T = TypeVar("T")


class ClientCall(NamedTuple):
    """A request of a client."""

    method: str
    path: str
    """With the query."""
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def named(self) -> Mapping[str, str]:
        """The headers by their names."""
        return {name.lower(): value for name, value in self.headers}


class RelayedReply(NamedTuple):
    """The answer to a client: its body comes in pieces."""

    status: int
    headers: list[tuple[bytes, bytes]]
    pieces: AsyncGenerator[bytes]


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
        self._conversations, self._upstream, self._tell, self._watch = conversations, upstream, tell, watch

    async def pass_on(self, call: ClientCall) -> RelayedReply:
        """Send a request on as it is."""
        provider = provider_of(call.path, call.named)
        response = await self._upstream.send(provider, call.method, call.path, call.headers, call.body)
        return RelayedReply(response.status_code, reply_headers(response, is_changed=False), _raw(response))

    async def manage(self, call: ClientCall, route: Route) -> RelayedReply:
        """Send a request with the prompt that its session builds, and keep the reply."""
        try:
            request = ClientRequest.read(route.dialect, call.body, route.model)
            if not self._conversations.is_managed(request):
                return await self._unmanaged(call, f"the window of {request.model} is not known; name it in the policy")
        except FovealError as error:
            return await self._unmanaged(call, str(error))
        name = conversation_name(call.named, request.body, route.dialect)
        async with AsyncExitStack() as held:
            try:
                conversation = await held.enter_async_context(self._conversations.turn(name))
            except TimeoutError:
                return await self._unmanaged(call, f"{name} has another request under way")
            try:
                exchange, body = await self._prepared(conversation, request)
            except Exception as error:  # whatever it is, the client's work goes on
                return await self._unmanaged(call, f"{name}: {type(error).__name__}: {error}")
            totals = self._conversations.figures
            sent = _Sending(self._upstream, call, conversation, exchange, self._tell, totals=totals)
            if self._watch:
                exchange.sent_another()
            response = await sent.send(call.body if self._watch else body)
            self._count(conversation, exchange)
            if response.status_code != _OK:
                return RelayedReply(response.status_code, reply_headers(response, is_changed=False), _raw(response))
            stack = held.pop_all()  # the turn ends with the reply
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            pieces = sent.streamed(response, stack) if is_stream else sent.whole(response, stack)
            return RelayedReply(_OK, reply_headers(response, is_changed=True), pieces)

    async def _prepared(self, conversation: ClientConversation, request: ClientRequest) -> tuple[Exchange, bytes]:
        conversations = self._conversations

        def prepare() -> tuple[Exchange, bytes]:
            session = conversation.session(conversations.store, conversations.policy, request)
            exchange = Exchange(session, request)
            return exchange, exchange.body()

        return await in_thread(conversation, prepare)

    async def _unmanaged(self, call: ClientCall, because: str) -> RelayedReply:
        self._conversations.figures.unmanaged += 1
        self._tell(f"passed on as it came: {because}")
        return await self.pass_on(call)

    def _count(self, conversation: ClientConversation, exchange: Exchange) -> None:
        prompt = exchange.prompt
        if prompt is None:
            return
        trace = prompt.trace
        for figures in (conversation.figures, self._conversations.figures):
            figures.calls += 1
            figures.asked_tokens += trace.raw_tokens
            figures.sent_tokens += trace.raw_tokens if self._watch else prompt.tokens
            figures.folds += prompt.fold is not None
        if prompt.fold:
            sent = "would be sent" if self._watch else "sent"
            told = f"{prompt.tokens:,} of {trace.raw_tokens:,} tokens {sent}; {prompt.fold.reason}"
            self._tell(f"{conversation.name}: {told}")


class _Sending:
    """One exchange on its way."""

    def __init__(
        self,
        upstream: Upstream,
        call: ClientCall,
        conversation: ClientConversation,
        exchange: Exchange,
        tell: Callable[[str], None],
        *,
        totals: CallFigures,
    ) -> None:
        self._upstream, self._call, self._conversation = upstream, call, conversation
        self._exchange, self._tell, self._figures = exchange, tell, (conversation.figures, totals)
        self._rounds = 0

    async def send(self, body: bytes) -> httpx2.Response:
        """Send a body, and smaller ones as long as the provider says that it is too long."""
        call = self._call
        provider = provider_of(call.path, call.named)
        while True:
            response = await self._upstream.send(provider, call.method, call.path, call.headers, body)
            if response.status_code not in (400, 413):
                return response
            refused = await response.aread()
            error = _error(refused)
            if refusal_in(error) is None:
                return response
            try:
                body = await self._in_thread(lambda error=error: self._exchange.recovered(error))
            except (ContextOverflow, FovealError) as failed:
                self._tell(f"{self._conversation.name}: {failed}")
                return response
            for figures in self._figures:
                figures.recovered += 1

    async def streamed(self, response: httpx2.Response, held: AsyncExitStack) -> AsyncGenerator[bytes]:
        """Yield the stream that the client sees, over all rounds. A client that leaves early loses nothing of what came."""
        async with held:
            replies, is_open = self._exchange.replies, True
            try:
                while is_open:
                    async for shown in self._round(response):
                        yield shown
                    ended = replies.end_round()
                    is_open = False
                    await self._keep(ended)
                    for event in ended.events:
                        yield event.raw
                    again = await self._again(ended)
                    if again is None:
                        for event in replies.finish() if ended.again else ():
                            yield event.raw
                        return
                    response, is_open = again, True
            finally:
                if is_open:
                    await self._keep(replies.end_round())

    async def _round(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        """Yield the events of one upstream reply that the client is shown."""
        decoder, replies = SseDecoder(), self._exchange.replies
        async for piece in _with_pings(response):
            if not piece:
                yield KEEP_ALIVE
            for event in decoder.feed(piece):
                for shown in replies.feed(event):
                    yield shown.raw
        for event in decoder.end():
            for shown in replies.feed(event):
                yield shown.raw

    async def whole(self, response: httpx2.Response, held: AsyncExitStack) -> AsyncGenerator[bytes]:
        """Yield the unstreamed reply that the client sees."""
        async with held:
            replies = self._exchange.replies
            raw = await response.aread()
            while True:
                body = _object(raw)
                if body is None:
                    yield raw
                    return
                ended = replies.take(body)
                await self._keep(ended)
                again = await self._again(ended)
                if again is None:
                    yield raw if replies.body is body else msgspec.json.encode(replies.body)
                    return
                raw = await again.aread()

    async def _again(self, ended: ReplyRound) -> httpx2.Response | None:
        """Ask the model again, after its own calls were answered; None if it need not be asked, or cannot be."""
        self._rounds += 1
        if not ended.again or self._rounds >= MOST_ROUNDS:
            return None
        try:
            response = await self.send(await self._in_thread(self._exchange.body))
        except FovealError as error:
            self._tell(f"{self._conversation.name}: {error}")
            return None
        if response.status_code != _OK:
            await response.aread()
            self._tell(
                f"{self._conversation.name}: the provider answered {response.status_code} to the answer of a recall"
            )
            return None
        for figures in self._figures:
            figures.recalls += 1
        return response

    async def _keep(self, ended: ReplyRound) -> None:
        usage = ended.reply.usage if ended.reply else None
        for figures in self._figures if usage else ():
            figures.input_tokens += usage.input_tokens if usage else 0
            figures.cached_tokens += usage.cache_read_tokens if usage else 0
            figures.output_tokens += usage.output_tokens if usage else 0
        try:
            await self._in_thread(lambda: self._exchange.keep(ended))
        except FovealError as error:
            self._tell(f"{self._conversation.name}: the reply was not kept: {error}")

    async def _in_thread(self, act: Callable[[], T]) -> T:
        return await in_thread(self._conversation, act)


async def _with_pings(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the pieces of a stream, and an empty one after each while of silence."""
    pieces = response.aiter_raw()
    waiting: asyncio.Task[bytes] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(pieces, b""))
            done, _ = await asyncio.wait({waiting}, timeout=PING_S)
            if not done:
                yield b""
                continue
            piece, waiting = waiting.result(), None
            if not piece:
                return
            yield piece
    except httpx2.HTTPError:
        return  # the stream broke off: the client sees the end of it, as it would without us
    finally:
        if waiting:
            waiting.cancel()
        await response.aclose()


async def _raw(response: httpx2.Response) -> AsyncGenerator[bytes]:
    """Yield the body of a reply as it comes."""
    try:
        if response.is_stream_consumed:
            yield response.content
            return
        async for piece in response.aiter_raw():
            yield piece
    finally:
        await response.aclose()


def _object(raw: bytes) -> Wire | None:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return None
    return cast("Wire", found) if isinstance(found, dict) else None


def _error(raw: bytes) -> object:
    return _object(raw) or raw.decode("utf-8", "replace")
