"""Filter between a provider and a client: one reply for the client, without the calls to Foveal's own tools.

The model calls tools that the client does not know (`foveal.values.own_tools`). Somebody between the two answers them and asks
the model again, until it says something for the client. An exchange then has several rounds at the provider, and the client
sees them as one reply:

    seen = ReplyFilter(dialect.reader, own_names, request)
    while True:
        for event in upstream events:            # decoded by `SseDecoder`
            send(seen.feed(event))
        ended = seen.end_round()
        send(ended.events)
        if not ended.again:
            break
        # record ended.reply, answer its own calls, ask again; or give up and send(seen.finish())

For replies that are not streamed, `take` is called with each of them, and `body` is the client's reply.

Nothing is delayed but a call whose name is not known yet, and an event that needs no change keeps its bytes. The end of a reply
is held back where the model is asked again. A reply with own calls and calls of the client ends the exchange: the client sees
its own calls.

The usage that the client sees has the input of the last round and the output of all rounds (`join_usage` says why). The usage
that the provider counted for each round is in `rounds`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from typing import Any, NamedTuple

import msgspec

from foveal.dialects.hiding import event_json
from foveal.dialects.port import Wire, WireReader, WireReply
from foveal.dialects.sse import SseEvent

_NOT_UNDERSTOOD = (KeyError, TypeError, ValueError, AttributeError, IndexError)
"""Errors that readers raise for replies of another shape than their provider's."""


class ReplyRound(NamedTuple):
    """One reply of the provider, of which the client may have seen a part."""

    body: Wire
    """The reply in unstreamed form, own calls included."""
    reply: WireReply | None
    """The reply as a message, own calls included, and its usage. Its `stop` tells whether it ended. None if it cannot be read."""
    again: bool
    """Whether the model waits for the answers to own calls, and for nothing else."""
    events: tuple[SseEvent, ...] = ()
    """Events for the client that were held back until the round ended."""


class ReplyFilter:
    """Turns the replies of one exchange into the reply that the client sees. `own` are the names of the tools to hide.

    `is_own_request` says that the client's own request was sent, and not another one in its place.
    """

    def __init__(
        self, reader: WireReader, own: Collection[str], request: Mapping[str, Any], *, is_own_request: bool = False
    ) -> None:
        self._reader = reader
        self._is_as_asked = is_own_request and not own
        """Whether the client's own request was sent, so that nothing of the reply is to be hidden."""
        self._calls = reader.calls(frozenset(own), request)
        self._stream = reader.stream()
        self._is_understood = True
        self._is_between_rounds = False
        self._rounds: list[ReplyRound] = []

    @property
    def rounds(self) -> tuple[ReplyRound, ...]:
        """The rounds that have ended, each with the usage that the provider counted."""
        return tuple(self._rounds)

    @property
    def body(self) -> Wire:
        """The client's reply in unstreamed form, of the rounds that have ended. One reply with nothing to hide is itself."""
        return reduce(self._calls.join, (self._calls.hide(ended.body) for ended in self._rounds))

    @property
    def shown(self) -> WireReply:
        """The client's reply as a message: the one that it sends back with its next request."""
        last = self._rounds[-1].reply
        message, usage = self._reader.reply(self.body)
        return WireReply(msgspec.structs.replace(message, stop=last.message.stop if last else "error"), usage)

    def feed(self, event: SseEvent) -> list[SseEvent]:
        """Take the next event of a stream and return the events to send to the client now."""
        data = event_json(event)
        if data is None and not event.is_whole and event.data != b"[DONE]":
            return []  # the torn end of a stream, of which no client is told
        if self._is_between_rounds:
            self._calls.begin_round(self.body)
            self._stream = self._reader.stream()
            self._is_between_rounds = False
        if data is not None and self._is_understood:
            try:
                self._stream.feed(data)
            except _NOT_UNDERSTOOD:
                self._is_understood = False
        return [event] if self._is_as_asked else self._calls.feed(event, data)

    def end_round(self) -> ReplyRound:
        """Return the round whose stream has ended or broken off. The next event begins another one.

        A later round of which nothing came is none: it may be asked for again, or given up with `finish`.
        """
        if self._is_between_rounds:
            empty = self._reader.stream()
            return ReplyRound(empty.body, empty.reply(), again=False)
        body = self._stream.body
        reply = self._read(self._stream.reply) if self._is_understood else None
        again = reply is not None and reply.message.stop == "done" and self._calls.asks_again(body)
        events = self._calls.release()
        if not again:
            events += self.finish()
        self._is_between_rounds = True
        self._rounds.append(ReplyRound(body, reply, again, tuple(events)))
        return self._rounds[-1]

    def finish(self) -> list[SseEvent]:
        """Return the end of the client's stream, for an exchange that stops although the model waits for an answer."""
        tail, self._calls.tail = self._calls.tail, []
        return tail

    def take(self, body: Wire) -> ReplyRound:
        """Return the round of an unstreamed reply."""
        reply = self._read(lambda: self._reader.reply(body))
        again = reply is not None and self._calls.asks_again(body)
        self._rounds.append(ReplyRound(body, reply, again))
        return self._rounds[-1]

    @staticmethod
    def _read(read: Callable[[], WireReply]) -> WireReply | None:
        try:
            return read()
        except _NOT_UNDERSTOOD:
            return None
