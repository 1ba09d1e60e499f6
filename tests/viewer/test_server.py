"""Pages that are served on this machine: who is answered, with what, and what a list holds."""

import http.client
import json
import threading
from typing import Any

import pytest

from foveal.analysis.inspect.cost import cost
from foveal.analysis.replay.replay import replay
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.values.entry import user
from foveal.values.errors import NotFound
from foveal.viewer.choices import SessionChoice, StoredSessions, local_choices, recorded_choices
from foveal.viewer.document import OverviewRow, overview_row
from foveal.viewer.server import opened_server
from foveal.viewer.session_pages import SessionPages

from .conftest import MadeSource, looking, recording, run_options
from .test_page import blocks

CHAT = '{"id": "NAME", "source": "made", "license": "MIT", "model": null, "tools": [], "meta": {}, "messages": [' + (
    '{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello to you."}]}\n'
)


@pytest.fixture
def store_path(tmp_path):
    """A store with two sessions."""
    path = tmp_path / "agent.db"
    with open_store(path) as store:
        for name in ("first", "second"):
            policy = Policy(budget=BudgetTable(limit=4_000, reserve=0))
            replay(recording(*looking(calls=8), name=name), policy=policy, store=store)
    return path


@pytest.fixture
def served(store_path):
    with (
        open_store(store_path) as store,
        opened_server(SessionPages(StoredSessions(store, str(store_path)).choices(), title="agent.db")) as server,
    ):
        yield server


def asked(server, path, *, host=None, method="GET"):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer, body


def test_the_list_leads_to_every_session(served):
    """The first page lists the sessions of the store; each has a page of its own, from which a way leads back."""
    answer, body = asked(served, f"/{served.token}/")
    assert answer.status == 200
    rows = blocks(body)["overview-data"]["sessions"]
    assert sorted(row["name"] for row in rows) == ["first", "second"]
    for row in rows:
        answer, body = asked(served, f"/{served.token}/{row['href']}")
        found = blocks(body)
        assert found["session-0"]["name"] == row["name"]
        assert found["overview-data"]["home"] == "./"


def test_the_only_session_is_the_first_page(store_path):
    """Nobody has to choose from a list of one."""
    with open_store(store_path) as store:
        pages = SessionPages(StoredSessions(store, str(store_path), "second").choices(), title="second")
        assert blocks(pages.first().decode())["session-0"]["name"] == "second"


@pytest.mark.parametrize("path", ["/", "/0", "/wrong/", "/wrong/0", "/%2e%2e/", "//"])
def test_without_the_secret_there_is_nothing(served, path):
    """The address that was printed is the only way in; the answer tells nothing of the sessions."""
    answer, body = asked(served, path)
    assert answer.status == 404
    assert "first" not in body


@pytest.mark.parametrize(
    "name", ["9", "99999999999999999999", "..", "0/1", "-1", "x", "0events", "events/0", "0/events/"]
)
def test_an_unknown_page_is_not_there(served, name):
    """Numbers of no session, and paths that are no numbers, are refused."""
    assert asked(served, f"/{served.token}/{name}")[0].status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost"])
def test_another_host_is_refused(served, host):
    """A page from elsewhere that resolves its own name to this machine is not answered."""
    assert asked(served, f"/{served.token}/", host=host)[0].status == 403
    assert asked(served, f"/{served.token}/", host=f"localhost:{served.server_port}")[0].status == 200


def test_answers_are_not_kept_and_not_framed(served):
    """The headers keep the page out of caches, frames and other pages' referrers."""
    answer, body = asked(served, f"/{served.token}/", method="HEAD")
    assert body == ""
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_nothing_can_be_written(served):
    """Only reading is answered."""
    assert asked(served, f"/{served.token}/", method="POST")[0].status == 501


def test_a_session_that_goes_on_is_read_anew(store_path):
    """Reloading shows what has come since."""
    with open_store(store_path) as reading:
        pages = SessionPages(StoredSessions(reading, str(store_path), "second").choices(), title="second")
        before = blocks(pages.first().decode())["session-0"]["entries"]
        with open_store(store_path) as store, Session(store, "second", model="gpt-5") as session:
            session.append(user("And now?"))
        after = blocks(pages.first().decode())["session-0"]["entries"]
    assert len(after) == len(before) + 1


def neutral_line(name):
    """A recording of a long session, as one line of a file."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at everything."}]
    for i in range(30):
        call = {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {i}}}'}}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{i}", "content": f"line of {i}\n" * 200})
    record = {"id": name, "source": "made", "license": "MIT", "model": None, "tools": [], "meta": {}}
    return json.dumps({**record, "messages": messages}) + "\n"


def told(pages, budget=0):
    """All rows that a list is told until every bill is known, and the number of rows that came before that."""
    stop, rows = threading.Event(), {}
    worker = threading.Thread(target=pages.work, args=(stop,), daemon=True)
    worker.start()
    for event in pages.list_events(budget, stop):
        if event:
            rows[event.number] = event.row
        if rows and all(row.error or row.sent_tokens for row in rows.values()) and len(rows) == pages.count:
            stop.set()
    worker.join(30)
    return [rows[number] for number in sorted(rows)]


def test_a_list_learns_the_bills(tmp_path):
    """Rows of recordings have calls at once, and bills as soon as they were replayed."""
    file = tmp_path / "chats.jsonl"
    file.write_text("".join(CHAT.replace("NAME", name) for name in ("one", "two", "three")))
    pages = SessionPages(recorded_choices([file], [run_options(8_000)]), title="chats", sent_as="8,000 tokens")
    before = blocks(pages.first().decode())["overview-data"]
    assert [(row["calls"], row["messages"], row["sent_usd"]) for row in before["sessions"]] == [(1, 2, None)] * 2
    rows = told(pages)
    assert [row.name for row in rows] == ["one", "two", "three"]
    assert all(row.sent_usd > 0 for row in rows)
    assert blocks(pages.first().decode())["overview-data"]["sessions"][2]["sent_usd"] == rows[2].sent_usd


def test_the_bills_of_a_list_are_asked_for_at_a_budget(tmp_path):
    """A smaller budget has a bill of its own, and the page of a session opens with the budget of its list."""
    file = tmp_path / "long.jsonl"
    file.write_text(neutral_line("long") + neutral_line("other"))
    pages = SessionPages(recorded_choices([file], [run_options(60_000)]), title="x", at_budget=run_options)
    first, second = (told(pages, budget)[0] for budget in (0, 8_000))
    assert first.folds == 0 < second.folds
    assert second.sent_tokens < first.sent_tokens
    shown = blocks(pages.session(0, 8_000).decode())
    assert shown["session-0"]["runs"][0]["name"] == "8,000 tokens"
    assert shown["overview-data"]["home"] == "./?budget=8000"
    assert shown["session-0"]["runs"][0]["total"]["sent_tokens"] == second.sent_tokens


def test_a_session_that_cannot_be_built_says_why():
    """Its row has the reason, and so has the answer; the others are not touched."""

    def fail():
        raise NotFound("it has no prompt yet")

    pages = SessionPages([SessionChoice(OverviewRow(name), MadeSource(fail)) for name in ("bad", "worse")], title="x")
    assert [row.error for row in told(pages)] == ["it has no prompt yet"] * 2
    with opened_server(pages) as server:
        answer, body = asked(server, f"/{server.token}/0")
    assert (answer.status, body) == (500, "it has no prompt yet\n")


def test_sessions_of_agents_are_found_and_left_alone(tmp_path):
    """The folders of the agents are read, newest first; a file that is no session is a row that says so."""
    home = tmp_path / "home"
    folder = home / ".pi" / "agent" / "sessions" / "project"
    folder.mkdir(parents=True)
    good, bad = folder / "good.jsonl", folder / "bad.jsonl"
    good.write_text(
        '{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00Z","cwd":"/work"}\n'
        '{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"Hello."}}\n'
        '{"type":"message","id":"b","parentId":"a","message":{"role":"assistant","content":[{"type":"text","text":"Hi."}]}}\n'
    )
    bad.write_text("{nothing\n")
    stamps = [path.stat().st_mtime_ns for path in (good, bad)]
    found = list(local_choices([run_options(8_000)], 5, home=home, environment={}))
    assert [bool(choice.row.error) for choice in found] == [choice.row.name == "bad.jsonl" for choice in found]
    assert sorted(choice.row.calls for choice in found) == [0, 1]
    assert [path.stat().st_mtime_ns for path in (good, bad)] == stamps
    (good_one,) = [choice for choice in found if not choice.row.error]
    assert (good_one.row.project, good_one.row.messages) == ("/work", 2)
    page = good_one.source.page()
    assert page.runs[0].total.calls == 1


def counted_line(*, compacted, extra=20_000):
    """A recording with the provider's counts: ours and a fixed part that the file does not hold."""
    record = json.loads(neutral_line("counted"))
    record["model"] = "gpt-5"
    tokens, usage = 0, []
    for index, message in enumerate(record["messages"]):
        if message["role"] == "assistant":
            cached = usage[-1][1] if usage else 0
            usage.append([index, tokens + extra, 20, cached])
        tokens += len(str(message["content"])) // 2
    record["meta"] = {"usage": usage, "compactions": [{"index": 31}] * compacted}
    return json.dumps(record) + "\n"


@pytest.mark.parametrize("compacted", [False, True])
def test_a_bill_that_is_compared_with_the_recorded_one_is_in_its_counts(tmp_path, compacted):
    """Without a fold nothing was saved, although the file lacks the fixed part that the provider counted with each call."""
    file = tmp_path / "counted.jsonl"
    file.write_text(counted_line(compacted=compacted))
    (choice,) = recorded_choices([file], [run_options(60_000)])
    row = choice.source.row()
    assert row.folds == 0
    assert row.sent_usd == row.whole_usd
    assert row.sent_usd == pytest.approx(row.recorded_usd, rel=0.25 if compacted else 1e-9)
    folded = choice.source.row(run_options(8_000))
    assert folded.folds > 0
    page = choice.source.page()
    assert 15_000 < page.hidden < 25_000
    assert [call.call for call in page.runs[0].calls if call.is_compacted] == [16] * compacted
    made = overview_row(page)
    assert (made.recorded_usd, made.sent_usd, made.whole_usd) == pytest.approx(
        (row.recorded_usd, row.sent_usd, row.whole_usd)
    )


@pytest.fixture
def reported():
    """A store with a session of which nothing was folded, and of which the provider counted a quarter of our tokens."""
    store = open_store()
    with Session(store, "own", model="gpt-5") as session:
        for n in range(4):
            session.append(user(f"{n} " + "word " * 2_000))
            tokens = session.prompt().tokens // 4
            message = {"role": "assistant", "content": "Well."}
            usage = {"prompt_tokens": tokens, "completion_tokens": 20, "total_tokens": tokens + 20}
            session.append({"choices": [{"message": message}], "usage": usage})
    store.entitle("own", "Mend the login")
    yield store
    store.close()


def test_a_session_that_foveal_sent_is_billed_in_one_count(reported):
    """The provider's bill of its prompts is no recorded one that they are compared with: without a fold nothing was saved."""
    (choice,) = StoredSessions(reported, "agent.db").choices()
    row, total = choice.source.row(), cost(reported, "own").total
    assert total.estimated_usd is not None
    assert total.reported_usd is not None
    assert total.output_usd is not None
    assert total.estimated_usd > 1.5 * total.reported_usd > 0
    assert row.recorded_usd is None
    assert row.sent_usd == pytest.approx(total.reported_usd + total.output_usd)
    assert row.whole_usd == pytest.approx(row.sent_usd)
    made = overview_row(choice.source.page())
    assert (made.recorded_usd, made.sent_usd) == (None, pytest.approx(row.sent_usd))


def test_a_list_has_the_titles_of_sessions(reported):
    """The line that a person gave a session is in its row, from the beginning and with its bill."""
    (choice,) = StoredSessions(reported, "agent.db").choices()
    assert choice.row.title == choice.source.row().title == "Mend the login"
