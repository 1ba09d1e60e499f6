"""The page of a gateway for people: one HTML text of figures, without anything from elsewhere. It follows them as they change.

Nothing of a conversation's text is on it. Names and programs are words of strangers: each of them is escaped.
"""

import shlex
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from html import escape
from urllib.parse import quote

from foveal.analysis.replay.report import counted, percent
from foveal.gateway.conversations import CallFigures
from foveal.gateway.gateway_figures import ConversationFigures, GatewayFigures, MoneyFigures
from foveal.gateway.operations import PREFIX
from foveal.text.display import visible

REFRESH_S = 10

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { text-align: right; padding: .25rem .7rem; border-bottom: 1px solid #ddd; vertical-align: top; white-space: nowrap }
th:first-child, td:first-child, .text { text-align: left }
code { font-size: 13px }
.state { padding: .6rem 1rem; background: #f2f2f2; border-left: .3rem solid #777 }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #161616 } th, td { border-color: #444 } .state { background: #242424 } a { color: #8bf }
}
"""

_SCRIPT = 'new EventSource("/").onmessage = () => location.reload();'
"""A stream at the page's own address tells when its figures have changed."""


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""The headers that the page is sent with."""

_HEAD = ("client", "last seen", "model", "calls", "asked", "sent", "cached", "saved", "folds", "recalls", "session")
_TEXT = frozenset({"client", "model", "session"})


def page(figures: GatewayFigures, *, now_ms: int, store: str = "") -> str:
    """Return the page. `store` is the file of the store, for the commands that it shows."""
    total = figures.total
    rows = [_cells(one, now_ms, store) for one in figures.conversations]
    known = f"<p>{counted(len(rows), 'conversation')}, newest first.</p>{_table(_HEAD, rows)}" if rows else ""
    sums = _table(("", "all calls"), list(_sums(total, figures.money)))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<noscript><meta http-equiv="refresh" content="{REFRESH_S}"></noscript>'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Foveal gateway</title><style>{_STYLE}</style></head><body><h1>Foveal gateway</h1>"
        f'<p class="state">{escape(_state(figures))}</p>{sums}{known}'
        f"<p>{escape(_notes(figures))}</p>"
        f'<p><a href="{PREFIX}/figures">These figures as JSON</a> · <a href="/metrics">for Prometheus</a> · '
        f'<a href="{PREFIX}/openapi.json">the HTTP API</a>. A session is read with the key that it was made with.</p>'
        f"<script>{_SCRIPT}</script></body></html>\n"
    )


def _state(figures: GatewayFigures) -> str:
    """Return in one sentence whether anything was changed."""
    total = figures.total
    aside = f" {counted(total.unmanaged, 'request')} passed on as they came: not managed." if total.unmanaged else ""
    if total.failed:
        aside += f" {counted(total.failed, 'request')} failed: the provider refused them, did not answer or broke off."
    if not total.calls:
        return f"No call was managed so far.{aside}"
    if figures.is_watching:
        return f"Watching: every request is forwarded as it came, and nothing is changed.{aside}"
    if not figures.has_changed_something:
        return f"Nothing was changed so far: every request was sent as it came.{aside}"
    return (
        f"{total.asked_tokens:,} tokens were asked for, {total.sent_tokens:,} "
        f"({percent(total.sent_tokens / max(1, total.asked_tokens))}) sent.{aside}"
    )


def _sums(total: CallFigures, money: MoneyFigures) -> Iterator[Sequence[str]]:
    yield "calls", f"{total.calls:,}"
    yield "tokens asked for", f"{total.asked_tokens:,}"
    yield "tokens sent", f"{total.sent_tokens:,}"
    yield "input, by the providers' count", f"{total.input_tokens:,}" if total.input_tokens else "not told"
    yield "from the cache", _cached(total)
    yield "saved on input", _saved(money)
    yield "folds", f"{total.folds:,}"
    yield "recalls", f"{total.recalls:,}"
    yield "prompts made smaller after a refusal", f"{total.recovered:,}"
    yield "unmanaged requests", f"{total.unmanaged:,}"
    yield "failed requests", f"{total.failed:,}"
    yield "prompts for callers of the HTTP API", f"{total.prompts:,}"


def _notes(figures: GatewayFigures) -> str:
    """Return how the money was reckoned; empty if there is none."""
    money, notes = figures.money, list[str]()
    if money.priced_calls:
        would = "would be" if figures.is_watching else "was"
        notes.append(
            f"Saved: the price of the input as it was asked for, less its price as it {would} sent by Foveal. Of "
            f"{counted(money.priced_calls, 'call')}, {money.reported_calls:,} are billed by the provider's own counts; the side "
            "that was not sent is estimated with the same cache."
        )
    if money.unpriced_calls:
        notes.append(f"{counted(money.unpriced_calls, 'call')} of models with an unknown price are not in it.")
    return " ".join(notes)


def _cells(one: ConversationFigures, now_ms: int, store: str) -> list[str]:
    figures = one.figures
    return [
        _shown(one.client or "unknown"),
        _ago(now_ms - one.seen_ms),
        _shown(one.model),
        f"{figures.calls:,}",
        f"{figures.asked_tokens:,}",
        f"{figures.sent_tokens:,}",
        _cached(figures),
        _saved(one.money),
        f"{figures.folds:,}",
        f"{figures.recalls:,}",
        _session(one.session, store),
    ]


def _session(name: str, store: str) -> str:
    address = f"{PREFIX}/sessions/{quote(name, safe='')}"
    places = [name, "--store", store or "FILE"]
    commands = [shlex.join(["foveal", *words, *places]) for words in (("view", "--live"), ("why",))]
    shown = "<br>".join(f"<code>{_shown(command)}</code>" for command in commands)
    return f'<a href="{escape(address)}">{_shown(name)}</a><br>{shown}'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already."""
    classes = [' class="text"' if title in _TEXT else "" for title in head]
    titles = "".join(f"<th{kind}>{title}</th>" for kind, title in zip(classes, head, strict=True))
    body = (
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(classes, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _cached(figures: CallFigures) -> str:
    return percent(figures.cached_tokens / figures.input_tokens if figures.input_tokens else None)


def _saved(money: MoneyFigures) -> str:
    if not money.priced_calls:
        return "unknown price" if money.unpriced_calls else "–"
    sign = "-" if money.saved_usd < 0 else ""
    return f"{sign}${abs(money.saved_usd):,.4f} of ${money.asked_usd:,.4f}"


def _ago(passed_ms: int) -> str:
    seconds = max(0, passed_ms // 1_000)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def _shown(text: str) -> str:
    """Return a stranger's words as HTML."""
    return escape(visible(text))
