"""The figure about the viewer: hostile texts in a real browser run nothing, load nothing and make no element."""

import html
import random
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1]))

from scorecard_parts import Failures, Figure, Plant, folder_in_memory
from tests.viewer.chromium import Tab, chromium, find_chromium

from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.session.policy import BudgetTable, Policy
from foveal.values.entry import ToolCall, assistant, result, system, user
from foveal.viewer import page as viewer_page
from foveal.viewer.builder import RunOptions, recorded_page
from foveal.viewer.page import page

A_PAGE = 25
"""Texts on one page."""
BREAKS = (
    *("", '"', "'", "`", "\\", "{{", "\u2028", "\0", '">', "&quot;>"),
    *("</script>", "</textarea>", "</style>", "</pre>", "-->", "]]>"),
)
VECTORS = (
    '<img src=x onerror="{}">',
    "<script>{}</script>",
    "<svg onload={}>",
    "<iframe srcdoc='<script>parent.{}</script>'>",
    '<a href="javascript:{}">x</a>',
    "<math><mtext><table><mglyph><style><img src onerror={}>",
    "<body onpageshow={}>",
    "<object data='data:text/html,<script>{}</script>'>",
    "![x](http://127.0.0.9:9/{})",
    "<link rel=stylesheet href='http://127.0.0.9:9/{}'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<style>@import 'http://127.0.0.9:9/{}';</style>",
    "${{{}}}",
    "<details open ontoggle={}>",
    "\x1b]8;;javascript:{}\x07x",
    "\u202e<img src=x onerror={}>",
)
SPELLINGS = (
    str,
    html.escape,
    quote,
    str.upper,
    lambda text: text.replace("<", "\uff1c"),
    lambda text: text.replace("<", "<\0"),
)


def hostile_texts(count: int, rng: random.Random) -> list[str]:
    """Return texts that attack a page, each of which would leave its number there."""
    return [
        rng.choice(BREAKS) + rng.choice(SPELLINGS)(rng.choice(VECTORS).format(f"window.hurt={number}"))
        for number in range(count)
    ]


def hostile_pages(cases: int, seed: int) -> Failures:
    """Show sessions whose names, texts, tools and arguments attack the page, in every view."""
    failures, rng, browser = Failures(), random.Random(seed), find_chromium()
    assert browser
    with folder_in_memory() as folder, chromium(browser, folder / "profile") as tab:
        for first in range(0, cases, A_PAGE):
            texts = hostile_texts(min(A_PAGE, cases - first), rng)
            place = folder / "hostile.html"
            place.write_bytes(_page(texts))
            try:
                found = _looked_at(tab, place.as_uri())
            except AssertionError as error:  # the page did not open, or stopped answering
                found = [f"complained: {tab.complaints!s:.200}"] if tab.complaints else []
                found.append(f"it cannot be read: {error!s:.200}")
            failures += [f"texts from {first}: {problem}" for problem in found]
    return failures


def _page(texts: list[str]) -> bytes:
    """Return the page of a session that is made of these texts."""
    messages: list[Any] = [system(texts[0]), user(texts[-1])]
    for n, text in enumerate(texts):
        messages += [
            assistant(text, ToolCall(f"c{n}{text}", f"tool{text}", f'{{"path": "{text}"}}')),
            result(f"c{n}{text}", text),
        ]
    name = "".join(filter(str.isprintable, texts[0]))  # a store refuses any other
    recording = Recording(name, "test:1", None, "[]", tuple(map(RecordedStep, [*messages, assistant(texts[0])])))
    return page(
        [recorded_page(recording, [RunOptions(texts[-1], Policy(budget=BudgetTable(limit=60_000, reserve=0)))])]
    )


def _looked_at(tab: Tab, address: str) -> Failures:
    """Walk through all views, and return whatever the texts brought about."""
    tab.complaints.clear()
    tab.open(address)
    for key in ("1", "2", "3", "4", "5", "6", "7", "1", "j", "j", "j", "x"):
        tab.press(key)
        tab.run("document.activeElement.blur()")
    elements = tab.run("document.querySelectorAll('img, iframe, object, svg, math, link, details[ontoggle]').length")
    hurt, asked = tab.run("window.hurt"), [url for url in tab.requests if not url.startswith("file:")]
    problems = {"ran": hurt, "were made elements": elements, "asked for": asked, "complained": tab.complaints}
    return [f"{what}: {found!s:.120}" for what, found in problems.items() if found]


# Plants


def _markup() -> None:
    """Let the script of the page take texts for markup."""
    real, adds = viewer_page._files, "element.append(...children.flat(9).filter("
    assert adds in real()[0]
    as_markup = """const put = (child) => element[child.nodeType ? "append" : "insertAdjacentHTML"](
        ...(child.nodeType ? [child] : ["beforeend", String(child)]));
    ((...all) => all.forEach(put))(...children.flat(9).filter("""

    def files() -> tuple[str, str]:
        script, style = real()
        return script.replace(adds, as_markup), style

    viewer_page._files = files  # pyright: ignore[reportAttributeAccessIssue]


def _markup_without_policy() -> None:
    _markup()
    viewer_page.content_policy = lambda **_: "default-src * 'unsafe-inline' data:"


FIGURES = (
    Figure(
        "S5",
        "hostile texts as names, messages, tools and arguments on pages of the viewer, all views walked through in Chromium: "
        "no script runs, no element is made, nothing is asked for",
        hostile_pages,
        50,
        2_000,
        {
            "markup": Plant(_markup, "complained"),
            "markup, and no policy": Plant(_markup_without_policy, "texts from [0-9]+: ran"),
        },
        skipped=lambda: "" if find_chromium() else "there is no Chromium here",
    ),
)
