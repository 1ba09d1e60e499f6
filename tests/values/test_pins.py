"""Pins: an entry, a passage, a tool."""

from typing import Any

import pytest

import foveal
from foveal.dialects import DIALECTS
from foveal.recall import Fetch, fetch
from foveal.session.policy import BudgetTable
from foveal_bench.oldest import Oldest

OLDEST: Any = Oldest()  # untyped: benchmarks alone use it, and no policy names it
RULE = "Never touch the invoices table.\nAsk Dana before production."


def work(session, n, text="a line of output\n" * 60, tool="run"):
    for i in range(n):
        session.append(foveal.assistant("", foveal.ToolCall(f"{tool}_{i}", tool, f'{{"n": {i}}}')))
        session.append(foveal.result(f"{tool}_{i}", f"{tool} {i}\n{text}"))


def opened(dialect="openai_chat", limit=2_000, store=None):
    policy = foveal.Policy(budget=BudgetTable(limit=limit, reserve=0), recall=False)
    return foveal.Session(store or foveal.open_store(), "s", model=foveal.Model("gpt-5", dialect), policy=policy)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pinned_passage_outlives_its_entry(dialect):
    """Whatever becomes of the entry, the passage stands verbatim in every prompt."""
    session = opened(dialect)
    session.append(foveal.user("Begin."))
    session.append(foveal.assistant("", foveal.ToolCall("r", "read_rules", "{}")))
    rules = session.append(foveal.result("r", "preamble\n" * 200 + RULE + "\nafterword\n" * 200))
    session.append(foveal.Pin(rules.id, text=RULE))
    for i in range(30):
        work(session, 1, tool=f"run{i}")
        shown = " ".join(_strings(session.prompt().request))
        assert RULE in shown
    assert any(line.shown == "summary" for line in session.why().lines)


def test_an_unpinned_passage_goes_with_its_entry():
    """Unpinning takes back exactly that passage."""
    policy = foveal.Policy(budget=BudgetTable(limit=2_000, reserve=0), stages=(OLDEST,))
    session = foveal.Session(foveal.open_store(), "s", model="gpt-5", policy=policy)
    session.append(foveal.user("Begin."))
    session.append(foveal.assistant("", foveal.ToolCall("r", "read_rules", "{}")))
    rules = session.append(foveal.result("r", "preamble\n" * 100 + RULE))
    session.append(foveal.Pin(rules.id, text=RULE))
    session.append(foveal.Unpin(rules.id, text=RULE))
    work(session, 30)
    assert RULE not in " ".join(_strings(session.prompt().request))


def test_a_passage_that_is_not_there_is_refused():
    """A typo in a pin is told at once, and nothing is recorded."""
    session = opened()
    entry = session.append(foveal.user("Begin."))
    with pytest.raises(foveal.errors.BadEntry, match="does not stand in entry"):
        session.append(foveal.Pin(entry.id, text="End."))
    with pytest.raises(foveal.errors.BadEntry, match="an entry or a tool"):
        session.append(foveal.Pin())
    assert session.view.facts.head == entry.id


def test_the_results_of_a_pinned_tool_are_never_folded():
    """Also those that came before the pin, if no fold has covered them, and those that come after it."""
    session = opened(limit=4_000)
    session.append(foveal.user("Begin."))
    work(session, 1, "the plan\n" * 30, tool="plan")
    work(session, 4)
    session.prompt()
    session.append(foveal.Pin(tool="plan"))
    work(session, 12, tool="more")
    lines = {line.entry: line for line in session.prompt().trace.lines}
    pinned = [line for line in lines.values() if line.kind == "tool" and line.tokens > 60 and line.shown == "full"]
    assert "plan 0\n" + "the plan\n" * 30 in " ".join(_strings(session.prompt().request))
    assert pinned
    session.append(foveal.Unpin(tool="plan"))
    work(session, 12, tool="last")
    assert "the plan\nthe plan" not in " ".join(_strings(session.prompt().request))


def test_a_result_that_is_fetched_twice_is_shown_again_after_the_next_fold():
    """Asking again and again costs more than showing it."""
    policy = foveal.Policy(budget=BudgetTable(limit=4_000, reserve=0))
    session = foveal.Session(foveal.open_store(), "s", model="gpt-5", policy=policy)
    session.append(foveal.user("Begin."))
    session.append(foveal.assistant("", foveal.ToolCall("r", "read", '{"path": "key.txt"}')))
    wanted = session.append(foveal.result("r", "\n".join(f"key {i} = {i * 7919}" for i in range(40))))
    while "recall_context" not in str(session.prompt().request.get("tools")):
        work(session, 1, tool=f"run{session.view.facts.calls}")
    assert all(line.entry != wanted.id or line.shown != "full" for line in session.why().lines)
    ref = wanted.id[:10]
    for i in range(2):
        session.append(foveal.assistant("", foveal.ToolCall(f"fetch{i}", "recall_context", f'{{"ref": "{ref}"}}')))
        assert session.serve() == []
    folds = session.view.facts.folds
    while session.view.facts.folds == folds:
        work(session, 1, tool=f"on{session.view.facts.calls}")
        session.prompt()
    assert "\n".join(f"key {i} = {i * 7919}" for i in range(40)) in " ".join(_strings(session.prompt().request))


def test_a_renderer_of_the_hosts_shows_the_result():
    """What the model sees is the host's own line; the original is one recall away."""
    rule = foveal.RetentionRule(renderer="count")
    session = foveal.Session(
        foveal.open_store(),
        "s",
        model="gpt-5",
        host=foveal.Host(retention={"run": rule}, renderers={"count": lambda text: f"{len(text.splitlines())} lines"}),
    )
    session.append(foveal.user("Begin."))
    work(session, 1)
    (shown,) = [message["content"] for message in session.prompt().request["messages"] if message["role"] == "tool"]
    assert shown.startswith("61 lines\n[shown by count; ref ")
    with pytest.raises(foveal.errors.BadPolicy, match="no renderer 'count'"):
        foveal.Session(foveal.open_store(), "t", model="gpt-5", host=foveal.Host(retention={"run": rule})).extend(
            [foveal.assistant("", foveal.ToolCall("c", "run", "{}")), foveal.result("c", "x " * 100)]
        )


def test_an_application_pages_through_what_the_model_sees_by_reference():
    """The same result has a rendering for the model and one for people."""
    store = foveal.open_store()
    session = foveal.Session(
        store, "s", model="gpt-5", host=foveal.Host(retention={"run": foveal.RetentionRule(mode="reference")})
    )
    session.append(foveal.user("Begin."))
    work(session, 1, "".join(f"row {i}\n" for i in range(120)))
    entry = next(line.entry for line in session.why().lines if line.shown == "reference")
    second = fetch(store, "s", Fetch(entry[:10], offset=50, limit=50))
    assert (second.total, second.text.splitlines()[0]) == (121, "row 49")
    assert fetch(store, "s", Fetch(entry[:10], limit=11, unit="characters")).text == "run 0\nrow 0"


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
