"""The page by the rules of axe-core: names, roles, contrasts, orders. Skipped where npm has not brought them."""

from pathlib import Path

import pytest

from foveal.viewer.document import OverviewRow, PageOverview
from foveal.viewer.page import page, report_page

from .conftest import measured

AXE = Path(__file__).parents[2] / ".axe" / "node_modules" / "axe-core" / "axe.min.js"
pytestmark = pytest.mark.skipif(not AXE.is_file(), reason="no axe-core: npm install --no-save --prefix .axe axe-core@4")


def broken_rules(tab):
    """The rules that the page breaks, each with the elements that do. The checker is run from the console, past the policy."""
    tab.run("document.readyState")
    tab.command("Runtime.evaluate", expression=AXE.read_text())
    return tab.run(
        "axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((one) => one.id + ': ' + "
        "one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.failureSummary).join(' | ')))"
    )


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("tab", ["prompt", "changed", "heaviest", "cost", "calls", "search", "compare"])
def test_every_view_keeps_the_rules(browser, address, tab, theme):
    """In both themes, with a message chosen and without texts left out."""
    browser.open(f"{address}#call=9&entry=4&tab={tab}&q=line&theme={theme}")
    assert broken_rules(browser) == []


def test_the_keys_keep_the_rules(browser, address):
    """The dialog has a name, and its contrast is enough."""
    browser.open(address)
    browser.press("?")
    assert broken_rules(browser) == []


def test_lists_and_reports_keep_the_rules(browser, tmp_path):
    """A list with bills, a project and a failure; and the charts of a measurement."""
    rows = (OverviewRow("one", project="~/work", calls=3, sent_usd=0.1, sent_tokens=9), OverviewRow("bad", error="no"))
    for name, html in (
        ("list", page((), PageOverview("made", rows, budgets=(8_000, 16_000)))),
        ("report", report_page(measured())),
    ):
        path = tmp_path / f"{name}.html"
        path.write_bytes(html)
        browser.open(path.as_uri())
        assert broken_rules(browser) == [], name
