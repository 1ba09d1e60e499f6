"""One call of a client over HTTP, managed by its session: the order of things, without the I/O.

`managed_call` is a generator. It yields the next thing to do, and is sent the outcome, or has the error of it thrown in:

    Send(body)      send the client's request with this body    → a `ProviderReply`
    ReadAll()       read the whole body of the reply            → bytes
    ReadPiece()     read the next piece of a streamed reply     → bytes, or None at its end
    Work(act)       call this, away from an event loop          → the value that it returns
    WireAnswer(body)  a reply for the client; the end
    Begin()         the client's stream begins
    Show(piece)     the next piece of it

So synchronous and asynchronous clients share all of it. A generator that ends without a `WireAnswer` or a `Begin` leaves the
last reply of the provider to the client as it came.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from foveal.dialects.hiding import reply_json
from foveal.dialects.reply_filter import ReplyRound
from foveal.dialects.sse import SseDecoder, SseEvent
from foveal.dialects.stream_start import first_told, stream_error
from foveal.integrations.exchange import MOST_ROUNDS, Exchange
from foveal.integrations.followed_sessions import CallTurn, tell
from foveal.record.overflow import refusal_in

_OK = 200
_REFUSALS = (400, 413)


class Send(NamedTuple):
    body: bytes


class ReadAll(NamedTuple):
    pass


class ReadPiece(NamedTuple):
    pass


class Work(NamedTuple):
    act: Callable[[], object]


class WireAnswer(NamedTuple):
    body: bytes


class Begin(NamedTuple):
    pass


class Show(NamedTuple):
    piece: bytes


class ProviderReply(NamedTuple):
    """The head of a provider's reply."""

    status: int
    is_stream: bool


WireStep: TypeAlias = Send | ReadAll | ReadPiece | Work | WireAnswer | Begin | Show
WireSteps: TypeAlias = Generator[WireStep, Any, None]


def managed_call(turn: CallTurn, exchange: Exchange, body: bytes) -> WireSteps:
    """Send a prepared exchange, and go on until the client has its reply. The turn ends with it."""
    try:
        yield from _WireCall(turn.name, exchange).run(body)
    finally:
        turn.end()


class _WireCall:
    """The state of one call."""

    def __init__(self, name: str, exchange: Exchange) -> None:
        self._name, self._exchange = name, exchange

    def run(self, body: bytes) -> WireSteps:
        reply = yield from self._send(body)
        if reply.status != _OK:
            return
        if reply.is_stream:
            yield Begin()
            yield from self._streamed()
        else:
            yield WireAnswer((yield from self._whole()))

    def _send(self, body: bytes) -> Generator[WireStep, Any, ProviderReply]:
        """Send a body, and smaller ones as long as the provider says that it is too long."""
        while True:
            reply: ProviderReply = yield Send(body)
            if reply.status not in _REFUSALS:
                return reply
            raw: bytes = yield ReadAll()
            smaller = yield from self._smaller(reply_json(raw) or raw.decode("utf-8", "replace"))
            if smaller is None:
                return reply
            body = smaller

    def _smaller(self, error: object) -> Generator[WireStep, Any, bytes | None]:
        """Return a smaller body after an error that says that the last one was too long; None if it says something else."""
        if refusal_in(error) is None:
            return None
        try:
            return (yield Work(lambda: self._exchange.recovered(error)))
        except Exception as failed:  # the client gets the provider's refusal
            tell(f"{self._name}: {type(failed).__name__}: {failed}")
            return None

    def _whole(self) -> Generator[WireStep, Any, bytes]:
        """Return the unstreamed reply that the client sees."""
        replies = self._exchange.replies
        raw: bytes = yield ReadAll()
        while True:
            body = reply_json(raw)
            if body is None:
                return msgspec.json.encode(replies.body) if replies.rounds else raw
            ended = replies.take(body)
            yield from self._keep(ended)
            if not (yield from self._asked_again(ended)):
                return raw if replies.body is body else msgspec.json.encode(replies.body)
            raw = yield ReadAll()

    def _streamed(self) -> WireSteps:
        """Show the stream that the client sees, over all rounds. It breaks off where the provider's does."""
        while True:
            cut: Exception | None = None
            try:
                yield from self._events()
            except GeneratorExit:  # the client has gone: perhaps it has all of the reply
                ended = self._exchange.replies.end_round()
                if ended.reply and ended.reply.message.stop == "done" and not ended.again:
                    self._exchange.keep(ended)
                raise
            except Exception as error:
                cut = error
            replies = self._exchange.replies
            ended = replies.end_round()
            yield from self._keep(ended)  # before the client knows that it has all of it
            yield from _shown(ended.events)
            if cut is not None:
                raise cut
            if not (yield from self._asked_again(ended)):
                if ended.again:
                    yield from _shown(replies.finish())
                return

    def _events(self) -> WireSteps:
        """Show the events of one round; of a smaller prompt's, where it begins with the words that the prompt is too long."""
        decoder, held, is_begun = SseDecoder(), list[SseEvent](), False
        while True:
            piece: bytes | None = yield ReadPiece()
            held += decoder.end() if piece is None else decoder.feed(piece)
            if not is_begun and (told := first_told(held)) is not None:
                error = stream_error(told)
                smaller = (yield from self._smaller(error)) if error else None
                if smaller is not None and (yield from self._send(smaller)).status == _OK:
                    yield from self._events()
                    return
                is_begun = True
            if is_begun or piece is None:
                replies = self._exchange.replies  # from the first event on, it is known which body was sent
                yield from _shown(one for event in held for one in replies.feed(event))
                held = []
            if piece is None:
                return

    def _asked_again(self, ended: ReplyRound) -> Generator[WireStep, Any, bool]:
        """Ask the model again after its own calls were answered, and return whether it replies."""
        if not ended.again or len(self._exchange.replies.rounds) >= MOST_ROUNDS:
            return False
        try:
            reply = yield from self._send((yield Work(self._exchange.body)))
        except Exception as error:  # the client gets the rounds that there were
            tell(f"{self._name}: not asked again after a recall, because of {type(error).__name__}: {error}")
            return False
        if reply.status != _OK:
            tell(f"{self._name}: the provider answered {reply.status} to the answer of a recall")
        return reply.status == _OK

    def _keep(self, ended: ReplyRound) -> WireSteps:
        try:
            yield Work(lambda: self._exchange.keep(ended))
        except Exception as error:  # the client has its reply all the same, and tells it with its next request
            tell(f"{self._name}: the reply was not kept: {type(error).__name__}: {error}")


def _shown(events: Iterable[SseEvent]) -> WireSteps:
    if piece := b"".join(event.raw for event in events):
        yield Show(piece)
