"""The page: one HTML text with its data, its script and its style inside. It asks for nothing from elsewhere.

The data is compressed JSON in the alphabet of base 64: no word of a session can end the element that holds it. The content policy
lets this very script and style run and nothing else, and forbids the script to make elements from text.
"""

import gzip
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib import resources

import msgspec

from foveal.viewer.document import PageOverview, PageReport, PageSession, encoded, overview_row, with_links

MOST_BYTES = 4_900_000
"""The size that a page keeps by cutting long texts: it can be sent by mail, and a browser opens it at once."""

_TEXT_CHARS = (24_000, 8_000, 3_000, 1_000, 300)
"""Lengths that texts are cut to, until the page is small enough; the first holds nearly every result whole."""

_SCRIPTS = ("strings.js", "model.js", "elements.js", "charts.js", "panels.js", "overview.js", "main.js")


def page(sessions: Sequence[PageSession], overview: PageOverview | None = None) -> bytes:
    """Return the page of these sessions; the list of several is the first thing that it shows.

    A page with an address of events may ask its own server for these, and nothing else.
    """
    listed = overview or PageOverview(
        title="Sessions",
        sessions=tuple(map(overview_row, sessions)),
        sent_as=sessions[0].runs[0].name if sessions else "sent",
    )
    if overview is None:
        places = {one.name: f"#session={place}" for place, one in enumerate(sessions)}
        sessions = [with_links(one, places) for one in sessions]
    blocks = b""
    for most_chars in _TEXT_CHARS:
        blocks = b"\n".join(_block(f"session-{i}", encoded(one, most_chars)) for i, one in enumerate(sessions))
        if len(blocks) < MOST_BYTES:
            break
    data = _block("overview-data", msgspec.json.encode(listed)) + b"\n" + blocks
    return _frame(is_served=bool(listed.events)).replace(b"{{data}}", data)


def report_page(report: PageReport) -> bytes:
    """Return the page of a measurement's results."""
    return page((), PageOverview(title=report.title, sessions=(), report=report))


def content_policy(*, is_served: bool = False) -> str:
    """Return the content security policy of a page. One that is served may read the events of its own server."""
    script, style = _files()
    events = "connect-src 'self'; " if is_served else ""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; {events}base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _block(name: str, data: bytes) -> bytes:
    packed = b64encode(gzip.compress(data, 6, mtime=0))
    return f'<script type="application/octet-stream" id="{name}">'.encode() + packed + b"</script>"


@cache
def _files() -> tuple[str, str]:
    """Return the script and the style."""
    folder = resources.files("foveal.viewer") / "page_files"
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    return script, (folder / "page.css").read_text(encoding="utf-8")


@cache
def _frame(*, is_served: bool) -> bytes:
    """Return the page without its data."""
    script, style = _files()
    text = (resources.files("foveal.viewer") / "page_files" / "page.html").read_text(encoding="utf-8")
    for name, value in (("policy", content_policy(is_served=is_served)), ("style", style), ("script", script)):
        text = text.replace(f"{{{{{name}}}}}", value)
    return text.encode()


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
