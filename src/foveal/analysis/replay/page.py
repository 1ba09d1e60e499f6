"""Replays as one HTML page that needs nothing else: no scripts, no fonts, nothing loaded from anywhere."""

from collections.abc import Iterator, Sequence
from html import escape

from foveal.analysis import chart
from foveal.analysis.replay.demo import saving_texts
from foveal.analysis.replay.replay import Replay, ReplayedCall
from foveal.analysis.replay.report import (
    HEAD,
    Totals,
    cells,
    counted,
    gain,
    gain_on_recorded,
    gain_usd,
    note_lines,
    percent,
    short,
    totals,
    usd,
)
from foveal.analysis.replay.series import series_of, shortened
from foveal.text.display import visible

MOST_CHARTS = 200
"""About 5 KB each: the page stays one that a browser opens at once."""

_STYLE = """
:root{--paper:#fbfbfa;--card:#fff}@media(prefers-color-scheme:dark){:root{--paper:#10161c;--card:#182028}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1160px;margin:0 auto;padding:32px 20px 64px}h1{font-size:26px;margin:0 0 4px}
h2{font-size:17px;margin:0;overflow-wrap:anywhere}p{margin:6px 0}.soft{color:var(--soft)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:22px 0}
.tile,section{background:var(--card);border:1px solid var(--line);border-radius:10px}.tile{padding:12px 14px}
.tile b{display:block;font-size:24px;line-height:1.25;font-variant-numeric:tabular-nums}
.tile span{color:var(--soft);font-size:13px}
section{padding:18px 20px;margin:18px 0}.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px}
th,td{padding:5px 9px;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}th:first-child,td:first-child{text-align:left;padding-left:0;max-width:230px;overflow:hidden;
text-overflow:ellipsis}th:nth-child(2),td:nth-child(2){text-align:left}
tr.total td{font-weight:700;border-bottom:0}svg{width:100%;height:auto;display:block;margin:10px 0 4px}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft)}.key i{display:inline-block;width:12px;height:12px;
border-radius:2px;margin-right:6px;vertical-align:-1px}ol{padding-left:20px;margin:10px 0}li{margin:8px 0;overflow-wrap:anywhere}
.error{color:var(--bad);overflow-wrap:anywhere}
@media(max-width:640px){main{padding:16px 10px 40px}section{padding:12px;overflow-x:auto}.tiles{grid-template-columns:1fr 1fr}
thead{display:none}table,tbody,tr,td{display:block}tr{border-bottom:2px solid var(--line);padding:6px 0}
td,td:first-child{max-width:none;white-space:normal;overflow-wrap:anywhere;padding:2px 0;border:0;text-align:right}
td:first-child{font-weight:700;text-align:left}td:nth-child(2){text-align:right}
td[data-name]::before{content:attr(data-name);float:left;color:var(--soft);padding-right:12px}svg{min-width:520px}}
"""
MOST_STEPS = 600
"""More steps than a page has pixels to tell them apart."""
_WIDTH, _LEFT, _HIGH, _LOW = 1000, 52, 210, 110
_MARKS, _CAPTION = 18, 20

_KEY = (
    '<div class="key"><span><i style="background:var(--raw)"></i>whole history</span>'
    '<span><i style="background:var(--sent)"></i>sent by Foveal (below: from the cache)</span>'
    '<span><i style="background:var(--fresh)"></i>sent and not in the cache</span>'
    '<span><i style="background:var(--limit)"></i>budget</span>'
    '<span><i style="background:var(--fold)"></i>fold: older content is shown by stand-ins from here on</span></div>'
)
_LONG = {
    "raw": "tokens raw",
    "recorded": "tokens recorded",
    "sent": "tokens sent",
    "$ raw": "cost raw",
    "$ recorded": "cost recorded",
    "$ sent": "cost sent",
}
_HEAD = ("session", "model", *(_LONG.get(name, name) for name in HEAD[1:]))


def page(replays: Sequence[Replay], errors: Sequence[str] = ()) -> str:
    """Return the whole document."""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Foveal replay</title><style>{chart.STYLE}{_STYLE}</style></head><body><main>",
            *_top(replays, errors),
            *_table(replays),
            *_sessions(replays),
            *_small_print(replays),
            "</main></body></html>\n",
        )
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _top(replays: Sequence[Replay], errors: Sequence[str]) -> Iterator[str]:
    sums = totals(replays)
    models = ", ".join(dict.fromkeys(replay.model for replay in replays))
    sessions = counted(sums.sessions, "session")
    yield "<h1>Foveal replay</h1>"
    yield f'<p class="soft">{sessions}, {sums.calls:,} model calls, at the prices of {_text(models)}</p>'
    yield from (f'<p class="error">Not replayed: {_text(error)}</p>' for error in errors)
    yield '<div class="tiles">'
    for value, what in _tiles(sums):
        yield f'<div class="tile"><b>{value}</b><span>{what}</span></div>'
    yield "</div>"


def _tiles(sums: Totals) -> Iterator[tuple[str, str]]:
    yield short(sums.sent_tokens), f"tokens sent{_compared(sums, short(sums.raw_tokens), gain(sums))}"
    cost = f"cost{_compared(sums, usd(sums.raw_usd), gain_usd(sums))}"
    yield usd(sums.sent_usd), "cost: a price is not known" if sums.sent_usd is None or sums.raw_usd is None else cost
    if sums.recorded_calls:
        yield usd(sums.recorded_usd), _recorded(sums)
    yield percent(sums.cached_share), f"of it from the cache ({percent(sums.raw_cached_share)} raw)"
    yield f"{sums.largest_sent:,}", f"tokens in the largest prompt ({sums.largest_raw:,} raw)"
    yield f"{sums.refusals:,}", f"calls refused; {sums.prefix_moves:,} prefix moves"


def _recorded(sums: Totals) -> str:
    calls = "" if sums.recorded_calls == sums.calls else f" for {sums.recorded_calls:,} of {sums.calls:,} calls"
    gain = gain_on_recorded(sums)
    return f"recorded cost{calls}, {short(sums.recorded_tokens)} tokens" + (f"; sent is {gain}" if gain else "")


def _compared(sums: Totals, raw: str, gain: str) -> str:
    if sums.refusals:  # a refused call is no saving
        return f", without the {sums.refusals:,} refused calls; {raw} raw with them"
    if sums.unsendable:
        return f"; {raw} raw without the {sums.unsendable:,} calls whose whole history the model would not take"
    return f", {gain} than {raw} raw" if gain else ""


def _table(replays: Sequence[Replay]) -> Iterator[str]:
    yield '<section class="wide"><table><thead><tr>' + "".join(f"<th>{name}</th>" for name in _HEAD) + "</tr></thead>"
    for replay in replays:
        yield _row("", replay.session, replay.model, totals([replay]))
    if len(replays) > 1:
        yield _row(' class="total"', f"total of {len(replays):,}", "", totals(replays))
    yield "</table></section>"


def _row(style: str, name: str, model: str, sums: Totals) -> str:
    title, *figures = cells(_text(name), sums, tokens="{:,}".format)
    named = zip(_HEAD[1:], (_text(model), *figures), strict=True)
    row = "".join(f'<td data-name="{head}">{cell}</td>' for head, cell in named)
    return f'<tr{style}><td title="{title}">{title}</td>{row}</tr>'


def _sessions(replays: Sequence[Replay]) -> Iterator[str]:
    drawn = sorted(replays, key=lambda replay: -sum(call.raw.tokens for call in replay.calls))[:MOST_CHARTS]
    if len(drawn) < len(replays):
        yield f"<p>Charts of the {MOST_CHARTS} sessions with most raw tokens; the other {len(replays) - MOST_CHARTS:,} are"
        yield "only in the table.</p>"
    for replay in drawn:
        about = f"{replay.source} · {replay.model} · {replay.dialect} · counted with {replay.counter}"
        yield f'<section><h2>{_text(replay.session)}</h2><p class="soft">{_text(about)}</p>'
        yield _chart(replay) + _KEY if replay.calls else "<p>No model calls.</p>"
        yield from _savings(replay)
        yield from (f'<p class="soft">Note: {_text(note)}.</p>' for note in replay.notes)
        yield "</section>"


def _savings(replay: Replay) -> Iterator[str]:
    texts = list(saving_texts(replay))
    yield "<ol>"
    yield from (f"<li><b>{_text(worth)}</b><br>{_text(what)}</li>" for worth, what in texts[: len(replay.savings)])
    yield "</ol>"
    yield from (f"<p><b>{_text(worth)}</b>: {_text(what.lower())}</p>" for worth, what in texts[len(replay.savings) :])


def _small_print(replays: Sequence[Replay]) -> Iterator[str]:
    sums = totals(replays)
    yield "<section><h2>How to read this</h2><p>Raw is the whole history sent for every call that the model would have taken,"
    yield "recorded is what the provider counted at the time (none: the recording does not have it), sent is what Foveal would"
    yield "have sent. Raw and sent are billed with the provider's cache: what a call shares with the one before it is read from"
    yield "the cache, the rest is written to it; lifetimes are not modelled, so pauses that let a cache expire cost nothing here."
    yield f"Both bills include {usd(sums.output_usd)} for the {sums.output_tokens:,} recorded output tokens. Whether the model"
    yield "would have answered the same to a folded prompt, a replay cannot tell.</p>"
    if any(len(replay.calls) > MOST_STEPS for replay in replays):
        yield f"<p>Charts of more than {MOST_STEPS} calls show the largest prompt of each step.</p>"
    if len(replays) > 1:
        yield from (f'<p class="soft">{_text(note)}.</p>' for note in note_lines(replays))
    yield "</section>"


def _chart(replay: Replay) -> str:
    """Return two plots: above, the whole history and the sent prompts; below, the latter enlarged, with their cached part."""
    series = shortened(series_of(replay), MOST_STEPS)
    x = chart.Axis(0, 1, _LEFT, _LEFT + _WIDTH, 1)
    floor = _CAPTION + _HIGH
    above = chart.Axis.over(0, max((4, *series.raw, *series.sent)), floor, _CAPTION)
    top = floor + _MARKS + _CAPTION
    below = chart.Axis.over(0, max((4, *series.sent)), top + _LOW, top)
    name = _text(replay.session)
    parts = (
        f'<svg viewBox="0 0 {x.end + 8} {below.start + 20}" role="img" aria-label="Tokens per call, {name}">',
        *_plot(x, above, "tokens per call", (("raw", series.raw), ("sent", series.sent)), series.limit),
        *_marks(x, above, replay.calls),
        *_plot(
            x, below, "tokens sent per call, enlarged", (("fresh", series.sent), ("sent", series.cached)), series.limit
        ),
        f'<text x="{x.start}" y="{below.start + 15}">call 1</text>',
        f'<text class="end" x="{x.end}" y="{below.start + 15}">call {len(replay.calls):,}</text>',
        "</svg>",
    )
    return "\n".join(parts)


def _plot(
    x: chart.Axis, y: chart.Axis, caption: str, areas: Sequence[tuple[str, tuple[int, ...]]], limit: int
) -> Iterator[str]:
    yield f'<text x="{x.start}" y="{y.end - 7}">{caption}</text>'
    yield from chart.horizontal_grid(x, y, lambda tokens: short(round(tokens)))
    for style, values in areas:
        yield f'<path class="{style}" d="{chart.steps(values, x, y)}"/>'
    if limit > y.high:
        yield f'<text class="limit end" x="{x.end}" y="{y.end - 7}">budget {limit:,}, above this chart</text>'
        return
    at = y.at(limit)
    yield f'<line class="limit" x1="{x.start}" x2="{x.end}" y1="{at}" y2="{at}"/>'
    yield f'<text class="limit end" x="{x.end}" y="{at - 5}">budget {limit:,}</text>'


def _marks(x: chart.Axis, y: chart.Axis, calls: Sequence[ReplayedCall]) -> Iterator[str]:
    for i, call in enumerate(calls):
        at = x.at((i + 0.5) / len(calls))
        if call.sent is None:
            text = _text(f"Call {call.number} was refused. {call.refused}")
            yield f'<path class="refused" d="M{at - 4},{y.start + 4}l8,8m0,-8l-8,8"><title>{text}</title></path>'
        elif fold := call.fold:
            text = f"Call {call.number}: {fold.items} folds, {fold.before:,} tokens of messages became {fold.after:,}"
            yield f'<path class="fold" d="M{at},{y.start + 3}l4.5,8h-9Z"><title>{text}</title></path>'
