"""What retention promises, where layers, pins, artifacts and recalls meet."""

import json
from typing import Any

import pytest

from foveal import Policy, RetentionRule, Session
from foveal.recall.tools import RECALL
from foveal.session.policy import Clear, Expired
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.values.entry import Message, Pin, ToolCall, assistant, result, user
from foveal.values.errors import BadPolicy

TEXT = "\n".join(f"line {n} of the file" for n in range(400))


def opened(store: MemoryStore | None = None, **tools: RetentionRule) -> Session:
    return Session(store or MemoryStore(), "s", model="gpt-5", policy=Policy(tools=tools))


def read(session: Session, text: str = TEXT) -> str:
    """The entry of a result of `read`."""
    session.extend((user("Go."), assistant("", ToolCall("c", "read", "{}"))))
    return session.append(result("c", text)).id


def recalled(session: Session, entry: str) -> str:
    """What the model sees of its own recall."""
    session.append(assistant("", ToolCall("r", RECALL, json.dumps({"ref": entry[:10]}))))
    session.serve()
    return "\n".join(oracles.strings(session.prompt().request))


def newest(session: Session) -> str:
    return session.why().lines[-1].shown


def test_a_call_of_a_hosts_own_tool_is_left_to_the_host() -> None:
    """Where a host offers a tool named like ours, its calls are the host's to run."""
    session = opened(read=RetentionRule("reference"))
    read(session)
    session.prompt([{"name": RECALL, "input_schema": {"type": "object"}}])
    call = ToolCall("r", RECALL, "{}")
    session.append(assistant("", call))
    assert session.serve() == [call]


def test_recalled_text_is_not_put_away_again() -> None:
    """A rule for all tools does not answer a recall by another reference."""
    session = opened(None, **{"*": RetentionRule("reference")})
    assert "line 17 of the file" in recalled(session, read(session))


def test_a_pin_is_verbatim_whatever_the_tools_mode() -> None:
    """An entry that is pinned is shown whole although its tool keeps references only."""
    session = opened(read=RetentionRule("reference"))
    session.append(Pin(read(session)))
    assert TEXT in "\n".join(oracles.strings(session.prompt().request))


@pytest.mark.parametrize(
    "rule", [RetentionRule("reference"), RetentionRule("summary", limit_tokens=100)], ids=["reference", "summary"]
)
def test_a_huge_result_obeys_its_mode(rule: RetentionRule) -> None:
    """What is too large for the log takes no more room than what is not."""
    session = opened(read=rule)
    read(session, "word of it\n" * 400_000)
    session.prompt()
    assert session.why().lines[-1].tokens < 200


def test_the_rest_of_a_long_line_can_be_recalled() -> None:
    """The answer says how to go on."""
    session = opened(read=RetentionRule("reference"))
    assert "go on with" in recalled(session, read(session, "x" * 15_000 + " END\nnext"))


def test_a_limit_in_characters_is_one() -> None:
    """A text whose beginning is dense keeps no more characters than were allowed, and a note."""
    session = opened(read=RetentionRule("summary", limit_characters=1_000, head=0.0))
    read(session, "漢" * 1_000 + "word " * 5_000)
    assert max(map(len, oracles.strings(session.prompt().request))) < 1_200


@pytest.mark.parametrize("said", [{"mode": "summary", "floor": "full"}, {"mode": "pin", "floor": "reference"}])
def test_a_rule_that_contradicts_itself_is_an_error(said: dict[str, Any]) -> None:
    """A result cannot start below its floor, and what is pinned has none."""
    with pytest.raises(BadPolicy, match="floor"):
        RetentionRule(**said)


def test_a_result_does_not_start_below_a_floor_of_another_layer() -> None:
    """A floor for all tools holds for one whose own rule says `reference`."""
    session = opened(None, **{"*": RetentionRule(floor="outline"), "read": RetentionRule("reference")})
    read(session)
    session.prompt()
    assert newest(session) != "reference"


@pytest.mark.parametrize("said", [{"mode": "sumary"}, {"floor": "flor"}])
def test_an_unknown_word_is_an_error_in_python_too(said: dict[str, Any]) -> None:
    """A rule with a mode that nobody knows does not quietly mean `full`."""
    with pytest.raises(BadPolicy):
        RetentionRule(**said)


def test_a_session_that_is_opened_again_shows_what_was_sent() -> None:
    """The log knows the retention of the last prompt."""
    store = MemoryStore()
    tool = {"name": "read", "input_schema": {"type": "object"}, "retention": {"mode": "reference"}}
    with opened(store) as session:
        read(session)
        session.prompt([tool])
        before = newest(session)
    with opened(store) as session:
        assert newest(session) == before == "reference"


def test_a_hint_stays_beside_the_reference_of_an_expired_result() -> None:
    """What the host tells the model holds for every reference to the result."""
    tools = {"peek": RetentionRule(ttl_turns=1, hint="Peek again.")}
    policy = Policy(max_context_tokens=4_000, tools=tools, stages=(Expired(), Clear()))
    session = Session(MemoryStore(), "s", model="gpt-5", policy=policy)
    session.append(user("Go."))
    messages: list[Message] = []
    for number in range(4):
        call = ToolCall(f"c{number}", "read" if number else "peek", f'{{"n": {number}}}')
        messages += [assistant("", call), result(call.id, f"<{number}> " * 300), user("On.")]
    session.extend(messages)
    prompt = session.prompt()
    assert prompt.fold
    assert prompt.fold.items[0].policy == "expired"
    assert "Peek again." in "\n".join(oracles.strings(prompt.request))
