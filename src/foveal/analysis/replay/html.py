"""A replay as one page that needs nothing else: no scripts, no fonts, nothing loaded from anywhere."""

from collections.abc import Iterator, Sequence
from html import escape

from foveal.analysis.replay.demo import saving_texts
from foveal.analysis.replay.replay import Replay
from foveal.analysis.replay.report import Totals, gain, gain_usd, note_lines, percent, short, totals, usd
from foveal.analysis.replay.svg import MOST_STEPS, svg
from foveal.text.display import visible

MOST_CHARTS = 200
"""About 5 KB each: the page stays one that a browser opens at once."""

_STYLE = """
:root{color-scheme:light dark;--ink:#16202b;--soft:#5b6b7b;--paper:#fbfbfa;--card:#fff;--line:#e3e6e8;--raw:#cfd6dc;
--sent:#0b7d8a;--fresh:#e2725b;--limit:#b26a00;--fold:#8a3ffc;--bad:#c62828}
@media(prefers-color-scheme:dark){:root{--ink:#e7ecf0;--soft:#93a1ae;--paper:#10161c;--card:#182028;--line:#2a343d;
--raw:#3a4650;--sent:#35b8c6;--fresh:#e58a76;--limit:#e0a84a;--fold:#be95ff;--bad:#ff7b72}}
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
path.raw{fill:var(--raw)}path.sent{fill:var(--sent)}path.fresh{fill:var(--fresh)}
line.grid{stroke:var(--line)}text{font:11px system-ui,sans-serif}
text.tick{fill:var(--soft)}text.end{text-anchor:end}line.limit{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:5 4}
text.limit{fill:var(--limit);font-weight:600}path.fold{fill:var(--fold)}path.refused{stroke:var(--bad);stroke-width:2;fill:none}
.key{display:flex;flex-wrap:wrap;gap:4px 18px;font-size:13px;color:var(--soft)}.key i{display:inline-block;width:12px;height:12px;
border-radius:2px;margin-right:6px;vertical-align:-1px}ol{padding-left:20px;margin:10px 0}li{margin:8px 0;overflow-wrap:anywhere}
.error{color:var(--bad);overflow-wrap:anywhere}
"""
_KEY = (
    '<div class="key"><span><i style="background:var(--raw)"></i>whole history</span>'
    '<span><i style="background:var(--sent)"></i>sent by Foveal (below: from the cache)</span>'
    '<span><i style="background:var(--fresh)"></i>sent and not in the cache</span>'
    '<span><i style="background:var(--limit)"></i>budget</span>'
    '<span><i style="background:var(--fold)"></i>fold: older content is shown by stand-ins from here on</span></div>'
)
_HEAD = (
    "session",
    "model",
    "calls",
    "tokens raw",
    "tokens sent",
    "cached",
    "moves",
    "cost raw",
    "cost sent",
    "largest",
    "refused",
)


def page(replays: Sequence[Replay], errors: Sequence[str] = ()) -> str:
    """The whole document."""
    return "\n".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Foveal replay</title><style>{_STYLE}</style></head><body><main>",
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
    yield "<h1>Foveal replay</h1>"
    sessions = f"{sums.sessions:,} session{'s' * (sums.sessions != 1)}"
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
    yield percent(sums.cached_share), f"of it from the cache ({percent(sums.raw_cached_share)} raw)"
    yield f"{sums.largest_sent:,}", f"tokens in the largest prompt ({sums.largest_raw:,} raw)"
    yield f"{sums.refusals:,}", f"calls refused; {sums.prefix_moves:,} prefix moves"


def _compared(sums: Totals, raw: str, gain: str) -> str:
    if sums.refusals:  # what was not sent at all is no saving
        return f", without the {sums.refusals:,} refused calls; {raw} raw with them"
    return f", {gain} than {raw} raw" if gain else ""


def _table(replays: Sequence[Replay]) -> Iterator[str]:
    yield '<section class="wide"><table><thead><tr>' + "".join(f"<th>{name}</th>" for name in _HEAD) + "</tr></thead>"
    for replay in replays:
        yield _row("", replay.session, replay.model, totals([replay]))
    if len(replays) > 1:
        yield _row(' class="total"', f"total of {len(replays):,}", "", totals(replays))
    yield "</table></section>"


def _row(style: str, name: str, model: str, sums: Totals) -> str:
    cells = (
        _text(model),
        f"{sums.calls:,}",
        f"{sums.raw_tokens:,}",
        f"{sums.sent_tokens:,}",
        percent(sums.cached_share),
        f"{sums.prefix_moves:,}",
        usd(sums.raw_usd),
        usd(sums.sent_usd),
        f"{sums.largest_sent:,}",
        f"{sums.refusals:,}",
    )
    title = f'<td title="{_text(name)}">{_text(name)}</td>'
    return f"<tr{style}>{title}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _sessions(replays: Sequence[Replay]) -> Iterator[str]:
    drawn = sorted(replays, key=lambda replay: -sum(call.raw.tokens for call in replay.calls))[:MOST_CHARTS]
    if len(drawn) < len(replays):
        yield f"<p>Charts of the {MOST_CHARTS} sessions with most raw tokens; the other {len(replays) - MOST_CHARTS:,} are"
        yield "only in the table.</p>"
    for replay in drawn:
        about = f"{replay.source} · {replay.model} · {replay.dialect} · counted with {replay.counter}"
        yield f'<section><h2>{_text(replay.session)}</h2><p class="soft">{_text(about)}</p>'
        yield svg(replay) + _KEY if replay.calls else "<p>No model calls.</p>"
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
    yield "<section><h2>How to read this</h2><p>Raw is the whole history sent for every call, sent is what Foveal would have"
    yield "sent. Both are billed with the provider's cache: what a call shares with the one before it is read from the cache,"
    yield "the rest is written to it; lifetimes are not modelled, so pauses that let a cache expire cost nothing here. Both bills"
    yield f"include {usd(sums.output_usd)} for the {sums.output_tokens:,} recorded output tokens. Whether the model would have"
    yield "answered the same to a folded prompt, a replay cannot tell.</p>"
    if any(len(replay.calls) > MOST_STEPS for replay in replays):
        yield f"<p>Charts of more than {MOST_STEPS} calls show the largest prompt of each step.</p>"
    if len(replays) > 1:
        yield from (f'<p class="soft">{_text(note)}.</p>' for note in note_lines(replays))
    yield "</section>"
