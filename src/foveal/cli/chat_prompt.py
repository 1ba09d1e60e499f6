"""A chat on a terminal: an input line that stays while words come, Markdown, completion, and a line with tokens and cost.

It needs the extra `chat`. A reply is shown word by word above the input line and, block by block, as Markdown.
"""

import sys
from collections.abc import Iterable

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from foveal.cli.chat_blocks import MarkdownBlocks
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_names import completions, typed_name
from foveal.cli.chat_session import ChatSession
from foveal.cli.output import Output
from foveal.text.display import visible

_LIVE_ROWS = 8
"""Rows of an unfinished block that are shown: the rest of the screen is for the conversation."""
_MENU_ROWS = 6
"""Rows that are kept free below the input line, for names to choose from; fewer on a screen of less than 14 rows."""
_FOOT_ROWS = 2
"""Rows of the input line, and of the line with tokens and cost."""
_SIGN = FormattedText([("bold", "› ")])
"""The sign of the input line."""
_WRAPPED_CHARS = 10_000
"""Characters of a line that are wrapped again whenever words come: about twice as many as fill a terminal."""
_KEY_PAUSE_S = 0.05
"""Seconds after which Esc is a key of its own, and not the beginning of another one."""


class NameCompleter(Completer):
    """Completes commands, mentions and files."""

    def __init__(self, chat: ChatSession, commands: ChatCommands) -> None:
        self._chat, self._commands = chat, commands

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the names that the one at the cursor can become."""
        typed = typed_name(document.text_before_cursor)
        if typed:
            for name in completions(typed, self._chat.agent, self._chat.folder, self._commands.table):
                yield Completion(name, start_position=-len(typed))


class PromptTerminal:
    """A terminal with an input line at its foot. Esc or Ctrl-C interrupts, Ctrl-D leaves."""

    def __init__(self) -> None:
        self._blocks = MarkdownBlocks()
        self._status = ""
        self._session: PromptSession[str] | None = None

    @property
    def out(self) -> Output:
        """The output above the input line, as wide as the terminal is now."""
        return Output(sys.stdout)

    def words(self, text: str) -> None:
        """Show words of a reply; a block that is whole becomes Markdown."""
        for block in self._blocks.feed(text):
            self._print(block)
        self._redraw()

    def end_words(self, *, is_void: bool = False) -> None:
        """Show the last block of a reply as Markdown; nothing of one that is asked for again."""
        if (rest := self._blocks.rest()) and not is_void:
            self._print(rest)
        self._redraw()

    def refresh(self, status: str, *, is_settled: bool) -> None:
        """Show the line with tokens, pressure and cost."""
        self._status = status
        self._redraw()

    def suggest(self, text: str) -> None:
        """Offer a text that was taken back: it is the newest one that was typed."""
        if self._session is not None:
            self._session.history.append_string(text)
            self.out.line("the Up key brings the words back", "axis")

    async def talk(self, chat: ChatSession, commands: ChatCommands) -> None:
        """Read lines until somebody leaves."""
        self._session = PromptSession(
            self._above_input,
            completer=NameCompleter(chat, commands),
            complete_while_typing=True,
            complete_in_thread=True,
            bottom_toolbar=lambda: self._status,
            key_bindings=_keys(chat),
            erase_when_done=False,
        )
        self._session.app.ttimeoutlen = _KEY_PAUSE_S
        chat.greet()  # before the input line is drawn, which would leave its sign above these words
        with patch_stdout(raw=True):
            while not commands.is_over:
                try:
                    line = await self._session.prompt_async()
                except EOFError:
                    return
                await commands.hear(line)

    def _above_input(self) -> FormattedText:
        """Return the last rows of the unfinished block of a reply, and the sign of the input line. A line that was typed
        stays on the screen without those rows: they are drawn above the next input line, and would be there twice."""
        app = get_app()
        if app.is_done:
            return _SIGN
        size = app.output.get_size()
        menu = min(_MENU_ROWS, max(0, size.rows - _FOOT_ROWS) // 2)
        if self._session is not None:
            self._session.reserve_space_for_menu = menu
        most = max(1, min(_LIVE_ROWS, size.rows - _FOOT_ROWS - menu))
        rows = last_rows(visible(self._blocks.unfinished), size.columns, most)
        return FormattedText([("", "".join(f"{row}\n" for row in rows)), *_SIGN])

    def _print(self, block: str) -> None:
        Console(file=sys.stdout, force_terminal=True, width=self.out.columns).print(Markdown(visible(block)), end="\n")

    def _redraw(self) -> None:
        if self._session is not None:
            self._session.app.invalidate()


def last_rows(text: str, columns: int, most: int) -> list[str]:
    """Return the last rows that a text takes on a screen of so many columns, wrapped at words; at most so many rows."""
    console, rows = Console(width=columns), list[str]()
    for line in text.splitlines()[-most:]:
        # A very long line is cut at the same place for a while, so that its rows do not change with each word.
        cut = max(0, len(line) // _WRAPPED_CHARS - 1) * _WRAPPED_CHARS
        wrapped = Text(line[cut:].rstrip()).wrap(console, columns, overflow="fold", tab_size=4)
        rows += [row.plain.rstrip() for row in wrapped] or [""]
    return rows[-most:]


def _keys(chat: ChatSession) -> KeyBindings:
    keys = KeyBindings()

    async def interrupt(event: KeyPressEvent) -> None:
        if not await chat.interrupt():
            event.current_buffer.reset()

    keys.add("escape", eager=True)(interrupt)
    keys.add("c-c", eager=True)(interrupt)
    return keys
