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

from foveal.viewer.document import PageOverview, PageSession, encoded, overview_row

MOST_BYTES = 4_900_000
"""The size that a page keeps by cutting long texts: it can be sent by mail, and a browser opens it at once."""

_TEXT_CHARS = (24_000, 8_000, 3_000, 1_000, 300)
"""Lengths that texts are cut to, until the page is small enough; the first holds nearly every result whole."""

_SCRIPTS = ("model.js", "elements.js", "charts.js", "panels.js", "main.js")


def page(sessions: Sequence[PageSession], overview: PageOverview | None = None) -> bytes:
    """Return the page of these sessions; the list of several is the first thing that it shows."""
    listed = overview or PageOverview(
        title="Sessions",
        sessions=tuple(map(overview_row, sessions)),
        sent_as=sessions[0].runs[0].name if sessions else "sent",
    )
    blocks = b""
    for most_chars in _TEXT_CHARS:
        blocks = b"\n".join(_block(f"session-{i}", encoded(one, most_chars)) for i, one in enumerate(sessions))
        if len(blocks) < MOST_BYTES:
            break
    data = _block("overview-data", msgspec.json.encode(listed)) + b"\n" + blocks
    return _frame().replace(b"{{data}}", data)


def content_policy() -> str:
    """Return the content security policy of every page."""
    script, style = _files()
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
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
def _frame() -> bytes:
    """Return the page without its data."""
    script, style = _files()
    text = (resources.files("foveal.viewer") / "page_files" / "page.html").read_text(encoding="utf-8")
    for name, value in (("policy", content_policy()), ("style", style), ("script", script)):
        text = text.replace(f"{{{{{name}}}}}", value)
    return text.encode()


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
