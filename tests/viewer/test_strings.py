"""The words of the page: all of them can be said in both languages."""

import json
import re
from importlib import resources
from typing import get_args

import pytest

from foveal.values.fold_cost import FoldKind

FILES = resources.files("foveal.viewer") / "page_files"
SCRIPTS = "".join(
    (FILES / f"{name}.js").read_text() for name in ("model", "elements", "charts", "panels", "overview", "main")
)
HTML = (FILES / "page.html").read_text()
TABLE = {
    json.loads(key): json.loads(value)
    for key, value in re.findall(
        r'^  ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$', (FILES / "strings.js").read_text(), re.M
    )
}


def words_of(name):
    """The words of a list in the script."""
    (found,) = re.findall(rf"const {name} = \[(.*?)\];", SCRIPTS)
    return set(re.findall(r'"([^"]+)"', found))


def said():
    """Every text that the page can say, and that is its own and not a session's."""
    found = set(re.findall(r'\bsay\("((?:[^"\\]|\\.)*)"', SCRIPTS))
    found |= set(re.findall(r'data-(?:say|label)="([^"]*)"', HTML))
    found |= words_of("KINDS") | words_of("LEVELS") | set(get_args(FoldKind))
    (tabs,) = re.findall(r"const TABS = \{(.*?)\};", SCRIPTS)
    (keys,) = re.findall(r"const KEYS = \[(.*)\];", SCRIPTS)
    return (
        found
        | set(re.findall(r'\["([^"]+)"', tabs))
        | {text for _, text in re.findall(r'\["([^"]+)", "([^"]+)"\]', keys)}
    )


def test_everything_can_be_said_in_chinese():
    """A text that is added to the page is added to the table."""
    assert said() - TABLE.keys() == set()
    assert len(said()) > 200


def test_a_translation_has_the_same_values():
    """No number of a sentence is lost on the way to another language, and no sentence is left as it was."""
    values = re.compile(r"\{\w+\}")
    assert [
        text for text, other in TABLE.items() if sorted(values.findall(text)) != sorted(values.findall(other))
    ] == []
    assert [text for text, other in TABLE.items() if text == other and text not in ("token", "tokens")] == []


@pytest.mark.parametrize(("where", "language"), [("?lang=zh", "zh"), ("#lang=zh", "zh"), ("", "en")])
def test_the_page_speaks_the_language_that_is_asked_for(browser, address, where, language):
    """By the address, and by a button that writes it there; words of the session stay as they are."""
    browser.complaints.clear()
    browser.open(address + where)
    assert browser.run("document.documentElement.lang") == language
    assert browser.text("#panel h2").startswith("第 25 次调用" if language == "zh" else "Call 25")
    assert ("重新计费" in browser.text("#panel")) == (language == "zh")
    browser.click_on("#language")
    assert browser.run("document.documentElement.lang") == ("en" if language == "zh" else "zh")
    assert f"lang={'en' if language == 'zh' else 'zh'}" in browser.run("location.hash")
    assert browser.text("#panel h2").startswith("Call 25" if language == "zh" else "第 25 次调用")
    assert browser.complaints == []


def test_every_view_can_be_read_in_chinese(browser, address):
    """No sentence of the page itself is left in English: only names, reasons and texts of the session are."""
    browser.open(f"{address}?lang=zh#call=9&entry=4")
    for number in "1234567":
        browser.press(number)
        browser.run("document.activeElement.blur()")
        heads = browser.run(
            "[...document.querySelectorAll('h2, h3, th, caption, #tabs button')].map((one) => one.textContent)"
        )
        assert [text for text in heads if re.search(r"\b(the|of|and|calls?|messages?|whole)\b", text)] == [], number
