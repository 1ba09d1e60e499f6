"""HTML by its text: scripts and styles dropped, headings, lists and table rows as lines; then the best of them."""

import re
from html import unescape

from foveal.text.guard.seals import sealable
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import extensions, sample
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, edge_scores, focus_scores, novelty, spread

_TAG = lazy_pattern(r"<(/?)([A-Za-z][A-Za-z0-9]{0,20})[^<>]*>|<!--|<[!?][^<>]*>")
_UNSEEN = frozenset(("script", "style", "noscript", "template", "svg", "head"))
_BREAK_NAMES = """
    address article aside blockquote br caption dd div dl dt figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol
    option p pre section table tbody tfoot thead title tr ul"""
_BREAKS = frozenset(_BREAK_NAMES.split())
"""Tags that end a line."""
_CELLS = frozenset(("td", "th"))
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "title", "caption", "th"))
_ENTITY = lazy_pattern(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_PAGE = lazy_pattern(r"\s{0,200}(?:<\?xml[^<>]{0,200}>\s{0,20})?<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_COMMON = lazy_pattern(
    r"<(?:div|p|span|a|li|td|tr|table|ul|h[1-6]|img|br|meta|link|script)\b[^<>]{0,400}>", re.IGNORECASE
)
_CODE = frozenset(
    ("js", "jsx", "ts", "tsx", "mjs", "vue", "svelte", "py", "rb", "php", "java", "kt", "go", "rs", "cs", "md", "mdx")
)
_SNIFF_CHARS = 4_000


def fits(text: str, hint: str) -> bool:
    if _PAGE().match(text[:_SNIFF_CHARS]):
        return True
    if _CODE & set(extensions(hint)):
        return False
    lines = sample(text)
    tagged = sum(line.lstrip().startswith("<") for line in lines)
    return tagged * 2 > len(lines) and sum(len(_COMMON().findall(line)) for line in lines) > 8


def shrink(text: str, allowance: Allowance) -> str | None:
    lines, headings = text_lines(text)
    if not lines:
        return None
    scores = [0.2] * len(lines)
    add_scores(scores, novelty(lines), 1.0)
    add_scores(scores, dict.fromkeys(headings, 3.0), 1.0)
    add_scores(scores, edge_scores(lines), 0.5)
    add_scores(scores, spread(focus_scores(lines, allowance.focus), len(lines), 1, 0.3), 1.0)
    return select_lines(text, lines, scores, allowance, of="lines of text")


def text_lines(text: str) -> tuple[list[str], list[int]]:
    """Return the lines that a reader would see, and the numbers of the headings among them."""
    lines: list[str] = []
    headings: list[int] = []
    piece: list[str] = []
    at, hidden, heading = 0, "", False
    end, find_tag = len(text), _TAG().search
    while at < end:
        tag = find_tag(text, at)
        if not hidden:
            piece.append(text[at : tag.start() if tag else end])
        if tag is None:
            break
        at = tag.end()
        if tag[0] == "<!--":
            closing = text.find("-->", at)
            at = closing + 3 if closing >= 0 else end
            continue
        name = (tag[2] or "").lower()
        if hidden:
            hidden = "" if tag[1] and name == hidden else hidden
            continue
        if name in _UNSEEN and name != "head":
            hidden = "" if tag[1] or tag[0].endswith("/>") else name
        elif name in _CELLS and not tag[1]:
            piece.append(" | ")
        if name in _BREAKS:
            heading = _close(piece, lines, headings, heading=heading)
        heading = (heading or name in _HEADINGS) and not (tag[1] and name in _HEADINGS)
    _close(piece, lines, headings, heading=heading)
    return lines, headings


def _close(piece: list[str], lines: list[str], headings: list[int], *, heading: bool) -> bool:
    """End the line. Return whether the heading is still open: its flag ends with its line."""
    line = sealable(_ENTITY().sub(lambda found: unescape(found[0]), " ".join("".join(piece).split())))
    piece.clear()
    if line.strip(" |"):
        if heading:
            headings.append(len(lines))
        lines.append(line)
        return False
    return heading
