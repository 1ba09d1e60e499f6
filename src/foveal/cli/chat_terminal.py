"""A chat in plain lines: for pipes, and for terminals without the extra `chat`."""

import asyncio
import os
import signal
import sys
from collections import deque
from contextlib import suppress

from foveal.agent.tools import in_thread
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_session import ChatSession
from foveal.cli.output import Output
from foveal.text.display import visible

_CHUNK_BYTES = 1 << 16


class PlainTerminal:
    """Reads lines from standard input, and prints words as they come. Ctrl-C interrupts; at rest, it leaves.

    Lines of a pipe are said one after the other, each after the answer to the one before.
    """

    def __init__(self, out: Output) -> None:
        self._stream = out.stream
        self._is_line_open = self._is_settled = False
        self._lines: deque[str] = deque()
        self._rest = b""

    @property
    def out(self) -> Output:
        """The output, as wide as the terminal is now."""
        return Output(self._stream)

    def words(self, text: str) -> None:
        """Print words of a reply."""
        self._stream.write(visible(text))
        self._stream.flush()
        self._is_line_open = not text.endswith("\n")

    def end_words(self, *, is_void: bool = False) -> None:
        """End the line of a reply."""
        if self._is_line_open:
            self.out.line()
            self._is_line_open = False

    def refresh(self, status: str, *, is_settled: bool) -> None:
        """Print the line with tokens and cost when the agent has come to an end."""
        if is_settled:
            self.out.line(f"[{status}]", "axis")
            self._stream.write("› " if sys.stdin.isatty() else "")
        self._stream.flush()

    def suggest(self, text: str) -> None:
        """Print a text that was taken back, to be typed again."""
        self.out.line(f"it was: {text}", "axis")

    async def talk(self, chat: ChatSession, commands: ChatCommands) -> None:
        """Hand on lines until the input ends."""
        task = asyncio.ensure_future(self._talk(chat, commands))

        def interrupt() -> None:
            if chat.is_busy or chat.questions:
                asyncio.ensure_future(chat.interrupt())  # noqa: RUF006 - the chat waits for its end
            else:
                task.cancel()

        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # of Windows
            loop.add_signal_handler(signal.SIGINT, interrupt)
        with suppress(asyncio.CancelledError):
            await task

    async def _talk(self, chat: ChatSession, commands: ChatCommands) -> None:
        chat.greet()
        while not commands.is_over and (line := await self._line()) is not None:
            await commands.hear(line)
            if not sys.stdin.isatty():
                await chat.settled()
        if not commands.is_over:
            await chat.settled()

    async def _line(self) -> str | None:
        """Return the next line; None at the end. Read without a lock: a chat that is left must not wait for its input."""
        while not self._lines:
            chunk = await in_thread(lambda: os.read(sys.stdin.fileno(), _CHUNK_BYTES))
            if not chunk:
                last, self._rest = self._rest, b""
                return last.decode("utf-8", "replace") if last else None
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            self._lines += [one.decode("utf-8", "replace") for one in whole]
        return self._lines.popleft()
