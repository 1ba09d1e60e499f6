"""One call of a model: streamed, merged into one reply, and repeated where that may help.

    call = ModelCall(port, "anthropic", "claude-sonnet-5")
    async for delta in call.ask(request): …      # words as they come
    session.append(call.reply)                   # the whole reply; `partial` is as much of it as has come
    call.lost                                    # the bills of attempts that failed

The retries are those of the same request to the same model. Overflows and other models are the business of the run.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from json import JSONDecodeError
from typing import Any, NamedTuple, Self

import msgspec

from foveal.agent.model_errors import ADVICE, failed, fault_class, may_be_billed, pause_s, retry_after_s
from foveal.agent.model_port import ModelPort
from foveal.agent.run_marks import CallUnbilled
from foveal.dialects import find_dialect
from foveal.dialects.deltas import SpokenDelta, spoken
from foveal.dialects.endings import ReplyEnding, reply_ending
from foveal.dialects.json_values import fields
from foveal.dialects.port import ReplyStream, WireReply
from foveal.dialects.stream_start import stream_error
from foveal.values.entry import Message, Stop, Text, ToolCall, Usage
from foveal.values.errors import FovealError, ModelFailed
from foveal.writers.faults import describe

ATTEMPTS = 3
"""Retries of a call after its first failure."""


class Retried(NamedTuple):
    """A call failed and is made again: the words that have come so far are void."""

    because: str
    pause_s: float
    attempt: int
    """The attempt that failed, counted from 1."""


class StreamFailed(Exception):
    """A provider's error that came as an event of the stream, in the form of an error of its SDK."""

    def __init__(self, error: object) -> None:
        super().__init__(str(error))
        told = fields(error)
        self.status_code = next((value for key in ("code", "status") if isinstance(value := told.get(key), int)), None)


class GivenUp(ConnectionError):
    """A connection that a library gave up, whatever had come of the call by then."""


class ModelCall:
    """One call. `ask` is used once; `stop` and `reply` tell about the attempt that was made last."""

    def __init__(
        self,
        port: ModelPort,
        dialect: str,
        model: str,
        *,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._port, self._dialect, self._model = port, dialect, model
        self._attempts, self._sleep = attempts, sleep
        self._stream: ReplyStream = find_dialect(dialect).reader.stream()
        self.lost: list[Usage | CallUnbilled] = []
        """The tokens of attempts that have failed, where the provider has told them, and that they are unknown where not."""
        self._is_asking = False
        """Whether an attempt has been begun and has not failed."""
        self._whole: WireReply | None = None
        """The reply, read once it was whole."""

    @property
    def stop(self) -> Stop:
        return self._stream.stop

    @property
    def is_whole(self) -> bool:
        """Whether the attempt that was made last has brought a whole reply. One that a filter or a failure ended is none."""
        return self._is_asking and self.stop == "done" and self.ending not in ("filter", "broken")

    @property
    def reply(self) -> WireReply:
        """The reply, for `Session.append`."""
        return self._whole or self._stream.reply()

    @property
    def ending(self) -> ReplyEnding:
        """Why the provider ended the reply."""
        return reply_ending(self._dialect, self._stream.body)

    @property
    def usage(self) -> Usage | None:
        """The provider's count of the tokens of the reply, if it has told one."""
        return self.reply.usage

    def partial(self) -> tuple[Message | Usage | CallUnbilled, ...]:
        """Return the part of a reply that has come: its words, if it has some, and its bill."""
        message = self.words()
        return (*message, *self._bill(self._come())) if self._is_asking else message

    def _bill(self, reply: WireReply | None) -> tuple[Usage | CallUnbilled, ...]:
        """Return the bill of an attempt: its tokens, or that nobody has told them; both if they were told before the end of the
        reply, when there may be more."""
        usage = reply.usage if reply is not None else None
        told = () if usage is None else (self._billed(usage),)
        return told if told and self.stop == "done" else (*told, CallUnbilled(self._model))

    @property
    def unbilled(self) -> tuple[CallUnbilled, ...]:
        """The mark that the provider has told no tokens of a whole reply; nothing if it has."""
        return () if self.usage is not None else (CallUnbilled(self._model),)

    @property
    def bills(self) -> tuple[Usage | CallUnbilled, ...]:
        """The bill of a reply that is not kept."""
        return self._bill(self.reply)

    def words(self) -> tuple[Message, ...]:
        """Return the words of a reply that has failed or was given up, as one that was cut off; nothing if it has none."""
        reply = self._come()
        if reply is None or not _has_words(reply.message):
            return ()
        return (msgspec.structs.replace(reply.message, stop="aborted"),)

    def _billed(self, usage: Usage) -> Usage:
        """Return a provider's count under the name by which the model was asked: they answer with a dated one."""
        return msgspec.structs.replace(usage, model=self._model)

    def _come(self) -> WireReply | None:
        """Return the reply as far as it has come; None if nothing of it has."""
        try:
            return self._stream.reply()
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, FovealError):
            return None

    @property
    def ends_in_call(self) -> bool:
        """Whether the last part of the reply is a call."""
        parts = self.reply.message.parts
        return bool(parts) and isinstance(parts[-1], ToolCall)

    @property
    def is_empty(self) -> bool:
        """Whether a whole reply says nothing and calls nothing."""
        parts = self.reply.message.parts
        return not any(isinstance(part, ToolCall) or (isinstance(part, Text) and part.text.strip()) for part in parts)

    async def ask(self, request: Mapping[str, Any]) -> AsyncGenerator[SpokenDelta | Retried, None]:
        """Send the request and yield the words of the reply. `ModelFailed` when no attempt has succeeded."""
        for attempt in range(1, self._attempts + 2):
            self._stream, is_answered = find_dialect(self._dialect).reader.stream(), False
            self._is_asking, self._whole = True, None
            try:
                async with aclosing(_Events(self._port.complete(request))) as events:
                    async for event in events:
                        is_answered = True
                        self._stream.feed(event)
                        if self._stream.stop == "error":
                            raise StreamFailed(stream_error(event) or event)
                        words = spoken(self._dialect, event)
                        if words.text or words.thinking:
                            yield words
                is_answered = True  # also by a stream without events
                if self._stream.stop == "done":
                    self._whole = self._stream.reply()  # it may be one that nobody understands
                    if self.ending == "filter":
                        said = "a filter of the provider's ended the reply"
                        raise ModelFailed(self._model, "filtered", said, ADVICE["filtered"])
                    if self.ending == "broken":
                        raise ConnectionError("the provider broke the reply off")
                    return
                raise ConnectionError("the stream ended before the reply did")
            except Exception as raised:
                self._is_asking = False
                if is_answered or isinstance(raised, GivenUp) or may_be_billed(raised):
                    self.lost.extend(self._bill(self._come()))
                error = _broken(raised) if is_answered or isinstance(raised, JSONDecodeError) else raised
                if fault_class(error) != "transient" or attempt > self._attempts:
                    raise failed(self._model, error) from error  # the cause says by how much a prompt is too long
                pause = pause_s(attempt, retry_after_s(error, time.time()))
                yield Retried(failed(self._model, error).said, pause, attempt)
                await self._sleep(pause)


class _Events:
    """The events of a reply. What ends a task or an event loop and was not done to this task is a broken connection."""

    def __init__(self, events: AsyncGenerator[Mapping[str, Any], None]) -> None:
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Mapping[str, Any]:
        try:
            return await anext(self._events)
        except (Exception, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise GivenUp(f"the connection was given up: {describe(error)}") from error

    async def aclose(self) -> None:
        """Hang up."""
        await self._events.aclose()


def _has_words(message: Message) -> bool:
    return any(isinstance(part, Text) and part.text for part in message.parts)


def _broken(error: Exception) -> Exception:
    """Return an error that was raised while a reply was read: one of the request would have come before it, so that asking
    again may help."""
    if fault_class(error) != "rejected":
        return error
    broken = ConnectionError(f"the reply cannot be read: {describe(error)}")
    broken.__cause__ = error
    return broken
