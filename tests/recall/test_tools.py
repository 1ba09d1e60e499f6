"""The recall tools: offered while there is something to recall, counted, and answered whatever the model asks."""

import json
from typing import Any

import pytest

from foveal import Prompt, RetentionRule, Session
from foveal.recall.tools import NAMES, RECALL, SEARCH
from foveal.session.options import Clock, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, counted_ids
from foveal.values.entry import Text, ToolCall, ToolResult, assistant, result, system, user

DIALECTS = sorted(MODELS)
TEXT = "\n".join(f"line {n}: the value of item_{n} is {n * n}" for n in range(300))
OWN_TOOL: dict[str, Any] = {"name": RECALL, "description": "the host's", "input_schema": {"type": "object"}}


def opened(
    *, dialect: str = "openai_chat", limit: int = 200_000, recall: bool = True, **tools: RetentionRule
) -> Session:
    policy = Policy(budget=BudgetTable(limit=limit, reserve=0), recall=recall, tools=tools)
    model = MODELS[dialect]
    return Session(MemoryStore(), "s", model=Model(model, dialect), policy=policy, clock=Clock(new_id=counted_ids()))


def reduced(**options: Any) -> tuple[Session, str]:
    """A session whose one result is shown by its reference, and that reference."""
    session = opened(**options, read=RetentionRule("reference"))
    session.extend((user("Go."), assistant("", ToolCall("c0", "read", "{}"))))
    entry = session.append(result("c0", TEXT))
    return session, entry.id[:10]


def names(prompt: Prompt) -> set[str]:
    return {tool["function"]["name"] for tool in json.loads(prompt.setup.tools)}


def ask(session: Session, name: str, *, call: str = "r1", **arguments: Any) -> ToolResult:
    """The answer to one call."""
    session.append(assistant("", ToolCall(call, name, json.dumps(arguments))))
    assert session.serve() == []
    return answers(session)[-1]


def answers(session: Session) -> list[ToolResult]:
    parts = (shown.part for atom in session.view.atoms for item in atom.items for shown in item.shown)
    return [part for part in parts if isinstance(part, ToolResult)]


def text_of(answer: ToolResult) -> str:
    (content,) = answer.content
    assert isinstance(content, Text)
    return content.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_they_are_offered_only_while_something_is_below_full(dialect: str) -> None:
    """A session that shows everything offers the host's tools alone; with a stand-in in it, two more."""
    whole = opened(dialect=dialect)
    whole.extend((user("Go."), assistant("", ToolCall("c0", "read", "{}")), result("c0", TEXT)))
    assert names(whole.prompt([READ_TOOL])) == {"read"}
    session, _ = reduced(dialect=dialect)
    prompt = session.prompt([READ_TOOL])
    assert names(prompt) == {"read", *NAMES}
    assert all(name in oracles.body(prompt).decode() for name in NAMES)
    assert oracles.problems(prompt) == []


def test_the_fold_that_makes_them_useful_brings_them() -> None:
    """The prompt that is folded for the first time has them already."""
    session = opened(limit=4_000)
    session.append(user("Go."))
    reduced_now = False
    for number in range(6):
        session.extend(
            (assistant("", ToolCall(f"c{number}", "read", "{}")), result(f"c{number}", f"<{number}> " * 400))
        )
        prompt = session.prompt([READ_TOOL])
        reduced_now = any(line.shown != "full" for line in prompt.trace.lines)
        assert names(prompt) == ({"read", *NAMES} if reduced_now else {"read"})
    assert reduced_now


def test_they_are_counted() -> None:
    """Their definitions are part of the prompt's tokens and stay within the limit."""
    with_them, _ = reduced()
    without, _ = reduced(recall=False)
    more, less = with_them.prompt([READ_TOOL]), without.prompt([READ_TOOL])
    assert more.setup.tools_tokens - less.setup.tools_tokens == more.tokens - less.tokens > 100
    assert more.tokens >= oracles.recount(more)


def test_they_are_not_offered_where_the_policy_says_so() -> None:
    """`recall = false` leaves the tools to the host."""
    session, _ = reduced(recall=False)
    assert names(session.prompt([READ_TOOL])) == {"read"}


def test_they_give_way_where_there_is_no_room() -> None:
    """A prompt that fits only without them is sent without them."""
    session = opened(limit=420)
    session.extend((system("word " * 340), user("Go.")))
    assert names(session.prompt([READ_TOOL])) == {"read"}
    session.extend((assistant("", ToolCall("c0", "read", "{}")), result("c0", TEXT), assistant("Done.")))
    prompt = session.prompt()
    assert prompt.tokens <= 420
    assert not names(prompt) & NAMES


def test_a_hosts_tool_of_the_same_name_is_the_one_that_is_offered() -> None:
    """Its definition goes out as it is; the other one of ours beside it."""
    session, _ = reduced()
    prompt = session.prompt([OWN_TOOL])
    (own,) = [tool for tool in json.loads(prompt.setup.tools) if tool["function"]["name"] == RECALL]
    assert own["function"]["description"] == "the host's"
    assert names(prompt) == NAMES


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_ours_is_answered_and_the_rest_is_the_hosts(dialect: str) -> None:
    """Of one reply with three calls, two are answered in the log and one comes back to be run."""
    session, ref = reduced(dialect=dialect)
    session.prompt([READ_TOOL])
    own = ToolCall("c1", "read", '{"path": "b.py"}')
    recalled = ToolCall("r1", RECALL, json.dumps({"ref": ref, "offset": 17, "limit": 1}))
    searched = ToolCall("r2", SEARCH, json.dumps({"query": "item_250"}))
    session.append(assistant("", recalled, own, searched, model=MODELS[dialect]))
    assert session.serve() == [own]
    session.append(result("c1", "the other file"))
    assert session.serve() == []
    prompt = session.prompt([READ_TOOL])
    assert oracles.problems(prompt) == []
    text = "\n".join(oracles.strings(prompt.request))
    assert "line 17: the value of item_17 is 289" in text
    assert "item_250 is 62500" in text
    assert "the other file" in text
    assert "interrupted" not in text


def test_a_reply_without_calls_has_nothing_to_serve() -> None:
    """An empty session, a plain answer and an answered call leave nothing to do, and nothing is written."""
    session = opened()
    assert session.serve() == []
    session.extend((user("Go."), assistant("", ToolCall("c0", "read", "{}")), result("c0", "x"), assistant("Done.")))
    seq = session.view.facts.seq
    assert session.serve() == []
    assert session.view.facts.seq == seq


def test_the_recalled_text_is_the_original() -> None:
    """Page after page, what comes back is what was appended, to the last character."""
    session, ref = reduced()
    pages, offset = list[str](), 0
    while offset is not None:
        head, _, page = text_of(ask(session, RECALL, call=f"r{offset}", ref=ref, offset=offset, limit=70)).partition(
            "\n"
        )
        pages.append(page)
        offset = int(head.partition("go on with offset ")[2].partition(",")[0]) if "go on" in head else None  # type: ignore[assignment]
    assert "".join(pages) == TEXT
    assert len(pages) == 5


@pytest.mark.parametrize("spelled", ["{ref}", "ref {ref}"])
def test_a_reference_is_found_as_it_is_shown(spelled: str) -> None:
    """With and without the word before it, because models copy both."""
    session, ref = reduced()
    assert "line 3: " in text_of(ask(session, RECALL, ref=spelled.format(ref=ref), limit=5))


def test_a_pattern_gives_the_lines_that_match() -> None:
    """And says how many there are in all."""
    session, ref = reduced()
    text = text_of(ask(session, RECALL, ref=ref, pattern=r"item_29\d "))
    assert ", 10 matching" in text.partition("\n")[0]
    assert "line 295: " in text


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (RECALL, '{"ref": "zzzzzzzzzz"}', "nothing under the reference"),
        (RECALL, '{"ref": ""}', "nothing under the reference"),
        (RECALL, '{"ref": "REF", "pattern": "("}', "pattern"),
        (RECALL, '{"ref": "REF", "pattern": "(a)\\\\1"}', "pattern"),
        (RECALL, '{"ref": "REF", "offset": -1}', "offset"),
        (RECALL, '{"ref": "REF", "offset": 5000}', "beyond the end"),
        (RECALL, '{"ref": "REF", "limit": 0}', "limit"),
        (RECALL, '{"ref": 5}', "ref"),
        (RECALL, "{}", "ref"),
        (RECALL, "", ""),
        (RECALL, "not json", ""),
        (RECALL, '{"ref": "\ud800"}', ""),
        (RECALL, '{"x": ' + "[" * 100_000, ""),
        (SEARCH, "{}", "query"),
        (SEARCH, '{"query": " "}', "the query is empty"),
        (SEARCH, '{"query": "item", "limit": -3}', "limit"),
        (SEARCH, '{"query": ["item"]}', "query"),
    ],
)
def test_a_bad_call_is_answered_and_the_session_goes_on(name: str, arguments: str, said: str) -> None:
    """The model is told what is wrong as an error of the tool; the next prompt is valid."""
    session, ref = reduced()
    session.prompt([READ_TOOL])
    session.append(assistant("", ToolCall("r1", name, arguments.replace("REF", ref))))
    assert session.serve() == []
    answer = answers(session)[-1]
    assert answer.status == "error"
    assert said in text_of(answer)
    assert oracles.problems(session.prompt([READ_TOOL])) == []
    assert "line 3: " in text_of(ask(session, RECALL, call="r2", ref=ref, limit=5))


@pytest.mark.parametrize("query", ['"', "AND OR NOT", "nowhere_to_be_found_at_all"])
def test_a_search_that_finds_nothing_says_so(query: str) -> None:
    """The query is data: nothing in it is an operator, and nothing found is no error."""
    session, _ = reduced()
    answer = ask(session, SEARCH, query=query)
    assert (text_of(answer), answer.status) == ("[nothing found]", "ok")


def test_another_sessions_reference_is_nobodys() -> None:
    """Absent and foreign read the same."""
    session, ref = reduced()
    store = session._journal.store
    other = Session(store, "other", model="gpt-5", clock=Clock(new_id=counted_ids("other")))
    other.append(user("Hi."))
    foreign = text_of(ask(other, RECALL, ref=ref))
    absent = text_of(ask(other, RECALL, call="r2", ref="zzzzzzzzzz"))
    assert foreign.replace(ref, "REF") == absent.replace("zzzzzzzzzz", "REF")


def test_an_answer_is_an_entry_like_any_other() -> None:
    """It is in the log under an id of its own, so that it can be recalled itself."""
    session, ref = reduced()
    ask(session, RECALL, ref=ref, limit=3)
    newest = session.view.atoms[-1].items[-1]
    assert "line 2: " in session.recall(newest.id)
