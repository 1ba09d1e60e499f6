"""The session: the order of things, ids, references, branches, errors."""

from typing import Any

import pytest

from foveal import keep_stream
from foveal.session import tool_list
from foveal.session.policy import BudgetTable, Policy
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, Asks, Player, open_session
from foveal.testing.strategies import tiny_png
from foveal.values.entry import (
    File,
    Message,
    Pin,
    Text,
    ToolCall,
    ToolResult,
    Unpin,
    Usage,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import BadEntry, BadInput, BadPolicy, NotFound

DIALECTS = sorted(MODELS)
CALL = ToolCall("c1", "read", "{}")
REPLY: dict[str, Any] = {
    "model": "gpt-5-2025-08-07",
    "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 20, "completion_tokens": 3},
}


def sent(player: Player) -> str:
    return "\n".join(oracles.strings(player.prompts[-1].request))


def test_a_reply_appended_twice_under_one_id_is_kept_once() -> None:
    """A retry of a provider's reply adds neither the message nor its usage again."""
    session = open_session()
    session.append(user("Hi."))
    session.prompt()
    first = session.append(REPLY, id="reply-1")
    seq = session.view.facts.seq
    assert session.append(REPLY, id="reply-1") == first
    assert session.view.facts.seq == seq


@pytest.mark.parametrize(
    "body",
    [
        Message("user", ("text",)),  # type: ignore[arg-type]
        Message("tool", (ToolResult("c1", "text"),)),  # type: ignore[arg-type]
        Message("user", (Text(5),)),  # type: ignore[arg-type]
        Message("user", (File("text/plain", "a", "text"),)),  # type: ignore[arg-type]
        Message("narrator", (Text("x"),)),  # type: ignore[arg-type]
        Message("assistant", (Text("x"),), stop="bored"),  # type: ignore[arg-type]
        Message("system", (File("text/plain", "a", b"x"),)),
        Usage("gpt-5", "many", 1),  # type: ignore[arg-type]
        Pin(7),  # type: ignore[arg-type]
    ],
)
def test_what_no_log_can_hold_is_refused_and_nothing_is_kept(body: object) -> None:
    """A body of the wrong shape is a `BadEntry` before anything is written, and the session goes on."""
    session = open_session()
    session.append(user("Hi."))
    with pytest.raises(BadEntry):
        session.append(body)
    assert session.view.facts.seq == 1
    assert session.prompt()


def test_lists_are_kept_as_the_log_will_give_them_back() -> None:
    """Parts given as a list are the caller's to change afterwards; the entry is not."""
    parts = [Text("Hi.")]
    session = open_session()
    entry = session.append(Message("user", parts))  # type: ignore[arg-type]
    parts.append(Text("What?"))
    assert entry.body == user("Hi.")
    assert "What?" not in "".join(oracles.strings(session.prompt().request))


@pytest.mark.parametrize("stem", ["message-number-", "a.b..c.", "01hzxk5yq9", "é"])
def test_own_ids_that_begin_alike_can_be_recalled(stem: str) -> None:
    """References to entries with ids of the caller's making lead to the right one, dots or not."""
    session = open_session(limit=1_500)
    session.append(user("Go."), id=f"{stem}go")
    for i in range(12):
        session.append(assistant("", ToolCall(f"c{i}", "read", f'{{"n": {i}}}')), id=f"{stem}{i}-asked")
        session.append(result(f"c{i}", f"only {i}. " * 60), id=f"{stem}{i}-found")
        session.prompt()
    for line in session.why().lines:
        if line.kind == "range":
            assert "only 0." in session.recall(line.entry)
    assert session.recall(f"{stem}3-found").startswith("only 3.")
    assert session.recall(f"{stem}3-found.0").startswith("only 3.")
    with pytest.raises(NotFound):
        session.recall(f"{stem}3-found.1")


def test_a_range_does_not_show_what_was_rewound() -> None:
    """A branch that was left is not part of what a range reference stands for."""
    player = Player(limit=1_500)
    player.play([user("Go."), assistant("kept answer")])
    player.append(user("abandoned question"))
    player.session.branches.rewind(player.entries[1])
    for i in range(30):
        player.play([user(f"question {i}"), assistant("word " * 60), Asks()])
    line = next(line for line in player.prompts[-1].trace.lines if line.kind == "range")
    transcript = player.session.recall(line.entry)
    assert "kept answer" in transcript
    assert "abandoned question" not in transcript


def test_a_range_reaches_to_a_late_result() -> None:
    """A result that came after younger entries is behind the reference that covers its call."""
    player = Player(limit=1_500)
    player.play([user("Go."), assistant("", CALL), user("Meanwhile."), result("c1", "the late result")])
    for i in range(30):
        player.play([user(f"question {i}"), assistant("word " * 60), Asks()])
    line = next(line for line in player.prompts[-1].trace.lines if line.kind == "range")
    assert "the late result" in player.session.recall(line.entry)


def test_bytes_that_are_no_text_can_be_recalled() -> None:
    """An artifact of arbitrary bytes is read with U+FFFD for what is no character."""
    store = MemoryStore()
    session = open_session(store)
    session.append(user("Go."))
    session.append(assistant("", CALL))
    entry = session.append(Message("tool", (ToolResult("c1", (keep_stream(store, [b"\xff\xfe", b"text"]),)),)))
    assert session.recall(entry.id) == "\ufffd\ufffdtext"
    assert oracles.problems(session.prompt()) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_artifact_can_be_a_request(dialect: str) -> None:
    """Text that a user gave as an artifact is shown by its ends."""
    player = Player(dialect=dialect)
    stored = keep_stream(player.store, [b"first line\n", b"x" * 40_000, b"\nlast line"])
    player.play([Message("user", (Text("Read this:"), stored)), Asks()])
    assert "first line" in sent(player)
    assert "last line" in sent(player)
    assert oracles.problems(player.prompts[-1]) == []


def test_asking_why_does_not_hide_a_change_from_the_next_prompt() -> None:
    """`why` looks at the view and leaves it as it was."""
    from foveal.values.entry import Fold, PartFold  # noqa: PLC0415 - nowhere else

    player = Player()
    player.play(
        [user("Go."), assistant("", CALL), result("c1", "a long result"), user("On."), assistant("Yes."), Asks()]
    )
    player.session.append(Fold((PartFold(player.entries[2], 0, "own", "[gone]", 1, "host", "test"),), "test", 0, 0, 0))
    player.session.why()
    player.ask()
    assert "[gone]" in sent(player)
    assert "a long result" not in sent(player)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pin_brings_back_what_was_folded_and_an_unpin_lets_it_go(dialect: str) -> None:
    """A pinned entry is shown in full although a fold covers it; unpinned, it is as if it had never been pinned."""
    player = Player(dialect=dialect, limit=4_000)
    player.append(user("Go."))
    for i in range(12):
        player.append(assistant("", ToolCall(f"c{i}", "read", "{}")))
        player.append(result(f"c{i}", f"<result {i}> " * 60))
        player.ask()
    before = oracles.body(player.prompts[-1])
    wanted = player.entries[2]
    assert "<result 0>" not in sent(player)
    player.session.append(Pin(wanted))
    player.ask()
    assert "<result 0> " * 60 in sent(player)
    assert oracles.problems(player.prompts[-1]) == []
    folded = player.prompts[-1].fold is not None
    player.session.append(Unpin(wanted))
    player.ask()
    assert folded or oracles.body(player.prompts[-1]) == before


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_system_prompt_alone_can_be_sent(dialect: str) -> None:
    """A session that holds only its system prompt makes a valid request."""
    player = Player(dialect=dialect)
    player.play([system("You greet people."), Asks()])
    assert oracles.problems(player.prompts[-1]) == []


def test_nothing_at_all_is_a_clear_error() -> None:
    """A prompt of an empty session says what to do."""
    with pytest.raises(BadInput, match="append a message first"):
        open_session().prompt()


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.3, 3.0])
def test_reported_usage_never_raises_the_limit(ratio: float) -> None:
    """Usage that is lower than our count does not make room above the limit; usage that is higher takes room away."""
    player = Player(limit=3_000)
    player.append(user("Go."))
    for _ in range(4):
        player.append(Usage("gpt-5", int(1_000 * ratio), 10, estimated=1_000))
    for i in range(30):
        player.play([assistant("", ToolCall(f"c{i}", "read", "{}")), result(f"c{i}", "word " * 200), Asks()])
        assert player.prompts[-1].tokens * max(1.0, ratio) <= 3_000


@pytest.mark.parametrize(
    "given", [{"max_context_tokens": 0}, {"budget": BudgetTable(limit=0)}, {"budget": BudgetTable(limit=-5)}]
)
def test_a_budget_of_nothing_is_an_error(given: dict[str, Any]) -> None:
    """Zero means zero, and zero cannot be."""
    with pytest.raises(BadPolicy):
        open_session(policy=Policy(**given))


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "x", "input_schema": {"type": "array"}},
        {"name": "x", "input_schema": ["a"]},
        {"name": "x", "description": "\ud800", "input_schema": {"type": "object"}},
        {"name": "x", "input_schema": {"type": "object", "default": object()}},
    ],
)
def test_a_tool_that_cannot_be_offered_is_the_callers_error(tool: dict[str, Any]) -> None:
    """Definitions that providers refuse are told before anything is recorded."""
    session = open_session()
    session.append(user("Hi."))
    with pytest.raises(BadInput):
        session.prompt([tool])
    assert session.view.facts.seq == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_schema_without_a_type_is_that_of_an_object(dialect: str) -> None:
    """Parameters that leave out the obvious are completed, and numbers that JSON has not are null."""
    player = Player(
        dialect=dialect, tools=[{"name": "x", "parameters": {"properties": {"a": {"default": float("nan")}}}}]
    )
    player.play([user("Hi."), Asks()])
    assert oracles.problems(player.prompts[-1]) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_many_images_are_a_limit_of_their_own(dialect: str) -> None:
    """More images than a provider takes are folded though there are tokens enough."""
    from foveal.values.entry import Image  # noqa: PLC0415 - nowhere else

    player = Player(dialect=dialect, limit=200_000)
    player.append(user("Look."))
    for i in range(120):
        player.append(assistant("", ToolCall(f"c{i}", "look", "{}")))
        player.append(result(f"c{i}", Image("image/png", tiny_png())))
    player.ask()
    prompt = player.prompts[-1]
    assert prompt.fold
    assert sum(shown.size.images for atom in prompt.atoms for item in atom.items for shown in item.shown) <= 100
    assert oracles.problems(prompt) == []


@pytest.mark.parametrize("first", DIALECTS)
@pytest.mark.parametrize("second", DIALECTS)
def test_a_model_switch_in_the_middle_is_a_rebuild(first: str, second: str) -> None:
    """Opened for another provider, a session with open calls and folds gives what it gives when opened afresh."""
    player = Player(dialect=first, limit=3_000, tools=[READ_TOOL])
    player.append(user("Go."))
    for i in range(15):
        player.append(assistant("Step.", ToolCall(f"c{i}", "read", "{}"), model=MODELS[first]))
        player.append(result(f"c{i}", "word " * 150))
        player.ask()
    player.append(assistant("", ToolCall("open", "read", "{}"), model=MODELS[first]))
    player.reopen(second)
    switched = player.ask()
    player.reopen()
    again = player.ask()
    assert switched
    assert again
    assert oracles.problems(switched) == []
    assert oracles.body(switched) == oracles.body(again)


def test_the_same_tools_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host offers its tools with every call; a list that has not changed is not walked again, a changed one is."""
    walked: list[object] = []
    real = tool_list.split_retention
    monkeypatch.setattr(tool_list, "split_retention", lambda tools: walked.append(tools) or real(tools))
    session = open_session()
    session.append(user("Go."))
    tools = [READ_TOOL, {"type": "function", "function": {"name": "write", "parameters": {"type": "object"}}}]
    for _ in range(3):
        assert len(session.prompt(tools).request["tools"]) == 2
    assert len(walked) == 1
    tools[1]["function"]["description"] = "Writes a file."
    assert "Writes a file." in str(session.prompt(tools).request["tools"])
    assert len(walked) == 2
