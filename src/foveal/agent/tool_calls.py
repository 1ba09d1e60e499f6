"""One call of a tool, from its arguments to the result that the log keeps. Every way of failing is a result with a status."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, NamedTuple, cast

import msgspec

from foveal.agent.tools import AskUser, BadArguments, Tool, ToolContext, ToolOutput, in_thread, plain_text
from foveal.stores import rows as log
from foveal.values.entry import File, Image, Message, Status, Stored, Text, ToolCall, ToolResult, result
from foveal.values.errors import FovealError
from foveal.writers.faults import describe

INTERRUPTED = (
    "[interrupted: the run stopped, or its program ended, while this call was running. It may have had its effect; "
    "it was not run again. Look before you repeat it.]"
)
CANCELLED = "[cancelled: the run was ended before this call had a result]"
STOPPED = (
    "[cancelled: the run was ended while this call was running. It may have had its effect. Look before you repeat it.]"
)
SKIPPED = "[not run: the user said something first]"
OVERRULED = "[not run: the user answered, and then said something that comes first]"
GIVEN_UP = (
    "[interrupted: this call had begun, and was given up while it waited for an answer. It may have had an effect. Look before "
    "you repeat it.]"
)
CUT_OFF = (
    "[not run: your reply reached its limit of tokens before this call was whole. Make it again, in smaller pieces.]"
)
NO_STEPS = "[not run: no steps are left. Answer with the results that you have.]"


_Part = Text | Image | File | Stored

_SPOOL_BYTES = 1 << 20
"""Bytes of an asynchronous generator's pieces that are held in memory: as many as a store is handed at a time."""

MOST_LEFT = 64
"""Calls that went on after their run was stopped and whose results are kept for its resumption: those of a few runs, since a
result may be large."""

_left_behind: set["asyncio.Task[CallResult]"] = set()
"""Work of tools that went on after they were given up. The event loop holds its tasks by weak references only."""

_stopped: dict[str, "asyncio.Task[CallResult]"] = {}
"""The work of calls that went on after their run was stopped, by their keys, the newest last."""


class CallResult(NamedTuple):
    """The result of a call, and the tool's value for the program."""

    message: Message
    data: Any = None
    is_malformed: bool = False
    """Whether the tool could not take the arguments."""


class StoppedCall(asyncio.CancelledError):
    """Cancels the caller of a call whose tool has ended all the same: its result, or its question, is not lost."""

    def __init__(self, outcome: CallResult | AskUser) -> None:
        super().__init__()
        self.outcome = outcome


class _LeftBehind(Exception):
    """A plain generator was stopped between two pieces, as an asynchronous one is where it waits."""


async def run_call(tool: Tool, call: ToolCall, ctx: ToolContext, *, is_at_work: bool = False) -> CallResult:
    """Run a call and return its result. `AskUser` passes through, and the errors that the tool raises.

    One that `is_at_work` already is only waited for, whatever comes of it: it must have its effect once.

    The tool has a task of its own: one that swallows its cancellation is left behind, as a thread is. If the caller is cancelled,
    `StoppedCall` has the outcome of a tool that ends within its time of grace; one that goes on longer is not called again, but
    waited for, if its call is run again in this event loop.
    """
    left = _left_at_work(ctx)
    if left is None and is_at_work:
        return _interrupted(call)
    work = left or asyncio.create_task(_ended(tool, call, ctx))
    try:
        await asyncio.wait((work,), timeout=tool.timeout_s)
        if left is not None and left.cancelled():  # by that stop, and nothing has come of it
            if is_at_work:
                return _interrupted(call)
            work = asyncio.create_task(_ended(tool, call, ctx))
            await asyncio.wait((work,), timeout=tool.timeout_s)
        if work.cancelled():  # by its tool: whoever stops the run cancels this task
            return CallResult(result(call.id, f"[{tool.name} has cancelled itself]", status="error"))
        if work.done():
            return work.result()
        await _give_up(work, ctx, tool.grace_s)
        if (late := _outcome(work)) is not None and _is_ok(late):
            return work.result()
        return CallResult(result(call.id, f"[{tool.name} was given up after {tool.timeout_s:g} s]", status="error"))
    except asyncio.CancelledError:
        try:
            await _give_up(work, ctx, tool.grace_s)
        finally:
            _keep_stopped(work, ctx)
        if (outcome := _outcome(work)) is not None:
            raise StoppedCall(outcome) from None
        raise
    finally:
        ctx.give_up()


async def _ended(tool: Tool, call: ToolCall, ctx: ToolContext) -> CallResult:
    """Return the result of a call, whatever its tool does: an exception that would end the event loop is an answer to the model
    too. Somebody's Ctrl-C is not the tool's doing."""
    try:
        arguments = tool.check(call.arguments)
        ctx.has_begun = True
        output = await tool.invoke(arguments, ctx)
        if inspect.isawaitable(output):  # a plain function around an asynchronous one
            output = await output
        if inspect.isgenerator(output):
            output = await _kept(cast("Iterable[object]", output), ctx)
        elif inspect.isasyncgen(output):
            output = await _spooled(cast("AsyncGenerator[object]", output), ctx)
        return _result(call.id, output)
    except (AskUser, KeyboardInterrupt, *tool.raises):
        raise
    except _LeftBehind:
        raise asyncio.CancelledError from None
    except (BadArguments, FovealError) as error:
        told = result(call.id, str(error), status="error")
        return CallResult(told, is_malformed=isinstance(error, BadArguments))
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and (task := asyncio.current_task()) and task.cancelling():
            raise
        return CallResult(result(call.id, describe(error), status="error"))


async def _kept(pieces: Iterable[object], ctx: ToolContext) -> Stored:
    """Keep the pieces of a generator as an artifact, one at a time, in a thread."""
    return await in_thread(lambda: ctx.keep(_bytes(_unless_left(pieces, ctx))), is_waited_for=True)


async def _spooled(pieces: AsyncGenerator[object], ctx: ToolContext) -> Stored:
    """Keep the pieces of an asynchronous generator as an artifact. It belongs to this task, and a store is written in a thread:
    in between they are in memory, or in a file without a name if they are many."""
    with SpooledTemporaryFile[bytes](_SPOOL_BYTES) as spool:
        async with aclosing(pieces):
            async for piece in pieces:
                spool.writelines(_bytes((piece,)))
        spool.seek(0)
        return await _kept(iter(partial(spool.read, _SPOOL_BYTES), b""), ctx)


async def _give_up(work: "asyncio.Task[CallResult]", ctx: ToolContext, grace_s: float | None) -> None:
    """Tell a tool that nobody waits for it any more, and wait for its end for so long; then it is left behind."""
    ctx.give_up()
    if not work.cancelling():  # once: a second time would leave the thread, and its result, behind
        work.cancel()
    try:
        await asyncio.wait((work,), timeout=grace_s)
    finally:
        if not work.done():
            ctx.is_left = True
            _left_behind.add(work)
            work.add_done_callback(_forget)


def _keep_stopped(work: "asyncio.Task[CallResult]", ctx: ToolContext) -> None:
    """Keep the work of a tool that goes on although its run was stopped."""
    if ctx.has_begun and not work.done():
        _stopped[ctx.key] = work
        for key in list(_stopped)[:-MOST_LEFT]:
            del _stopped[key]


def _left_at_work(ctx: ToolContext) -> "asyncio.Task[CallResult] | None":
    """Return the work of a call that went on after its run was stopped, if it can be waited for here."""
    work = _stopped.pop(ctx.key, None)
    if work is None or work.cancelled() or work.get_loop() is not asyncio.get_running_loop():
        return None
    ctx.has_begun = True
    return work


def calls_at_work() -> frozenset[str]:
    """Return the keys of calls that went on after their run was stopped, and that can be waited for on this event loop."""
    here = asyncio.get_running_loop()
    return frozenset(key for key, work in list(_stopped.items()) if not work.cancelled() and work.get_loop() is here)


def _interrupted(call: ToolCall) -> CallResult:
    return CallResult(refused(call.id, INTERRUPTED, "interrupted"))


def _forget(work: "asyncio.Task[CallResult]") -> None:
    _left_behind.discard(work)
    _outcome(work)  # an exception that nobody has asked for would be told in the program's log


def _outcome(work: "asyncio.Task[CallResult]") -> CallResult | AskUser | None:
    """Return the result of a tool, or its question; None for one that is still at work, was cancelled or failed."""
    if not work.done() or work.cancelled():
        return None
    error = work.exception()
    if error is None:
        return work.result()
    return error if isinstance(error, AskUser) else None


def _is_ok(outcome: CallResult | AskUser) -> bool:
    if isinstance(outcome, AskUser):
        return True
    return all(part.status == "ok" for part in outcome.message.parts if isinstance(part, ToolResult))


def refused(call: str, text: str, status: Status = "error") -> Message:
    """Return the result of a call that was not run."""
    return result(call, text, status=status)


def _result(call: str, output: object) -> CallResult:
    if isinstance(output, ToolOutput):
        content = (output.content,) if isinstance(output.content, str) else output.content
        summary = plain_text(output.summary)
        told = result(call, *map(plain_text, content), status=output.status, retention=output.retain, summary=summary)
        return _checked(CallResult(told, output.data))
    if isinstance(output, str):
        return CallResult(result(call, plain_text(output)))
    if isinstance(output, _Part):
        return _checked(CallResult(result(call, output)))
    if (parts := _parts_in(output)) is not None:
        return _checked(CallResult(result(call, *parts)))
    if output is None:
        return CallResult(result(call, "[done]"))
    try:
        return CallResult(result(call, msgspec.json.encode(output).decode()), output)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return CallResult(result(call, str(output)), output)


def _parts_in(output: object) -> Sequence[str | Text | Image | File | Stored] | None:
    """Return the content of a result that a tool gives as a list of parts, with texts among them; None for any other value."""
    listed = cast("Sequence[object]", output) if isinstance(output, list | tuple) else ()
    if not any(isinstance(one, _Part) for one in listed) or not all(isinstance(one, str | _Part) for one in listed):
        return None
    return cast("Sequence[str | Text | Image | File | Stored]", [plain_text(one) for one in listed])


def _checked(ended: CallResult) -> CallResult:
    """Return the result of a call if the log can hold it; `BadEntry` otherwise, while it concerns this call alone."""
    log.checked_message(ended.message)
    return ended


def _unless_left(pieces: Iterable[object], ctx: ToolContext) -> Iterator[object]:
    """Yield the pieces of a generator until it is left behind: one without an end would fill the store for ever."""
    for piece in pieces:
        if ctx.is_left:
            if isinstance(pieces, Generator):
                pieces.close()
            raise _LeftBehind
        yield piece


def _bytes(pieces: Iterable[object]) -> Iterator[bytes]:
    """Yield the pieces that a generator gives as bytes."""
    for piece in pieces:
        yield piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "surrogatepass")
