"""A shell command cut into pipelines of words, without running or expanding anything.

Not `shlex`: it forgets which words were quoted, so that `grep '>' notes.txt` would look like a write to notes.txt.
Constructs that only a shell could resolve (subshells, substitutions, background jobs, a quote that never ends) make the
whole command unclear.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

MOST_CHARS = 50_000
"""Longer commands carry programs or data; parsing them is not worth the time."""

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\r]|\\\r?\n)++)
  | (?P<comment>\#[^\n]*+)
  | (?P<end>&&|\|\||;|\n)
  | (?P<heredoc><<-?(?![<]))
  | (?P<into>(?:\d|&)?(?:>>|>\||>&|>))
  | (?P<from><(?![<(]))
  | (?P<pipe>\|&?)
  | (?P<word>(?:'[^']*+'|"(?:[^"\\]|\\.)*+"|\\.|[^\s'"\\|&;<>()`])++)
    """,
    re.VERBOSE | re.DOTALL,
)
_PIECE = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|\\(?P<escaped>.)|(?P<bare>[^'"\\]+)""", re.DOTALL
)
_EXPANDED = re.compile(r"[$`*?\[{]")
_IN_QUOTES = re.compile(r"[$`]")
_HARMLESS = frozenset(("true", ":", "echo", "exit", "printf"))
"""Programs behind `||` for which it does not matter whether they were run."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_ESCAPE = re.compile(r"\\([$`\"\\\n])")


class Word(NamedTuple):
    text: str
    plain: bool = True
    """Whether the shell would leave the word unchanged: it has no variable and no pattern."""


class ShellCommand(NamedTuple):
    """One command of a pipeline: its words, its input and its output."""

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


def pipelines(text: str) -> tuple[Pipeline, ...] | None:
    """Return the pipelines of a command in order; None if some of it is unclear."""
    if len(text) > MOST_CHARS:
        return None
    try:
        return tuple(_Reader(text).pipelines())
    except ValueError:
        return None


class _Reader:
    """Reader of the tokens of a command. It skips here-documents and raises `ValueError` where the command is unclear."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self._ends_of_documents: list[str] = []

    def pipelines(self) -> Iterator[Pipeline]:
        commands: list[ShellCommand] = []
        words, into, is_silent, is_fed = list[Word](), list[Word](), False, False
        is_else = False
        while (token := self._token()) is not None:
            kind, text = token
            match kind:
                case "word":
                    words.append(unquote(text))
                case "into":
                    target = self._operand()
                    if not (text.endswith("&") and target.text in ("1", "2", "-")):
                        into.append(target)
                        is_silent |= text[0] in "1&>"
                case "from" | "heredoc":
                    is_fed = True
                    operand = self._operand()
                    self._ends_of_documents += [operand.text] * (kind == "heredoc")
                case _:
                    if words or into:
                        commands.append(ShellCommand(tuple(words), tuple(into), is_silent, is_fed))
                    words, into, is_silent, is_fed = [], [], False, False
                    if is_else and commands and commands[0].program not in _HARMLESS:
                        raise ValueError("which of two commands was run")
                    if kind == "end":
                        is_else = text == "||"
                        yield from [tuple(commands)] * bool(commands)
                        commands = []
                        self._skip_documents(text)
        if self._ends_of_documents:
            raise ValueError("a here-document has no text")

    def _token(self) -> tuple[str, str] | None:
        """Return the next token; the end of the text counts as the end of a line, once."""
        while self.at < len(self.text):
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                raise ValueError("unclear")
            self.at = found.end()
            if found.lastgroup and found.lastgroup not in ("space", "comment"):
                return found.lastgroup, found[0]
        if self.at == len(self.text):
            self.at += 1
            return "end", ";"
        return None

    def _operand(self) -> Word:
        token = self._token()
        if token is None or token[0] != "word":
            raise ValueError("a redirection without a target")
        return unquote(token[1])

    def _skip_documents(self, end: str) -> None:
        if end != "\n":
            return
        for delimiter in self._ends_of_documents:
            line = None
            while line is None or line.strip() != delimiter:
                if self.at >= len(self.text):
                    raise ValueError("a here-document does not end")
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line, self.at = self.text[self.at : stop], stop + 1
        if self._ends_of_documents:
            self.at = min(self.at, len(self.text))
        self._ends_of_documents = []


def unquote(word: str) -> Word:
    """Return the word without its quotes."""
    texts, plain = list[str](), True
    for piece in _PIECE.finditer(word):
        single, double, escaped, bare = piece.group("single", "double", "escaped", "bare")
        if double is not None:
            plain = plain and not _IN_QUOTES.search(_ESCAPE.sub("", double))
            texts.append(_ESCAPE.sub(r"\1", double))
        else:
            plain = plain and not (bare and _EXPANDED.search(bare))
            texts.append(single if single is not None else escaped or bare or "")
    return Word("".join(texts), plain)
