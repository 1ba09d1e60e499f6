"""Each stage of the default policy, alone."""

from typing import Any

from foveal.session.policy import BudgetTable, Clear, Policy, Shorten, Superseded
from foveal.testing import oracles
from foveal.testing.builders import MODELS, open_session
from foveal.values.entry import Message, Opaque, PartFold, Text, ToolCall, assistant, result, user
from foveal_bench.oldest import Oldest


def limited(tokens: int, *stages: Any) -> Policy:
    """`Oldest` is among the stages, which no policy names."""
    return Policy(budget=BudgetTable(limit=tokens, reserve=0), stages=stages)


def test_results_of_the_same_call_point_to_the_newest_result() -> None:
    """Of three reads of one file the newest is shown, the others by a reference to it."""
    session = open_session(policy=limited(1_500, Superseded()))
    session.append(user("Go."))
    found = []
    for i in range(3):
        session.append(assistant("", ToolCall(f"c{i}", "read", '{"path": "a.py"}')))
        found.append(session.append(result(f"c{i}", "word " * 550)).id)
    prompt = session.prompt()
    assert prompt.fold
    assert [(item.level, item.policy) for item in prompt.fold.items] == [("reference", "superseded")] * 2
    assert all(found[2][:10] in item.text for item in prompt.fold.items)


def test_a_repeat_that_failed_replaces_nothing() -> None:
    """The last good result of a call stays when the same call fails afterwards."""
    session = open_session(policy=limited(1_100, Superseded(), Clear(keep=0.0)))
    session.append(user("Go."))
    for i, (text, status) in enumerate((("good " * 500, "ok"), ("cannot open " * 300, "error"))):
        session.append(assistant("", ToolCall(f"c{i}", "read", "{}")))
        session.append(result(f"c{i}", text, status=status))  # type: ignore[arg-type]
    prompt = session.prompt()
    assert prompt.fold
    assert "superseded" not in {item.policy for item in prompt.fold.items}


def test_a_stand_in_that_is_longer_is_not_used() -> None:
    """Covering short messages by a longer line is no fold: the view only ever gets smaller."""
    from foveal.values.entry import Pin  # noqa: PLC0415 - nowhere else

    session = open_session(limit=640)
    session.append(user("Go."))
    for i in range(60):
        entry = session.append(user(f"note {i}"))
        if i % 2:
            session.append(Pin(entry.id))
    session.append(assistant("word " * 200))
    session.append(user("Now."))
    prompt = session.prompt()
    assert prompt.fold
    assert prompt.fold.after < prompt.fold.before
    assert prompt.tokens <= 640


def test_a_providers_own_parts_go_together() -> None:
    """A hosted search and what it found are both shown or both not."""
    search = Opaque(
        "anthropic", '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}'
    )
    found = Opaque(
        "anthropic",
        '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"'
        + "long title " * 400
        + '","url":"https://example.org","encrypted_content":"QUJD"}]}',
    )
    session = open_session(dialect="anthropic", policy=limited(1_000, Clear(keep=0.0)))
    session.append(user("Search."))
    session.append(Message("assistant", (search, found, Text("Found.")), MODELS["anthropic"]))
    session.append(user("Thanks."))
    prompt = session.prompt()
    assert prompt.fold
    kinds = {block["type"] for wire in prompt.wires for block in wire["content"]}
    assert kinds == {"text"}
    assert oracles.problems(prompt) == []


def test_oldest_covers_no_more_than_needed() -> None:
    """The newest quarter of the limit stays, and the first request."""
    session = open_session(policy=limited(2_000, Oldest()))
    session.append(user("The task."))
    for i in range(40):
        session.append(assistant(f"answer {i} " * 20))
        session.append(user(f"question {i}"))
    prompt = session.prompt()
    kinds = [line.kind for line in prompt.trace.lines]
    assert kinds[:2] == ["user", "range"]
    assert kinds.count("range") == 1
    assert 500 <= prompt.tokens <= 1_300


def test_shorten_keeps_both_ends() -> None:
    """An old large result is shown by its first and last lines, with the reference between."""
    session = open_session(policy=limited(3_000, Shorten(keep=0.0)))
    session.append(user("Go."))
    session.append(assistant("", ToolCall("c1", "read", "{}")))
    entry = session.append(result("c1", "\n".join(f"line {i}" for i in range(2_000))))
    text = "\n".join(oracles.strings(session.prompt().request))
    assert "line 0\n" in text
    assert "line 1999" in text
    assert entry.id[:10] in text


def test_shorten_cuts_what_arrived_cut_once() -> None:
    """The ends of an artifact are large themselves: they are cut like any result, under the same reference, and not again."""
    session = open_session(policy=limited(3_000, Shorten(keep=0.0), Clear(keep=0.0)))
    session.append(user("Go."))
    session.append(assistant("", ToolCall("c1", "read", "{}")))
    entry = session.append(result("c1", "\n".join(f"line {i}" for i in range(100_000))))
    first = session.prompt()
    assert first.fold
    assert [(item.level, item.policy) for item in first.fold.items] == [("trimmed", "shorten")]
    text = "\n".join(oracles.strings(first.request))
    assert all(word in text for word in ("line 0\n", "line 99999", entry.id[:10]))
    for i in range(2, 6):
        session.append(assistant("", ToolCall(f"c{i}", "read", f'{{"n": {i}}}')))
        session.append(result(f"c{i}", "\n".join(f"row {i} of {n}" for n in range(200))))
        fold = session.prompt().fold
        again = [(item.policy, item.entry) for item in fold.items if isinstance(item, PartFold)] if fold else []
        assert ("shorten", entry.id) not in again


def test_the_newest_result_is_cut_last_and_gently() -> None:
    """A result that the model has just asked for keeps far more than the old ones, even if it is the largest of all."""
    plain = [Shorten(plain=True), Shorten(over=0.25, to=0.2, keep=0.0, plain=True), Clear(), Oldest()]
    session = open_session(policy=limited(16_000, *plain))
    session.append(user("Go."))
    sizes = [3_000] * 4 + [9_000]
    for i, size in enumerate(sizes):
        session.append(assistant("", ToolCall(f"c{i}", "read", f'{{"n": {i}}}')))
        session.append(result(f"c{i}", "\n".join(f"line {i} of {n}" for n in range(size // 7))))
    lines = [line for line in session.prompt().trace.lines if line.kind == "tool"]
    assert lines[-1].tokens > 2_000
    assert all(line.tokens < 300 for line in lines[:-1])


def test_the_thinking_that_opened_a_running_loop_stays_and_that_of_finished_ones_goes() -> None:
    """A loop is over when the model answers without a call; a request in the middle of it does not end it."""
    from foveal.values.entry import Thinking  # noqa: PLC0415 - nowhere else

    session = open_session(dialect="anthropic", limit=4_000)

    def step(i: int, thought: str = "") -> None:
        call = ToolCall(f"c{i}", "read", f'{{"n": {i}}}')
        parts = (Thinking(thought, "c2ln"), call) if thought else (call,)
        session.append(Message("assistant", parts, MODELS["anthropic"]))
        session.append(result(f"c{i}", "word " * 120))

    session.append(user("First."))
    step(0, "old thought")
    session.append(Message("assistant", (Text("Done."),), MODELS["anthropic"]))
    session.append(user("Second."))
    step(1, "opening thought")
    session.append(user("Faster!"))
    prompt = None
    for i in range(2, 30):
        step(i)
        prompt = session.prompt()
        assert oracles.problems(prompt) == []
    assert prompt is not None
    thoughts = [block["thinking"] for wire in prompt.wires for block in wire["content"] if block["type"] == "thinking"]
    assert thoughts == ["opening thought"]
