"""The page as a file, without a browser: its policy, its size, and the words of strangers in it."""

import gzip
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from importlib import resources
from random import Random

import msgspec
import pytest

from foveal.viewer.builder import recorded_page
from foveal.viewer.page import MOST_BYTES, page

from .conftest import attacking, looking, recording, run_options

BLOCK = re.compile(r'<script type="application/octet-stream" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>')


def blocks(html):
    return {name: msgspec.json.decode(gzip.decompress(b64decode(data))) for name, data in BLOCK.findall(html)}


def test_the_policy_lets_nothing_but_this_script_and_style_run(folded):
    """Both hashes of the content policy are those of the elements, and there is no other source of anything."""
    html = page([folded]).decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert f"{tag}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}';" in policy[1]
    assert policy[1].startswith("default-src 'none';")
    assert not re.search(r"unsafe|https?:|\*|data:|blob:", policy[1])
    assert not re.search(r"\b(?:src|href)=\"(?!#)", html)


def test_the_script_makes_no_elements_from_text(folded):
    """No sink that parses markup is named in the script."""
    html = page([folded]).decode()
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(|\.cssText|fetch\(", script
    )


def test_the_page_is_the_same_each_time(folded):
    """Two pages of one session are equal byte for byte: they can be compared and cached."""
    assert page([folded]) == page([folded])


def test_no_word_of_a_session_is_outside_its_block():
    """Names, titles and texts are inside compressed blocks, whatever they hold."""
    html = page([recorded_page(recording(*attacking(), name="<b>bad</b>{{script}}"), [run_options(60_000)])]).decode()
    assert "onerror" not in BLOCK.sub("", html)
    assert "<b>bad" not in html
    assert blocks(html)["session-0"]["name"] == "<b>bad</b>{{script}}"
    assert len(html) < 1_000_000


def test_several_sessions_are_one_file_with_a_list(folded):
    """Each session is behind a row of the list."""
    found = blocks(page([folded, folded]).decode())
    assert set(found) == {"overview-data", "session-0", "session-1"}
    assert [row["name"] for row in found["overview-data"]["sessions"]] == ["made", "made"]


def test_a_page_of_many_calls_stays_below_five_megabytes():
    """Texts that cannot be compressed are cut until the page of 500 calls is small enough; the notes say by how much."""
    random = Random(7)
    made = recorded_page(recording(*looking(calls=499, size=3)), [run_options(60_000)])
    texts = tuple(b64encode(random.randbytes(15_000)).decode() for _ in made.texts)
    made = msgspec.structs.replace(made, texts=texts)
    html = page([made])
    assert len(made.runs[0].calls) == 500
    assert sum(map(len, made.texts)) > MOST_BYTES
    assert len(html) < 5_000_000
    texts = blocks(html.decode())["session-0"]["texts"]
    assert any("of 20,000 characters are not in this page" in text for text in texts)


@pytest.mark.parametrize(
    "name", ["page.html", "page.css", "model.js", "elements.js", "charts.js", "panels.js", "main.js"]
)
def test_the_files_of_the_page_belong_to_the_package(name):
    """The page's files lie in the package itself, which the wheel holds whole."""
    assert (resources.files("foveal.viewer") / "page_files" / name).is_file()
