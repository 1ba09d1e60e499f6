"""One command of a shell pipeline: its words, its input and its output."""

import re
from typing import NamedTuple, TypeAlias

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Word(NamedTuple):
    text: str
    plain: bool = True
    """Whether the shell would leave the word unchanged: it has no variable and no pattern."""


class ShellCommand(NamedTuple):
    words: tuple[Word, ...]
    into: tuple[Word, ...] = ()
    """Files that receive its output or its errors."""
    is_silent: bool = False
    """Whether its output is written to a file."""
    is_fed: bool = False
    """Whether its input is a file or a text inside the command."""

    @property
    def program(self) -> str:
        """The name of the program; empty if only a shell could tell."""
        named = self._from_program()
        return named[0].text.rpartition("/")[2] if named and named[0].plain else ""

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self._from_program()[1:]

    @property
    def options(self) -> list[str]:
        return [word.text for word in self.arguments if word.text.startswith("-")]

    def operands(self, *with_value: str) -> list[Word]:
        """Return the arguments that are no options. The options in `with_value` take the next word as their value."""
        kept: list[Word] = []
        is_value = only_operands = False
        for word in self.arguments:
            if is_value:
                is_value = False
            elif word.text == "--" and not only_operands:
                only_operands = True
            elif only_operands or not word.text.startswith("-") or word.text == "-":
                kept.append(word)
            else:
                is_value = word.text in with_value
        return kept

    def _from_program(self) -> tuple[Word, ...]:
        at = next((i for i, word in enumerate(self.words) if not _ASSIGNMENT.match(word.text)), len(self.words))
        return self.words[at:]


Pipeline: TypeAlias = tuple[ShellCommand, ...]
