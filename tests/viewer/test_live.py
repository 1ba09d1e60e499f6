"""Sessions that another process writes while somebody looks: what a page is told, and that it adds up."""

import re
import threading

import msgspec
import pytest

from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores import MemoryStore, open_store
from foveal.values.entry import ToolCall, assistant, result, user
from foveal.values.errors import NotFound
from foveal.viewer.builder import stored_page
from foveal.viewer.choices import StoredSessions
from foveal.viewer.live import LiveSession, Possession
from foveal.viewer.server import opened_server
from foveal.viewer.session_pages import SessionPages

POLICY = Policy(budget=BudgetTable(limit=4_000, reserve=0))


class Agent:
    """A session that is stepped one call at a time."""

    def __init__(self, store, name="running"):
        self.session = Session(store, name, model="gpt-5", policy=POLICY)
        self.session.append(user("Look at everything."))
        self.steps = 0

    def step(self, times=1):
        for _ in range(times):
            self.steps += 1
            self.session.prompt()
            call = ToolCall(f"c{self.steps}", "read_file", f'{{"path": "{self.steps}.py"}}')
            self.session.extend([assistant("", call), result(call.id, f"line of {self.steps}\n" * 120)])


def had_of(page, reading=1):
    run = page.runs[0]
    answered = sum(call.is_answered for call in run.calls)
    sizes = (len(one) for one in (run.lines, page.words, page.texts, page.recalls))
    return Possession(reading, len(page.entries), answered, *sizes)


def grown(page, growth):
    """The data of a page after it was given a growth, as the script of the page does it."""
    run = page.runs[0]
    answered = sum(call.is_answered for call in run.calls)
    new = msgspec.structs.replace(
        growth.run, calls=(*run.calls[:answered], *growth.calls), lines=(*run.lines, *growth.lines)
    )
    pools = {name: (*getattr(page, name), *getattr(growth, name)) for name in ("entries", "recalls", "words", "texts")}
    return msgspec.structs.replace(page, runs=(new,), children=growth.children, **pools)


def shown(page):
    """Everything that a page shows of its prompts, without the numbers that words, texts and lines have."""
    run, calls, before = page.runs[0], [], []
    for call in run.calls:
        before = [*before[: call.kept], *call.lines]
        lines = [run.lines[number] for number in before]
        prompt = [
            (line.first, line.last, page.words[line.shown], page.words[line.because], line.tokens) for line in lines
        ]
        calls.append((msgspec.structs.replace(call, kept=0, lines=()), prompt))
    return calls, run.folds, run.total, [entry.id for entry in page.entries]


@pytest.mark.parametrize("stride", [1, 3, 7])
def test_a_page_that_grew_is_the_page_that_is_built_anew(stride):
    """Bills, folds, prompts and sums are those of one pass over the whole log, however it was cut into pieces."""
    store = MemoryStore()
    agent = Agent(store)
    agent.step(2)
    live = LiveSession(store, "running")
    page = live.page()
    for _ in range(0, 21, stride):
        agent.step(stride)
        agent.session.prompt()  # its fold, if it makes one, is read before its reply
        growth = live.growth(had_of(page))
        assert growth is not None
        assert len(growth.calls) == stride + 1  # and the next one
        page = grown(page, growth)
    assert len(page.runs[0].folds) > 2
    assert shown(page) == shown(stored_page(store, "running"))


def test_two_readers_are_told_the_same():
    """What one reader was told is not missing for another one that came earlier."""
    store = MemoryStore()
    agent = Agent(store)
    agent.step()
    live = LiveSession(store, "running")
    first = live.page()
    agent.step(4)
    second = live.page()
    agent.step(4)
    pages = [grown(page, live.growth(had_of(page))) for page in (first, second)]
    assert shown(pages[0]) == shown(pages[1])


def test_a_rewind_makes_the_page_load_anew():
    """A branch changes what was read before: a page that has the old reading is told to load."""
    store = MemoryStore()
    agent = Agent(store)
    agent.step(3)
    live = LiveSession(store, "running")
    before = live.page()
    head = agent.session.view.facts.head or ""
    agent.step(2)
    agent.session.branches.rewind(head)
    agent.step()
    assert live.growth(had_of(before)) is None
    page = live.page()
    assert shown(page) == shown(stored_page(store, "running"))
    assert live.growth(had_of(page, live.reading)) is not None


def test_a_session_is_followed_from_before_its_first_prompt():
    """Until there is a prompt there is no page; from then on there is one."""
    store = MemoryStore()
    agent = Agent(store)
    live = LiveSession(store, "running")
    with pytest.raises(NotFound, match="has no prompt yet"):
        live.page()
    agent.step(2)
    assert shown(live.page()) == shown(stored_page(store, "running"))


def test_children_have_their_place_among_the_calls():
    """A child was opened after some call of its parent, and its lane begins there."""
    store = MemoryStore()
    agent = Agent(store)
    agent.step(4)
    with agent.session.children.open("helper", "Count the files.") as child:
        child.prompt()
        child.append(assistant("Seven."))
    agent.step(4)
    (lane,) = LiveSession(store, "running").page().children
    assert lane.name == "running/helper"
    assert 1 <= lane.first <= lane.last <= 8


@pytest.mark.parametrize(
    "words", ["", "1.2", "1.2.3.4.5.6.x", "-1.2.3.4.5.6.7", "1.2.3.4.5.6.7.8", "9999999999.1.1.1.1.1.1"]
)
def test_bad_words_say_nothing(words):
    """The address of a stream is a stranger's word."""
    assert Possession.read(words) is None


def test_a_store_is_followed_while_another_writes(tmp_path):
    """New sessions come to the list, and running ones are told anew with their bills and their pressure."""
    path = tmp_path / "agent.db"
    with open_store(path) as writing, open_store(path) as reading:
        agent = Agent(writing)
        agent.step(2)
        pages = SessionPages(title="live", store=StoredSessions(reading, str(path)))
        stop, rows = threading.Event(), {}
        worker = threading.Thread(target=pages.work, args=(stop,), daemon=True)
        worker.start()
        for event in pages.list_events(0, stop):
            if event is None:
                continue
            rows[event.row.name] = event.row
            if rows["running"].calls == 2 and agent.steps == 2:
                agent.step(6)
                Agent(writing, "second").step(2)
            if rows["running"].calls == 8 and rows.get("second", event.row).calls == 2:
                stop.set()
        worker.join(30)
        assert rows["running"].is_running
        assert 0 < rows["running"].pressure < 1
        assert rows["running"].sent_usd > 0


def test_a_browser_follows_a_session(browser, tmp_path):
    """The page moves on with the newest call while another process writes, and stays where its reader goes instead."""
    path = tmp_path / "agent.db"
    browser.complaints.clear()
    with open_store(path) as writing, open_store(path) as reading:
        agent = Agent(writing)
        agent.step(3)
        pages = SessionPages(title="live", store=StoredSessions(reading, str(path), "running"), is_one=True)
        with opened_server(pages) as server:
            browser.open(server.address)
            assert browser.text("#live") == "● live"
            agent.step(5)
            browser.wait("document.querySelector('#figures b').textContent === '8'")
            assert re.match(r"Call 9 (?!of).* the next one, not answered yet\Z", browser.text("#panel h2"))
            assert "of the limit now" in browser.text("#figures")
            browser.press("Home")
            assert browser.text("#live") == "○ live, paused"
            agent.step(2)
            browser.wait("document.querySelector('#figures b').textContent === '10'")
            assert browser.text("#panel h2").startswith("Call 1 of 10")
            browser.press("l")
            assert re.match(r"Call 11 (?!of).* the next one, not answered yet\Z", browser.text("#panel h2"))
            assert all(url.startswith(server.address) for url in browser.requests)
            browser.run("location.href = 'about:blank'")
    assert browser.complaints == []
