"""Tokens per call as a picture for the terminal: the whole history, the sent prompts, the budget, the folds.

    lines = chart(series_of(replay), columns=80)

Each line is a list of spans (text, style); `Output` turns styles into colours where the terminal has them.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec

from foveal.analysis.replay.report import short
from foveal.analysis.replay.series import Series, shortened
from foveal.cli.output import Span

_LABEL = 6
_EIGHTHS = 8


class _Ink(msgspec.Struct, frozen=True):
    raw: str
    sent: str
    """The characters that fill a cell from an eighth to the whole."""
    limit: str
    fold: str
    refused: str
    corner: str
    side: str
    floor: str


UNICODE = _Ink("░", "▁▂▃▄▅▆▇█", "┄", "▲", "×", "└", "│", "─")
ASCII = _Ink(".", "_____###", "-", "^", "x", "+", "|", "-")


def chart(series: Series, *, columns: int = 80, rows: int = 12, ascii_only: bool = False) -> list[list[Span]]:
    """Return the lines of the picture, at most `columns` wide."""
    ink = ASCII if ascii_only else UNICODE
    room, calls = columns - _LABEL - 2, len(series.raw)
    drawn = shortened(series, room)
    wide = max(1, min(6, room // max(1, len(drawn.raw))))
    top = max((1, *series.raw, *series.sent))
    limit_row = series.limit * rows // top if series.limit <= top else -1
    labels = {rows - 1: short(top), rows // 2: short(top * (rows // 2) // rows), limit_row: short(series.limit)}
    lines: list[list[Span]] = []
    for row in reversed(range(rows)):
        cells = [_cell(drawn, i, (row, rows, top), row == limit_row, ink) for i in range(len(drawn.raw))]
        label = f"{labels.get(row, ''):>{_LABEL}} {ink.side}"
        lines.append([(label, "limit" if row == limit_row else "axis"), *_joined(cells, wide)])
    lines.append([(f"{0:>{_LABEL}} {ink.corner}{ink.floor * wide * len(drawn.raw)}", "axis")])
    lines.append([(" " * (_LABEL + 2), ""), *_joined(list(_marks(drawn, ink)), wide)])
    last = f"call {calls:,}"
    width = max(len(last) + 7, wide * len(drawn.raw))
    lines.append([(" " * (_LABEL + 2) + "call 1" + last.rjust(width - 6), "axis")])
    return [*lines, *_legend(series, ink)]


def _cell(series: Series, at: int, scale: tuple[int, int, int], is_limit: bool, ink: _Ink) -> Span:
    row, rows, top = scale
    sent = max(bool(series.sent[at]), round(series.sent[at] / top * rows * _EIGHTHS)) - row * _EIGHTHS
    if sent >= _EIGHTHS:
        return ink.sent[-1], "sent"
    if sent > 0 and (sent > 1 or not is_limit):
        return ink.sent[sent - 1], "sent"
    if is_limit:
        return ink.limit, "limit"
    return (ink.raw, "raw") if series.raw[at] / top * rows - row >= 0.5 else (" ", "")


def _marks(series: Series, ink: _Ink) -> Iterator[Span]:
    for i in range(len(series.raw)):
        yield (
            (ink.refused, "refused") if i in series.refused else (ink.fold, "fold") if i in series.folds else (" ", "")
        )


def _joined(cells: Sequence[Span], wide: int) -> Iterator[Span]:
    """Yield runs of one style as one span. A mark is drawn once, however wide its call is."""
    stretched = [(text if style in ("fold", "refused") else text * wide, style) for text, style in cells]
    padded = [(text.ljust(wide), style) for text, style in stretched]
    for style, run in groupby(padded, key=lambda span: span[1]):
        yield "".join(text for text, _ in run), style


def _legend(series: Series, ink: _Ink) -> list[list[Span]]:
    keys: list[Span] = [
        (f"{ink.raw * 2} whole history", "raw"),
        (f"{ink.sent[-1] * 2} sent by Foveal", "sent"),
        (f"{ink.limit * 2} budget {series.limit:,}", "limit"),
    ]
    if series.folds:
        keys.append((f"{ink.fold} fold", "fold"))
    if series.refused:
        keys.append((f"{ink.refused} refused", "refused"))
    spans: list[Span] = [(" " * (_LABEL + 2), "")]
    for key in keys:
        spans.extend((key, ("   ", "")))
    return [spans[:-1]]
