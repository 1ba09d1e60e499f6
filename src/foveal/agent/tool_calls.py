"""One call of a tool, from its arguments to the result that the log keeps. Every way of failing is a result with a status."""

import asyncio
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import msgspec

from foveal.agent.tools import AskUser, BadArguments, Tool, ToolContext, ToolOutput, in_thread
from foveal.stores import rows as log
from foveal.values.entry import File, Image, Message, Status, Stored, Text, ToolCall, result
from foveal.values.errors import FovealError
from foveal.writers.faults import describe

INTERRUPTED = (
    "[interrupted: the program ended while this call was running. It may have had its effect; it was not run again. "
    "Look before you repeat it.]"
)
CANCELLED = "[cancelled: the run was ended before this call had a result]"
SKIPPED = "[not run: the user said something first]"
NO_STEPS = "[not run: no steps are left. Answer with the results that you have.]"


class CallResult(NamedTuple):
    """The result of a call, and the tool's value for the program."""

    message: Message
    data: Any = None


async def run_call(tool: Tool, call: ToolCall, ctx: ToolContext) -> CallResult:
    """Run a call and return its result. `AskUser` passes through, the errors that the tool raises, and the run's cancellation."""
    try:
        given = tool.check(call.arguments)
        async with asyncio.timeout(tool.timeout_s):
            output = await tool.invoke(given, ctx)
            if inspect.isgenerator(output):
                output = await in_thread(lambda: ctx.keep(_bytes(cast("Iterable[object]", output))))
            return _result(call.id, output)
    except (AskUser, *tool.raises):
        raise
    except (BadArguments, FovealError) as error:
        return CallResult(result(call.id, str(error), status="error"))
    except TimeoutError as error:
        limit = f"{tool.name} was given up after {tool.timeout_s:g} s" if tool.timeout_s else describe(error)
        said = limit if not str(error) else f"{limit}: {describe(error)}"
        return CallResult(result(call.id, f"[{said}]", status="error"))
    except Exception as error:  # noqa: BLE001, RUF100 - whatever a tool raises is an answer to the model
        return CallResult(result(call.id, describe(error), status="error"))


def refused(call: str, text: str, status: Status = "error") -> Message:
    """Return the result of a call that was not run."""
    return result(call, text, status=status)


def _result(call: str, output: object) -> CallResult:
    if isinstance(output, ToolOutput):
        content = (output.content,) if isinstance(output.content, str) else output.content
        told = result(call, *content, status=output.status, retention=output.retain, summary=output.summary)
        return _checked(CallResult(told, output.data))
    if isinstance(output, str):
        return CallResult(result(call, output))
    if isinstance(output, Text | Image | File | Stored):
        return _checked(CallResult(result(call, output)))
    if output is None:
        return CallResult(result(call, "[done]"))
    try:
        return CallResult(result(call, msgspec.json.encode(output).decode()), output)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return CallResult(result(call, str(output)), output)


def _checked(ended: CallResult) -> CallResult:
    """Return the result of a call if the log can hold it; `BadEntry` otherwise, while it concerns this call alone."""
    log.checked_message(ended.message)
    return ended


def _bytes(pieces: Iterable[object]) -> Iterator[bytes]:
    """Yield the pieces that a generator gives as bytes."""
    for piece in pieces:
        yield piece if isinstance(piece, bytes) else str(piece).encode("utf-8", "surrogatepass")
