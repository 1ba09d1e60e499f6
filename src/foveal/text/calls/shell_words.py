"""A shell command cut into pipelines of words, without running or expanding anything.

Not `shlex`: it forgets which words were quoted, so that `grep '>' notes.txt` would look like a write to notes.txt.
Constructs that only a shell could resolve (subshells, substitutions, background jobs, a quote that never ends) make the
whole command unclear.
"""

import re
from collections.abc import Iterator

from foveal.text.calls.shell_command import Pipeline, ShellCommand, Word

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
_ESCAPE = re.compile(r"\\([$`\"\\\n])")


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
