"""The page in a real browser: it opens, answers clicks and keys, asks for nothing, and shows hostile text as text."""

import re

import msgspec
import pytest

from foveal.analysis.replay.bills import RecordedBill
from foveal.analysis.replay.replay import replay
from foveal.analysis.replay.report import gain_usd, totals
from foveal.stores import MemoryStore
from foveal.viewer.builder import recorded_page, stored_page
from foveal.viewer.choices import SessionChoice
from foveal.viewer.document import OverviewRow, PageChild, PageOverview
from foveal.viewer.page import page, report_page
from foveal.viewer.server import opened_server
from foveal.viewer.session_pages import SessionPages

from .conftest import HOSTILE, MadeSource, attacking, looking, measured, recording, run_options

SHIFT = 8


@pytest.fixture
def opened(browser, address):
    """The page of the folded session. Whatever a test does, nothing was complained about and nothing was asked for."""
    browser.complaints.clear()
    browser.open(address)
    yield browser
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith("file:")] == []


def call_of(tab):
    return int(tab.text("#panel h2").split()[1])


def notes_of(tab):
    return tab.run("[...document.querySelectorAll('#panel .note')].map((note) => note.textContent).join(' ')")


def test_the_page_opens_with_the_last_call(opened, folded):
    """A reader sees the newest prompt, with a row for each of its lines."""
    assert call_of(opened) == 25
    run = folded.runs[0]
    lines = 0
    for call in run.calls:
        lines = call.kept + len(call.lines)
    assert opened.run("document.querySelectorAll('#panel tbody tr').length") == lines + 2  # tools and framing
    assert opened.text("#figures .figure b") == "25"


@pytest.fixture
def stored(browser, tmp_path):
    """The page of a stored session, opened in the browser, and its replay."""
    store = MemoryStore()
    done = replay(recording(*looking()), policy=run_options(4_000).policy, store=store)
    path = tmp_path / "stored.html"
    path.write_bytes(page([stored_page(store, "made")]))
    browser.open(path.as_uri())
    return browser, done


def test_the_cost_of_a_page_is_that_of_its_replay(stored):
    """Both have the replies in the bill, so that one session has one saving."""
    tab, done = stored
    sums = totals([done])
    share = gain_usd(sums).removesuffix(" less")
    assert f"cost, replies includedwhole history ${sums.raw_usd:.4f} (−{share})" in tab.text("#figures")


def test_calls_are_counted_in_one_way(stored):
    """The prompt that waits for its reply is the next call, and none of those that were made."""
    tab, done = stored
    made = len(done.calls)
    assert tab.text("#panel h2").startswith(f"Call {made} of {made} ")
    assert tab.text("#figures .figure b") == f"{made}"
    tab.press("End")
    assert tab.text("#panel h2").startswith(f"Call {made + 1} ")
    assert not tab.text("#panel h2").startswith(f"Call {made + 1} of ")
    assert "the next one, not answered yet" in tab.text("#panel h2")


def test_the_line_of_the_whole_history_says_where_it_leaves_the_chart(stored):
    """The scale is that of the prompts: above it, the words beside the chart say from which call on, and up to what size."""
    tab, done = stored
    leaves = next(call.number for call in done.calls if call.raw.tokens > 4_000 * 1.03)
    assert f"dashed: whole history, above the chart from call {leaves} on, up to " in tab.text("#chart-note")


def test_a_click_on_a_chart_chooses_the_call(opened):
    """The middle of the axis is the middle of the session."""
    opened.click_on("#sizes", at=(0.5, 0.6))
    assert 12 <= call_of(opened) <= 14
    assert "tokens came from the cache" in opened.text("#panel")


def test_a_click_on_the_map_chooses_the_message_too(opened):
    """The life of the message, its stand-in and its original are shown beside the prompt."""
    opened.click_on("#map", at=(0.95, 0.2))
    side = opened.text("#side")
    assert re.search(r"message 1\d of 51", side)
    assert "Original" in side
    assert "stand-in" in side
    assert "covered" in side
    assert re.search(r"line 7 of file \d", side)


def test_a_click_on_a_line_shows_its_text(opened):
    """A summary is opened like any other line, with the messages that it stands for."""
    opened.run(
        "[...document.querySelectorAll('#panel tbody tr')].find((tr) => tr.textContent.includes('summary')).click()"
    )
    opened.wait("document.querySelector('#side h2')?.textContent.includes('in place of')")
    assert "foveal:summary" in opened.text("#side pre")
    assert "It stands for" in opened.text("#side")


def test_every_view_opens_by_its_number(opened):
    """Seven views, seven keys; each of them has a heading and a table."""
    for number, heading in enumerate(
        ("Call", "From call", "Heaviest", "Cost", "All calls", "Search", "4,000 tokens and"), 1
    ):
        opened.press(str(number))
        assert opened.text("#panel h2").startswith(heading)
        opened.press("Escape")
        opened.run("document.activeElement.blur()")


def test_calls_are_walked_by_keys(opened):
    """Arrows, Home, folds and moves of the prefix: the charts need no mouse."""
    opened.press("Home")
    assert call_of(opened) == 1
    opened.press("ArrowRight")
    assert call_of(opened) == 2
    opened.press("f")
    first = call_of(opened)
    assert "fold" in notes_of(opened)
    opened.press("f")
    assert call_of(opened) > first
    opened.press("F")
    assert call_of(opened) == first
    opened.press("End")
    assert call_of(opened) == 25


def test_messages_are_walked_by_keys(opened):
    """j and k go through the lines of a prompt, and the chosen one is marked."""
    opened.press("j")
    opened.press("j")
    assert "message 2 of 51" in opened.text("#side")
    assert opened.run("document.querySelectorAll('#panel tr.sel').length") == 1
    opened.press("k")
    assert "message 1 of 51" in opened.text("#side")
    opened.run("document.getElementById('map').focus()")
    opened.press("ArrowDown")
    assert "message 2 of 51" in opened.text("#side")


def test_a_row_is_opened_by_enter_and_keeps_the_focus(opened):
    """Every row has a button for keys; choosing it does not throw its reader to the top of the page."""
    opened.run("document.querySelector('#panel button.go').focus()")
    key = opened.run("document.activeElement.dataset.key")
    opened.command("Input.dispatchKeyEvent", type="keyDown", key="Enter", text="\r")
    opened.command("Input.dispatchKeyEvent", type="keyUp", key="Enter")
    opened.wait("document.querySelector('#side h2')")
    assert opened.run("document.activeElement.dataset.key") == key


def test_what_changed_names_the_mover_and_its_price(opened):
    """At a fold the prefix moves: the view says by what, and what had to be billed anew."""
    opened.press("Home")
    opened.press("f")
    opened.press("d")
    assert re.search(r"Call 5, fold: .*had to be billed anew, \$0", notes_of(opened))
    assert opened.run("document.querySelectorAll('#panel tr.gone').length") > 0
    assert opened.run("document.querySelectorAll('#panel tr.new, #panel tr.changed').length") > 0


def test_two_calls_are_chosen_with_the_shift_key(opened):
    """A click with the shift key compares with any other call."""
    opened.click_on("#sizes", at=(0.2, 0.5), modifiers=SHIFT)
    assert re.match(r"From call [3-7] to call 25", opened.text("#panel h2"))


def test_search_finds_what_is_no_longer_shown(opened):
    """A word of a covered result is found, with its level at the chosen call."""
    opened.press("/")
    opened.command("Input.insertText", text="line 7 of file 0")
    opened.wait("document.querySelector('#panel h2').textContent.startsWith('1 messages')")
    assert "covered" in opened.text("#panel tbody tr")


def test_two_policies_are_compared(opened):
    """Sums side by side, and the messages that they show differently."""
    opened.press("7")
    head = opened.run("[...document.querySelectorAll('#panel thead')][0].textContent")
    assert head == "4,000 tokens9,000 tokens"
    assert opened.run("document.querySelectorAll('#panel canvas').length") == 2
    assert re.search(r"[1-9]\d* messages are shown differently", opened.text("#panel"))
    opened.press("p")
    assert opened.text("#panel h2") == "9,000 tokens and 4,000 tokens"


def test_the_state_is_in_the_address(opened, address):
    """A link brings a colleague to the same call, message and view."""
    opened.press("Home")
    opened.press("f")
    opened.press("j")
    opened.press("4")
    opened.press("b")
    opened.press("t")
    where = opened.run("location.hash")
    shown = opened.text("#panel")
    opened.open(address + where)
    assert opened.text("#panel") == shown
    assert "message 1 of 51" in opened.text("#side")
    assert opened.text("#bands") == "by level"
    assert opened.run("document.documentElement.dataset.theme") in where
    opened.open(f"{address}#call=999999&entry=-3&line=77777&tab=<b>&run=9&base=x")
    assert opened.run("document.querySelectorAll('#panel tbody tr').length") > 3


def test_the_whole_prompt_can_be_read(opened):
    """All texts of a prompt in their order, each as it was sent."""
    opened.press("Home")
    opened.press("x")
    assert opened.run("[...document.querySelectorAll('#panel pre')].map((pre) => pre.textContent)") == [
        "Be brief.",
        "Look at everything.",
    ]


@pytest.mark.parametrize("width", [360, 800, 1500])
def test_nothing_is_wider_than_the_window(browser, address, width):
    """On a phone, a tablet and a desk, the page scrolls in one direction only, and no column is squeezed to letters."""
    browser.open(f"{address}#call=20&entry=8")
    browser.command(
        "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
    )
    browser.run("new Promise((done) => setTimeout(done, 0))")
    browser.open(f"{address}#call=20&entry=8")
    assert browser.run("document.documentElement.scrollWidth") <= width
    for number in "1234567":
        browser.press(number)
        browser.run("document.activeElement.blur()")
        assert browser.run("document.documentElement.scrollWidth") <= width, number
        heights = browser.run("[...document.querySelectorAll('#panel tbody tr')].map((row) => row.clientHeight)")
        assert max(heights, default=0) < 120, number
    browser.command("Emulation.clearDeviceMetricsOverride")


def test_readers_of_tables_have_all_figures(opened):
    """Each picture has a name, and the table of calls has a row for each of them."""
    assert opened.run("[...document.querySelectorAll('#charts canvas')].every((one) => one.getAttribute('aria-label'))")
    opened.press("5")
    assert opened.run("document.querySelectorAll('#panel tbody tr').length") == 25
    assert opened.run("[...document.querySelectorAll('th')].every((one) => one.scope === 'col')")
    assert "Call 25" in opened.text("#said")


def test_hostile_text_is_shown_as_text(browser, tmp_path):
    """Tags and scripts in names, texts and arguments are letters; nothing runs, and no request leaves the page."""
    browser.complaints.clear()
    path = tmp_path / "bad.html"
    path.write_bytes(page([recorded_page(recording(*attacking(), name=HOSTILE), [run_options(60_000, HOSTILE)])]))
    browser.open(path.as_uri())
    shown = HOSTILE.replace("\u202e", "⟨U+202E⟩")
    assert browser.text("#name") == shown
    for number in "1234567":
        browser.press(number)
        browser.run("document.activeElement.blur()")
    browser.press("1")
    for _ in range(8):
        browser.press("j")
        assert browser.run("typeof window.hurt") == "undefined"
    browser.press("x")
    assert shown in browser.text("#panel")
    assert browser.run("document.querySelectorAll('img, iframe, object').length") == 0
    assert browser.run("document.scripts.length") == 3  # the script and two blocks of data
    assert [url for url in browser.requests if not url.startswith("file:")] == []
    assert browser.complaints == []
    assert "characters are not in this page" in browser.text("body")


def test_the_content_policy_stops_a_script_from_elsewhere(browser, address):
    """Were a hole found, the policy would still run nothing: markup from text is refused, and so is a request."""
    browser.open(address)
    assert (
        browser.run(
            "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made' } catch { return 'refused' } })()"
        )
        == "refused"
    )
    assert browser.run("fetch('https://example.invalid/').then(() => 'asked', () => 'refused')") == "refused"
    browser.complaints.clear()


def test_several_sessions_open_from_a_list(browser, folded, tmp_path):
    """Each session of a file is behind a click, and Escape leads back."""
    browser.complaints.clear()
    path = tmp_path / "two.html"
    path.write_bytes(page([folded, folded]))
    browser.open(path.as_uri())
    assert browser.text("#overview h2") == "2 sessions"
    browser.click_on("#overview tbody tr:nth-child(2) button")
    browser.wait("!document.getElementById('session').hidden")
    assert browser.run("location.hash").startswith("#session=1&call=25")
    browser.press("Escape")
    browser.wait("!document.getElementById('overview').hidden")
    assert browser.complaints == []


def test_a_served_list_leads_to_a_session_and_back(browser, folded):
    """Pages from the server ask for nothing but themselves; Escape leads back to the list."""
    browser.complaints.clear()
    choices = [SessionChoice(OverviewRow(name), MadeSource(lambda: folded)) for name in ("one", "two")]
    pages = SessionPages(choices, title="made")
    with opened_server(pages) as server:
        browser.open(server.address)
        assert browser.text("#overview h2") == "2 sessions"
        browser.click_on("#overview tbody tr:nth-child(2) button")
        browser.wait("document.body?.dataset.ready === '1' && location.pathname.endsWith('/1')")
        assert call_of(browser) == 25
        browser.press("Escape")
        browser.wait("document.body?.dataset.ready === '1' && location.pathname.endsWith('/')")
        assert browser.text("#name") == "made"
        assert {url.removeprefix(server.address).partition("#")[0] for url in browser.requests} == {
            "",
            "1",
            "events?budget=0",
        }
        browser.run("location.href = 'about:blank'")
    assert browser.complaints == []


def rows_of(*names):
    """Rows of a list, each with its own figures."""
    return [
        OverviewRow(
            name,
            project=f"~/work/{name[:1]}",
            calls=place + 1,
            messages=9,
            sent_tokens=100,
            sent_usd=0.5 / (place + 1),
            recorded_usd=1.0 * (place + 1),
            whole_usd=2.0,
        )
        for place, name in enumerate(names)
    ]


def names_of(tab):
    return tab.run("[...document.querySelectorAll('#overview tbody tr td:first-child')].map((one) => one.textContent)")


def test_a_list_is_sorted_and_filtered(browser, tmp_path):
    """By any column, both ways, with the state in the address; sums are those of the sessions for which both bills are known."""
    browser.complaints.clear()
    path = tmp_path / "list.html"
    path.write_bytes(page((), PageOverview("made", tuple(rows_of("beta", "alpha", "gamma", "alpha/helper")))))
    browser.open(path.as_uri())
    assert names_of(browser) == ["beta", "alpha", "gamma", "↳ alpha/helper"]
    assert browser.text("#sums").startswith("$10.00recorded")
    browser.click_on("[data-key='sort name']")
    assert names_of(browser) == ["alpha", "↳ alpha/helper", "beta", "gamma"]
    browser.click_on("[data-key='sort sent']")
    assert names_of(browser)[0] == "beta"
    assert browser.run("document.querySelector('[aria-sort]').textContent").startswith("sent")
    browser.press("/")
    browser.command("Input.insertText", text="alph")
    browser.wait("document.querySelectorAll('#overview tbody tr').length === 2")
    where = browser.run("location.hash")
    browser.open(path.as_uri() + where)
    assert names_of(browser) == ["alpha", "↳ alpha/helper"]
    assert browser.complaints == []


def test_a_list_says_more_where_it_is_more(browser, tmp_path):
    """A bill that became larger is called so, in the sums and in its row; one session is "1 session", with its title."""
    dearer = OverviewRow("one", title="Mend it", calls=3, sent_tokens=9, sent_usd=0.6, whole_usd=0.4)
    path = tmp_path / "dearer.html"
    path.write_bytes(page((), PageOverview("made", (dearer,))))
    browser.open(path.as_uri())
    assert browser.text("#overview h2") == "1 session"
    assert browser.text("#sums").endswith("+50 %$0.20more than before")
    assert names_of(browser) == ["Mend it · one"]
    assert "50 % more" in browser.text("#overview tbody tr")


def test_thousands_of_sessions_are_listed(browser, tmp_path):
    """The first rows are there at once, and all of them on demand."""
    path = tmp_path / "many.html"
    path.write_bytes(page((), PageOverview("made", tuple(rows_of(*(f"session {i}" for i in range(3_000)))))))
    browser.open(path.as_uri())
    browser.wait("document.querySelectorAll('#overview tbody tr').length === 400")
    assert browser.text("#overview h2") == "3,000 sessions"
    browser.click_on("[data-key='all']")
    browser.wait("document.querySelectorAll('#overview tbody tr').length === 3000")


def test_the_budget_of_a_list_can_be_slid(browser, tmp_path):
    """Another budget has its own bills, which come while one looks; a session opens with the budget of its list."""
    made = [SessionChoice(OverviewRow(name, calls=25), MadeSource(None, looking)) for name in ("one", "two")]
    browser.complaints.clear()
    with opened_server(SessionPages(made, title="made", sent_as="60,000 tokens", at_budget=run_options)) as server:
        browser.open(server.address)
        browser.wait("!document.getElementById('waiting')")
        before = browser.text("#overview tbody tr")
        browser.run(
            "const slid = document.getElementById('budget'); slid.value = 1; slid.dispatchEvent(new Event('input'))"
        )
        browser.wait(
            "document.querySelector('output').textContent === ' 8,000 tokens' && !document.getElementById('waiting')"
        )
        assert "with 8,000 tokens" in browser.text("#overview thead")
        assert browser.text("#overview tbody tr") != before
        browser.click_on("#overview tbody tr button")
        browser.wait("document.body?.dataset.ready === '1' && location.search === '?budget=8000'")
        assert "of 8,000 tokens" in browser.text("#panel h2")
        browser.press("Escape")
        browser.wait("document.body?.dataset.ready === '1' && location.pathname.endsWith('/')")
        assert browser.text("output").strip() == "8,000 tokens"
        browser.run("location.href = 'about:blank'")
    assert browser.complaints == []


def test_compactions_sub_agents_and_the_hidden_part_are_shown(browser, folded, tmp_path):
    """The client's own compaction is named at its call, the part that nobody sees is counted, a sub-agent is a link."""
    browser.complaints.clear()
    run = folded.runs[0]
    calls = [
        msgspec.structs.replace(call, recorded=RecordedBill(5_000 + call.whole.tokens, 0, 0, 9, 0.01))
        for call in run.calls
    ]
    calls[9] = msgspec.structs.replace(calls[9], is_compacted=True)
    child = PageChild("made/helper", 4, 6, href="#session=1")
    shown = msgspec.structs.replace(
        folded, hidden=5_000, children=(child,), runs=(msgspec.structs.replace(run, calls=tuple(calls)),)
    )
    helper = msgspec.structs.replace(folded, name="made/helper")
    path = tmp_path / "parts.html"
    path.write_bytes(page([shown, helper]))
    browser.open(f"{path.as_uri()}#session=0&call=10")
    assert "The client compacted here" in notes_of(browser)
    assert "5.0knot visible here" in browser.text("#figures")
    assert "not visible here5,000" in browser.text("#panel")
    assert "As it was recorded" in browser.text("#panel")
    assert "orange line" in browser.text("#chart-note")
    assert browser.text(".lane a") == "helper"
    browser.click_on(".lane a")
    browser.wait("document.getElementById('name').textContent === 'made/helper'")
    assert browser.complaints == []


def test_a_report_draws_its_charts(browser, tmp_path):
    """Points, whiskers and lines are drawn, hostile names are letters, and the figures are a table."""
    browser.complaints.clear()
    path = tmp_path / "report.html"
    path.write_bytes(report_page(measured()))
    browser.open(path.as_uri())
    drawn = "document.querySelector('.scatter canvas')"
    pixels = f"{drawn}.getContext('2d').getImageData(0, 0, {drawn}.width, {drawn}.height).data"
    browser.wait(f"{pixels}.some((value) => value > 0)")
    assert browser.run("typeof window.hurt") == "undefined"
    assert browser.run("document.querySelectorAll('#overview tbody tr').length") == 3
    assert browser.complaints == []


def test_the_page_can_be_printed(opened):
    """Paper is white, everything that scrolled is laid out, and what is for clicking is left out."""
    opened.command("Emulation.setEmulatedMedia", media="print")
    assert opened.run("getComputedStyle(document.getElementById('tabs')).display") == "none"
    assert opened.run("getComputedStyle(document.getElementById('panel')).overflow") == "visible"
    opened.run("dispatchEvent(new Event('beforeprint'))")
    assert opened.run("document.documentElement.dataset.theme") == "light"
    pdf = opened.command("Page.printToPDF", printBackground=True)["data"]
    assert len(pdf) > 10_000
    opened.command("Emulation.setEmulatedMedia", media="")
