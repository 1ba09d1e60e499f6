"""Tokens per call as pictures for a page.

Above, the whole history against what was sent; below, what was sent on a scale of its own, and how much of it the cache had.
"""

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from foveal.analysis.replay.chart import series_of, squeezed
from foveal.analysis.replay.replay import Replay, ReplayedCall
from foveal.analysis.replay.report import short
from foveal.text.display import visible

MOST_STEPS = 600
"""More steps than a page has pixels to tell them apart."""

_WIDTH, _LEFT, _HIGH, _LOW = 1000, 52, 210, 110
_MARKS, _CAPTION = 18, 20
_ROUND = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10)


class _Plot(msgspec.Struct, frozen=True):
    """Where a plot lies, and how many tokens are as high as it is."""

    y: int
    height: int
    top: int

    def at(self, tokens: int) -> float:
        return round(self.y + self.height * (1 - tokens / self.top), 1)

    @property
    def floor(self) -> int:
        return self.y + self.height


def svg(replay: Replay) -> str:
    """Both charts, drawn with the colours of the page."""
    series = squeezed(series_of(replay), MOST_STEPS)
    cached = squeezed(
        msgspec.structs.replace(
            series_of(replay), sent=tuple(call.sent.cached if call.sent else 0 for call in replay.calls)
        ),
        MOST_STEPS,
    ).sent
    above = _Plot(_CAPTION, _HIGH, _ceiling(max((1, *series.raw, *series.sent))))
    below = _Plot(above.floor + _MARKS + _CAPTION, _LOW, _ceiling(max((1, *series.sent))))
    name = escape(visible(replay.session))
    parts = (
        f'<svg viewBox="0 0 {_LEFT + _WIDTH + 8} {below.floor + 20}" role="img" aria-label="Tokens per call, {name}">',
        *_plot(above, "tokens per call", 4),
        f'<path class="raw" d="{_area(above, series.raw)}"/><path class="sent" d="{_area(above, series.sent)}"/>',
        *_budget(above, series.limit),
        *_marks(above, replay.calls),
        *_plot(below, "tokens sent per call, enlarged", 2),
        f'<path class="fresh" d="{_area(below, series.sent)}"/><path class="sent" d="{_area(below, cached)}"/>',
        *_budget(below, series.limit),
        f'<text class="tick" x="{_LEFT}" y="{below.floor + 15}">call 1</text>',
        f'<text class="tick end" x="{_LEFT + _WIDTH}" y="{below.floor + 15}">call {len(replay.calls):,}</text>',
        "</svg>",
    )
    return "\n".join(parts)


def _ceiling(most: int) -> int:
    """A round number at or above."""
    unit = 10 ** (len(str(most)) - 1)
    return max(4, next(int(step * unit) for step in _ROUND if step * unit >= most))


def _area(plot: _Plot, values: Sequence[int]) -> str:
    """A step for every call."""
    wide = _WIDTH / max(1, len(values))
    steps = (f"V{plot.at(value)}H{_LEFT + (i + 1) * wide:.1f}" for i, value in enumerate(values))
    return f"M{_LEFT},{plot.floor}{''.join(steps)}V{plot.floor}Z"


def _plot(plot: _Plot, caption: str, ticks: int) -> Iterator[str]:
    yield f'<text class="tick" x="{_LEFT}" y="{plot.y - 7}">{caption}</text>'
    for i in range(ticks + 1):
        tokens = plot.top * i // ticks
        y = plot.at(tokens)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}"/>'
        yield f'<text class="tick end" x="{_LEFT - 8}" y="{y + 4}">{short(tokens)}</text>'


def _budget(plot: _Plot, limit: int) -> Iterator[str]:
    if limit > plot.top:
        yield f'<text class="limit end" x="{_LEFT + _WIDTH}" y="{plot.y - 7}">budget {limit:,}, above this chart</text>'
        return
    y = plot.at(limit)
    yield f'<line class="limit" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}"/>'
    yield f'<text class="limit end" x="{_LEFT + _WIDTH}" y="{y - 5}">budget {limit:,}</text>'


def _marks(plot: _Plot, calls: Sequence[ReplayedCall]) -> Iterator[str]:
    wide, y = _WIDTH / max(1, len(calls)), plot.floor
    for i, call in enumerate(calls):
        x = round(_LEFT + (i + 0.5) * wide, 1)
        if call.sent is None:
            said = escape(visible(f"Call {call.number} was refused. {call.refused}"))
            yield f'<path class="refused" d="M{x - 4},{y + 4}l8,8m0,-8l-8,8"><title>{said}</title></path>'
        elif fold := call.fold:
            said = f"Call {call.number}: {fold.items} folds, {fold.before:,} tokens of messages became {fold.after:,}"
            yield f'<path class="fold" d="M{x},{y + 3}l4.5,8h-9Z"><title>{said}</title></path>'
