"""A call that failed is seen to have failed, and a result's own line is used, at every level and in every dialect."""

from typing import Any

import pytest

from foveal.dialects import find_dialect
from foveal.fit.stages.clear import Clear
from foveal.fit.stages.expired import Expired
from foveal.fit.stages.history import History
from foveal.fit.stages.outline import Outline
from foveal.fit.stages.shorten import Shorten
from foveal.fit.stages.superseded import Superseded
from foveal.session.options import Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import MODELS
from foveal.values.entry import Status, ToolCall, ToolResult, assistant, result, user
from foveal.values.retention import RetentionRule

LONG = "".join(f"{n:04} INFO worker {n % 7} took job {n * 31}\n" for n in range(250))
STAGES: dict[str, Any] = {
    "full": (),
    "trimmed": (Shorten(keep=0.0),),
    "outline": (Outline(keep=0.0),),
    "reference": (Clear(keep=0.0),),
    "history": (History(window="per_pair", keep=0, mode="compress"),),
    "default": None,
}
DIALECTS = sorted(MODELS)


def session_with(
    dialect: str,
    level: str,
    *,
    status: Status = "error",
    summary: str = "",
    tools: dict[str, RetentionRule] | None = None,
) -> Session:
    stages = STAGES[level]
    given: dict[str, Any] = {} if stages is None else {"stages": stages}
    limit = 200_000 if level == "full" else 3_600
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0, target=1_500), recall=False, tools=tools or {}, **given)
    session = Session(MemoryStore(), "s", model=Model(MODELS[dialect], dialect), policy=policy)
    session.append(user("Go."))
    for n, (text, ended) in enumerate(((LONG, status), ("fine " * 400, "ok"))):
        call = ToolCall(f"c{n}", "bash", f'{{"command": "{n}"}}')
        session.extend([assistant("", call), result(call.id, text, status=ended, summary=summary)])  # type: ignore[arg-type]
        session.append(user("Go on."))
    return session


def wire_of(session: Session, dialect: str) -> dict[str, Any]:
    """The result of the first call on the wire."""
    request = session.prompt().request
    for message in request.get("messages") or request.get("input") or request.get("contents") or []:
        if message.get("tool_call_id") == "c0" or (message.get("call_id") == "c0" and "output" in message):
            return message
        for part in message.get("parts") or (message["content"] if isinstance(message.get("content"), list) else ()):
            if part.get("tool_use_id") == "c0" or part.get("function_response", {}).get("id") == "c0":
                return part
    raise AssertionError(dialect)


def is_told(wire: dict[str, Any], dialect: str) -> bool:
    match dialect:
        case "anthropic":
            return wire.get("is_error") is True
        case "gemini":
            return "error" in wire["function_response"]["response"]
        case "openai_chat":
            return wire["content"].startswith("[the call failed]\n")
        case _:
            return wire["output"].startswith("[the call failed]\n")


@pytest.mark.parametrize("level", ["full", "trimmed", "outline", "reference", "history"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_failed_call_is_told_as_failed(dialect: str, level: str) -> None:
    """Whole or by a stand-in, by the format's own field or by a first line."""
    assert is_told(wire_of(session_with(dialect, level), dialect), dialect)
    assert not is_told(wire_of(session_with(dialect, level, status="ok"), dialect), dialect)


@pytest.mark.parametrize("level", ["reference", "history"])
def test_a_line_says_what_the_tool_said_and_that_it_failed(level: str) -> None:
    """The tool's own summary stands beside the reference; without one, the name of the tool."""
    with_summary = str(wire_of(session_with("anthropic", level, summary="12 tests ran"), "anthropic"))
    assert "[12 tests ran, failed: " in with_summary
    assert "[bash result, failed: " in str(wire_of(session_with("anthropic", level), "anthropic"))
    assert "[bash result: " in str(wire_of(session_with("anthropic", level, status="ok"), "anthropic"))


@pytest.mark.parametrize("mode", ["reference", "expired"])
def test_retention_uses_the_line_as_well(mode: str) -> None:
    """A reference on arrival, and one after its time has passed."""
    if mode == "reference":
        session = session_with("anthropic", "full", summary="12 ran", tools={"bash": RetentionRule("reference")})
    else:
        policy = Policy(
            budget=BudgetTable(limit=3_600, reserve=0, target=1_500),
            stages=(Expired(),),
            tools={"bash": RetentionRule(ttl_turns=1)},
        )
        session = Session(MemoryStore(), "s", model=Model(MODELS["anthropic"], "anthropic"), policy=policy)
        session.extend([user("Go."), assistant("", ToolCall("c0", "bash", "{}"))])
        session.extend([result("c0", LONG, status="error", summary="12 ran"), assistant("Hm."), user("Go on.")])
    assert "[12 ran, failed: " in str(wire_of(session, "anthropic"))


def test_a_superseded_result_keeps_its_line() -> None:
    """The same call made again: the earlier result points to the later one and says what it was."""
    policy = Policy(
        budget=BudgetTable(limit=8_000, reserve=0, target=4_000, trigger=5_000), stages=(Superseded(),), recall=False
    )
    session = Session(MemoryStore(), "s", model=Model(MODELS["anthropic"], "anthropic"), policy=policy)
    session.append(user("Go."))
    for n in range(2):
        session.append(assistant("", ToolCall(f"c{n}", "bash", '{"command": "make"}')))
        session.append(result(f"c{n}", LONG, status="ok" if n else "error", summary=f"run {n}"))
    assert "[run 0, failed: " in str(wire_of(session, "anthropic"))


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
@pytest.mark.parametrize("status", ["error", "interrupted"])
def test_the_line_reads_back_as_the_status(dialect: str, status: Status) -> None:
    """A written result is read as it was: its text without the line, and how the call ended."""
    session = session_with(dialect, "full", status=status)
    read = find_dialect(dialect).reader.request(session.prompt().request)
    found = [part for message in read.messages for part in message.parts if isinstance(part, ToolResult)]
    assert (found[0].status, found[0].content) == (status, result("c0", LONG).parts[0].content)  # type: ignore[union-attr]
    assert found[1].status == "ok"


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_nobody_else_can_write_the_line(dialect: str) -> None:
    """A result that begins with it is neutralised, as every line of ours."""
    session = Session(MemoryStore(), "s", model=Model(MODELS[dialect], dialect))
    session.extend([user("Go."), assistant("", ToolCall("c0", "bash", "{}")), result("c0", "[The call failed]\nno")])
    assert "[~The call failed]" in str(wire_of(session, dialect))


def test_a_late_result_says_that_its_call_failed() -> None:
    """It is a note among the user's messages, where no format has a field for it."""
    session = Session(MemoryStore(), "s", model=Model("gpt-5"))
    session.extend([user("Go."), assistant("Done."), result("c9", "no such file", status="error")])
    assert "[late result for call c9, which failed]" in str(session.prompt().request)
