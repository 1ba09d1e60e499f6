"""The output of commands: lines, tables and one JSON document; styled by rich on a terminal where it is installed."""

import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

import msgspec

from foveal.text.display import visible, without_passwords

if TYPE_CHECKING:
    from rich.console import Console


Span: TypeAlias = tuple[str, str]
"""A text and the name of its style."""

_STYLES = {
    "raw": "bright_black",
    "sent": "cyan",
    "limit": "yellow",
    "fold": "magenta",
    "refused": "red",
    "axis": "bright_black",
    "strong": "bold",
    "good": "green",
    "bad": "red",
}
_PLAIN_COLUMNS = 80
_LEAST_COLUMNS = 20  # of a last column that is wrapped


def utc_time(seconds: float) -> str:
    """Return a time since 1970 for people: day and minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def utc_second(seconds: float) -> str:
    """Return a time since 1970 for people who look for one of many events: day and second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def complain(text: object) -> None:
    """Write one line to stderr, in the form of all errors of the command. It has no password: an address may have been given in
    the place of anything else, and is repeated then as what it was taken for."""
    tell_aside(without_passwords(str(text)))


def tell_aside(text: str) -> None:
    """Write one line to stderr, in the form of all errors of the command, with nothing left out: what looks like a password may
    be the part of a call on which somebody's answer turns."""
    line = " ".join(visible(text).split("\n"))
    sys.stderr.write(_encodable(f"foveal: {line}\n", sys.stderr))


@contextmanager
def complaints() -> Generator[None]:
    """Write the warnings to users as complaints to stderr, each text once, while the block runs."""
    texts, show = set[str](), warnings.showwarning

    def tell(message: Warning | str, kind: type[Warning], *place: Any) -> None:
        if not issubclass(kind, UserWarning):
            show(message, kind, *place)
        elif str(message) not in texts:
            texts.add(str(message))
            complain(message)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = tell
        yield


def has_rich() -> bool:
    return find_spec("rich") is not None


class Output:
    """The output of a command. All text is made safe to show; only `document` and `raw` are exact."""

    def __init__(self, stream: TextIO, *, is_json: bool = False) -> None:
        self.stream, self.is_json = stream, is_json
        self.is_terminal = stream.isatty()
        self.columns = shutil.get_terminal_size((_PLAIN_COLUMNS, 24)).columns if self.is_terminal else _PLAIN_COLUMNS

    @property
    def is_ascii(self) -> bool:
        """Whether the stream cannot write the characters that pictures are made of."""
        return _encodable("░█┄▲", self.stream) != "░█┄▲"

    @cached_property
    def _console(self) -> "Console | None":
        if not (self.is_terminal and has_rich()):
            return None
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it

        return Console(file=self.stream, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def line(self, text: str = "", style: str = "") -> None:
        self.spans([(text, style)])

    def wrapped(self, text: str, indent: str = "", first: str | None = None) -> None:
        """Print a paragraph, no wider than a terminal."""
        lead = indent if first is None else first
        for line in textwrap.wrap(
            visible(text), min(self.columns, 100), initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False
        ):
            self.line(line)

    def spans(self, spans: Sequence[Span]) -> None:
        if self._console is None:
            self._write("".join(text for text, _ in spans).rstrip() + "\n")
            return
        from rich.text import Text  # noqa: PLC0415

        self._console.print(Text.assemble(*((visible(text), _STYLES.get(style, "")) for text, style in spans)))

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> None:
        """Print aligned columns; `align` has an `l` or an `r` for each. Nothing is cut: a long last column is wrapped."""
        shown = [[visible(cell).replace("\n", " ") for cell in row] for row in (head, *rows)]
        widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
        if self._console is None:
            self._write("".join(_plain_row(row, widths, align) for row in shown if any(row)))
            return
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        if align[-1] == "l":
            widths[-1] = max(_LEAST_COLUMNS, min(widths[-1], self.columns - sum(widths[:-1]) - 2 * len(widths)))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=any(head))
        for title, side, width in zip(head, align, widths, strict=True):
            table.add_column(title, justify="right" if side == "r" else "left", width=width, overflow="fold")
        for row in shown[1:]:
            table.add_row(*(Text(cell) for cell in row))
        self._console.width = max(
            self.columns, sum(widths) + 2 * len(widths)
        )  # rather a wrapped line than a cut number
        self._console.print(table, soft_wrap=False)
        self._console.width = self.columns

    def document(self, value: object) -> None:
        """Print a value as JSON; structs become objects."""
        self.stream.write(json.dumps(msgspec.to_builtins(value)) + "\n")

    def raw(self, text: str) -> None:
        """Print a text, byte for byte to a pipe, made safe to a terminal."""
        if self.is_terminal:
            self._write(text if text.endswith("\n") else text + "\n")
            return
        buffer = getattr(self.stream, "buffer", None)
        if buffer is None:
            self.stream.write(text)
            return
        self.stream.flush()
        buffer.write(text.encode("utf-8", "surrogatepass"))

    def _write(self, text: str) -> None:
        self.stream.write(_encodable(visible(text), self.stream))


def _plain_row(row: Sequence[str], widths: Sequence[int], align: str) -> str:
    cells = (
        cell.rjust(width) if side == "r" else cell.ljust(width)
        for cell, width, side in zip(row, widths, align, strict=True)
    )
    return "  ".join(cells).rstrip() + "\n"


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
