"""Instructions from disk, skills, tools on demand and mentions, through a session."""

from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foveal import Policy, ToolCall, assistant, result, system, user
from foveal import session as session_module
from foveal.beside import Host
from foveal.core.prompt import Prompt
from foveal.inject.instructions import Instructions
from foveal.inject.reminders import Rule as Reminder
from foveal.inject.reminders import Trigger
from foveal.inject.skills import Skills
from foveal.inject.toolbox import toolbox
from foveal.policies import BudgetTable
from foveal.session import Session
from foveal.stores.memory import MemoryStore
from foveal.surroundings import Surroundings
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, counted_ids

DIALECTS = sorted(MODELS)
EVERY = pytest.mark.parametrize("dialect", DIALECTS)
OPENED_AGAIN = pytest.mark.parametrize("every", [256, 1], ids=["from the log", "from a snapshot"])


def opened(
    dialect: str = "openai_chat",
    *,
    store: Any = None,
    new_ids: str = "first",
    limit: int = 20_000,
    reminders: tuple[Reminder, ...] = (),
    **given: Any,
) -> Session:
    return Session(
        MemoryStore() if store is None else store,
        "s",
        model=MODELS[dialect],
        dialect=dialect,
        policy=Policy(budget=BudgetTable(limit=limit, reserve=0), remind=True, reminders=reminders),
        surroundings=Surroundings(**given),
        new_id=counted_ids(new_ids),
        clock_ms=count().__next__,
    )


def texts(prompt: Prompt) -> str:
    return "\n".join(oracles.strings(prompt.request))


def head(prompt: Prompt) -> str:
    """The system prompt, wherever the format puts it."""
    request = prompt.request
    match prompt.setup.dialect:
        case "openai_chat":
            return "\n".join(one["content"] for one in request["messages"] if one["role"] == "system")
        case "openai_responses":
            return request["instructions"]
        case "anthropic":
            return "\n".join(block["text"] for block in request["system"])
        case _:
            return request["config"]["system_instruction"]


def offered(prompt: Prompt) -> list[str]:
    tools = msgspec.json.decode(prompt.setup.tools, type=list[dict[str, Any]])
    return [tool.get("function", tool)["name"] for tool in tools]


def step(session: Session, n: int, name: str = "read", arguments: str = "{}", told: str = "ok") -> None:
    session.extend([assistant("", ToolCall(f"c{n}", name, arguments)), result(f"c{n}", told)])


# Instructions.


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "AGENTS.md").write_text("Always run make test.\n")
    return tmp_path


@EVERY
def test_instructions_stand_after_the_system_prompt(project: Path, dialect: str) -> None:
    """In every prompt, before the conversation, without moving anything from call to call."""
    session = opened(dialect, instructions=Instructions.load(project))
    session.extend([system("Be brief."), user("Go.")])
    prompts = []
    for n in range(3):
        prompts.append(session.prompt([READ_TOOL]))
        step(session, n)
    for prompt in prompts:
        assert head(prompt).index("Be brief.") < head(prompt).index(
            "Instructions from AGENTS.md:\n\nAlways run make test."
        )
        assert oracles.problems(prompt) == []
        assert "new or changed" not in texts(prompt)
    assert len({head(prompt) for prompt in prompts}) == 1


@EVERY
def test_instructions_that_change_on_disk_are_shown_and_told(project: Path, dialect: str) -> None:
    """The new text in place of the old, and a reminder with the name of the file, once."""
    session = opened(dialect, instructions=Instructions.load(project))
    session.append(user("Go."))
    session.prompt()
    step(session, 1)
    (project / "AGENTS.md").write_text("Never run make test.\n")
    (project / "CLAUDE.md").write_text("Answer in French.\n")
    for _ in range(2):  # also if the prompt is asked for again
        prompt = session.prompt()
        assert "Always run" not in texts(prompt)
        assert "Never run make test." in head(prompt)
        assert "new or changed since the last call: AGENTS.md, CLAUDE.md." in texts(prompt)
    step(session, 2)
    assert "new or changed" not in texts(session.prompt())


def test_instructions_that_changed_while_nobody_looked_are_told(project: Path) -> None:
    """Between two openings of a session as well."""
    store = MemoryStore()
    session = opened(store=store, instructions=Instructions.load(project))
    session.append(user("Go."))
    session.prompt()
    step(session, 1)
    session.close()
    (project / "AGENTS.md").write_text("Never run make test.\n")
    again = opened(store=store, new_ids="again", instructions=Instructions.load(project)).prompt()
    assert "new or changed since the last call: AGENTS.md." in texts(again)
    assert "Always run" not in texts(again)


def test_instructions_that_are_gone_for_a_moment_still_hold(project: Path) -> None:
    """A file that cannot be read is said with a warning; what was read before stands."""
    session = opened(instructions=Instructions.load(project))
    session.append(user("Go."))
    session.prompt()
    (project / "AGENTS.md").write_bytes(b"\xff\xfe not text \xff")
    with pytest.warns(UserWarning, match="were not read again"):
        prompt = session.prompt()
    assert "Always run make test." in head(prompt)


def test_instructions_are_never_summarised(project: Path) -> None:
    """After fold upon fold they are there to the letter, once, in front."""
    session = opened(instructions=Instructions.load(project), limit=3_000)
    session.extend([system("Be brief."), user("Go.")])
    for n in range(25):
        step(session, n, told=f"line {n}\n" * 150)
        prompt = session.prompt([READ_TOOL])
        assert head(prompt).count("Instructions from AGENTS.md:\n\nAlways run make test.") == 1
        assert texts(prompt).count("Always run make test.") == 1
    assert session.view.folds > 3


def test_whoever_gives_no_instructions_leaves_those_that_are_there(project: Path) -> None:
    """A session that a tool opens without them is sent as it was."""
    store = MemoryStore()
    session = opened(store=store, instructions=Instructions.load(project))
    session.append(user("Go."))
    session.prompt()
    session.close()
    assert "Always run make test." in head(opened(store=store, new_ids="again").prompt())


# Skills.


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    for name, about in (("pdf", "Fill forms."), ("charts", "Draw charts.")):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        front = f"---\nname: {name}\ndescription: {about}\n---\n"
        (folder / "SKILL.md").write_text(f"{front}How to work with {name}: read [fields](fields.md) first.\n")
        (folder / "fields.md").write_text("All fields.\n")
    return Skills.scan([tmp_path / "skills"])


@EVERY
def test_the_catalogue_is_in_the_system_prompt(skills: Skills, dialect: str) -> None:
    """Sorted, one line a skill, with the tool that reads one; the bodies are not there."""
    session = opened(dialect, skills=skills)
    session.extend([system("Be brief."), user("Go.")])
    prompt = session.prompt([READ_TOOL])
    assert head(prompt).index("charts: Draw charts.") < head(prompt).index("pdf: Fill forms.")
    assert "How to work" not in texts(prompt)
    assert offered(prompt) == ["foveal_skill", "read"]
    assert oracles.problems(prompt) == []


@EVERY
def test_a_skill_is_read_by_the_model_and_stays(skills: Skills, dialect: str) -> None:
    """Served by the session, pinned over folds, and named as active from then on, also after opening again."""
    store = MemoryStore()
    session = opened(dialect, skills=skills, store=store, limit=4_000)
    session.append(user("Fill it."))
    session.prompt()
    session.append(assistant("", ToolCall("s1", "foveal_skill", '{"name": "pdf"}'), ToolCall("r1", "read", "{}")))
    assert [call.name for call in session.serve()] == ["read"]
    session.append(result("r1", "ok"))
    for n in range(12):
        step(session, n, told=f"line {n}\n" * 150)
        prompt = session.prompt([READ_TOOL])
    assert session.view.folds
    assert "How to work with pdf: read [fields](fields.md) first." in texts(prompt)
    assert "Active skill: pdf." in texts(prompt)
    session.close()
    again = opened(dialect, skills=skills, store=store, limit=4_000, new_ids="again").prompt([READ_TOOL])
    assert again.wires == prompt.wires
    assert head(again) == head(prompt)
    assert "Active skill: pdf." in texts(again)


def test_a_file_of_a_skill_is_read_and_no_more(skills: Skills) -> None:
    """It makes no skill active; what leads out of the folder, or is not there, is answered with a sentence."""
    session = opened(skills=skills)
    session.append(user("Go."))
    session.prompt()
    calls = ['{"name": "pdf", "file": "fields.md"}', '{"name": "pdf", "file": "../../secret"}', '{"name": "no"}', "[]"]
    session.append(assistant("", *(ToolCall(f"s{i}", "foveal_skill", text) for i, text in enumerate(calls))))
    assert session.serve() == []
    told = [message["content"] for message in session.prompt().request["messages"] if message["role"] == "tool"]
    assert told[0] == "All fields.\n"
    assert "there is no skill 'no'" in told[2]
    assert "not understood" in told[3]
    assert "Active skill" not in texts(session.prompt())


# Tools on demand, and mentions.


def tool(name: str, about: str) -> dict[str, Any]:
    return {"name": name, "description": about, "parameters": {"type": "object", "properties": {}}}


BOX = toolbox(
    core=[tool("read", "Read a file.")],
    on_demand=[tool("send_mail", "Send a message to somebody."), tool("plot", "Draw a chart of numbers.")],
)


@EVERY
@OPENED_AGAIN
def test_what_was_found_stays_offered(dialect: str, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search is served; the tool is there from the next call on, also in a session that was opened again."""
    monkeypatch.setattr(session_module, "SNAPSHOT_EVERY", every)
    store = MemoryStore()
    session = opened(dialect, store=store, toolbox=BOX)
    session.append(user("Tell Jo."))
    assert offered(session.prompt()) == ["foveal_tools", "read"]
    session.append(assistant("", ToolCall("t1", "foveal_tools", '{"query": "sending messages"}')))
    assert session.serve() == []
    prompt = session.prompt()
    assert offered(prompt) == ["foveal_tools", "read", "send_mail"]
    step(session, 1)
    kept = session.prompt()
    session.close()
    again = opened(dialect, store=store, toolbox=BOX, new_ids="again").prompt()
    assert oracles.body(again) == oracles.body(kept)
    assert offered(again) == offered(prompt)


@EVERY
def test_a_mention_makes_a_tool_visible_for_the_turn(dialect: str) -> None:
    """From the user's word on through all calls of the turn, and no longer; told once."""
    session = opened(dialect, toolbox=BOX)
    session.append(user("Draw it with @plot, not `@send_mail`, and write to jo@read.org."))
    first = session.prompt()
    assert offered(first) == ["foveal_tools", "plot", "read"]
    assert "The user mentioned these tools: plot." in texts(first)
    step(session, 1, "plot")
    second = session.prompt()
    assert offered(second) == offered(first)
    assert "mentioned" not in texts(second)
    session.extend([assistant("Done."), user("Thanks.")])
    assert offered(session.prompt()) == ["foveal_tools", "read"]


@OPENED_AGAIN
def test_a_mention_outlives_the_session_object(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opened again in the middle of the turn, the tool is there; in the next turn it is not."""
    monkeypatch.setattr(session_module, "SNAPSHOT_EVERY", every)
    store = MemoryStore()
    session = opened(store=store, toolbox=BOX)
    session.append(user("Draw it with @plot."))
    kept = session.prompt()
    session.close()
    session = opened(store=store, toolbox=BOX, new_ids="again")
    assert oracles.body(session.prompt()) == oracles.body(kept)
    session.extend([assistant("Done."), user("Thanks.")])
    assert offered(session.prompt()) == ["foveal_tools", "read"]


@EVERY
def test_mentioned_skills_and_agents_are_told(skills: Skills, dialect: str) -> None:
    """By their kinds; a result that mentions somebody is not the user's word."""
    session = opened(dialect, skills=skills, agents=frozenset({"reviewer"}))
    session.append(user("Fill it with @pdf, then ask @reviewer."))
    said = texts(session.prompt())
    assert "The user mentioned these skills: pdf." in said
    assert "The user mentioned these agents: reviewer." in said
    step(session, 1, told="Ask @reviewer and use @charts.")
    assert "The user mentioned" not in texts(session.prompt())


@EVERY
def test_a_trigger_of_the_hosts_is_asked(dialect: str) -> None:
    """Its rule is data in the policy; the function is given with the surroundings."""
    failed = Trigger(
        "tests_failed", frozenset({"failed"}), lambda now: {"failed": now.facts["failed"]} if now.facts else None
    )
    rule = Reminder("tests", "tests_failed", "Tests that fail: {failed}.", at_least={"failed": 2})
    session = opened(dialect, reminders=(rule,), triggers=(failed,))
    session.append(user("Go."))
    assert "Tests that fail: 3." in texts(session.prompt(host=Host(facts={"failed": 3})))
    assert "Tests that fail" not in texts(session.prompt(host=Host(facts={"failed": 1})))
    assert "Tests that fail" not in texts(session.prompt())
