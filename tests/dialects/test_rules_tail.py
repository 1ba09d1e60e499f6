"""Checking the tail of a list says what checking the whole list says about that tail."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.gemini import rules as gemini_rules
from foveal.dialects.openai_chat import rules as openai_chat_rules
from foveal.dialects.openai_responses import rules as openai_responses_rules
from foveal.dialects.rules import RULES, RequestProblem

TEXT = st.sampled_from(["hi", "", " ", "bye ", "\ud800"])
ID = st.sampled_from(["a", "b", "c", "bad:id"])


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


CHAT = st.one_of(
    st.fixed_dictionaries({"role": one_of("user", "system", "assistant", "bot"), "content": TEXT}),
    st.fixed_dictionaries({"role": one_of("tool"), "tool_call_id": ID, "content": TEXT}),
    st.fixed_dictionaries(
        {
            "role": one_of("assistant"),
            "tool_calls": st.lists(
                ID.map(lambda i: {"id": i, "type": "function", "function": {"name": "ls", "arguments": "{}"}}),
                max_size=3,
            ),
        }
    ),
)
RESPONSES = st.one_of(
    st.fixed_dictionaries({"role": one_of("user", "assistant"), "content": TEXT}),
    ID.map(lambda i: {"type": "function_call", "call_id": i, "name": "ls", "arguments": "{}"}),
    ID.map(lambda i: {"type": "function_call_output", "call_id": i, "output": ""}),
    ID.map(lambda i: {"type": "custom_tool_call", "call_id": i, "name": "ls", "input": ""}),
    ID.map(lambda i: {"type": "custom_tool_call_output", "call_id": i, "output": ""}),
    one_of({"type": "reasoning", "summary": []}, {"type": "item_reference", "id": "x"}, {"type": "compaction"}),
)
BLOCK = st.one_of(
    TEXT.map(lambda t: {"type": "text", "text": t}),
    ID.map(lambda i: {"type": "tool_use", "id": i, "name": "ls", "input": {}}),
    ID.map(lambda i: {"type": "tool_result", "tool_use_id": i, "content": "ok"}),
    one_of({"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": "x", "cache_control": {}}),
)
ANTHROPIC = st.fixed_dictionaries(
    {"role": one_of("user", "assistant", "user", "assistant", "system"), "content": TEXT | st.lists(BLOCK, max_size=3)}
)
PART = st.one_of(
    TEXT.map(lambda t: {"text": t}),
    ID.map(lambda n: {"function_call": {"name": n}}),
    ID.map(lambda n: {"function_response": {"name": n, "response": {}}}),
)
GEMINI = st.fixed_dictionaries({"role": one_of("user", "model"), "parts": st.lists(PART, max_size=3)})

Check = Callable[..., list[RequestProblem]]
# The check, the key of its list, what stands in it, and the rest of the request.
DIALECTS: dict[str, tuple[Check, str, st.SearchStrategy[Any], Mapping[str, Any]]] = {
    "chat": (openai_chat_rules.problems, "messages", CHAT, {}),
    "responses": (openai_responses_rules.problems, "input", RESPONSES, {}),
    "anthropic": (anthropic_rules.problems, "messages", ANTHROPIC, {"thinking": {"type": "enabled"}}),
    "gemini": (gemini_rules.problems, "contents", GEMINI, {}),
}
GLOBAL = {"G3", "A10"}  # ids and cache marks are counted over the whole request

EVERY_DIALECT = pytest.mark.parametrize(("check", "key", "entry", "more"), DIALECTS.values(), ids=DIALECTS)


def local(found: Sequence[RequestProblem], since: int) -> list[RequestProblem]:
    """The findings of local rules at or after a place; `[-1]` is after every place."""

    def index(problem: RequestProblem) -> int:
        place = re.search(r"\[(-?\d+)\]", problem.where)
        assert place is not None
        return sys.maxsize if place[1] == "-1" else int(place[1])

    return [problem for problem in found if problem.rule not in GLOBAL and index(problem) >= since]


@EVERY_DIALECT
@settings(deadline=None)
@given(data=st.data())
def test_tail_of_the_check_is_the_check_of_the_tail(
    check: Check, key: str, entry: st.SearchStrategy[Any], more: Mapping[str, Any], data: st.DataObject
) -> None:
    """For local rules, `since=k` reports what a full check reports from k on, in the same order."""
    entries = data.draw(st.lists(entry, min_size=1, max_size=12))
    since = data.draw(st.integers(1, len(entries)))
    request = {key: entries, **more}
    assert local(check(request, since), since) == local(check(request), since)


class Counted(list[Any]):
    """A list that counts how often it is looked into."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        raise AssertionError("walked over the whole list")


LONG: dict[str, tuple[Check, str, list[Any]]] = {
    "chat": (
        openai_chat_rules.problems,
        "messages",
        [
            {
                "role": "assistant",
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": ""},
        ],
    ),
    "responses": (
        openai_responses_rules.problems,
        "input",
        [
            {"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": ""},
        ],
    ),
    "anthropic": (
        anthropic_rules.problems,
        "messages",
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
        ],
    ),
    "gemini": (
        gemini_rules.problems,
        "contents",
        [
            {"role": "model", "parts": [{"function_call": {"name": "ls"}}]},
            {"role": "user", "parts": [{"function_response": {"name": "ls", "response": {}}}]},
        ],
    ),
}


@pytest.mark.parametrize(("check", "key", "step"), LONG.values(), ids=LONG)
def test_a_tail_check_does_not_walk_the_history(check: Check, key: str, step: list[Any]) -> None:
    """In one tool loop of 20 000 messages, checking the last step looks at a few of them."""
    entries = Counted(step * 10_000)
    request = {key: entries, "thinking": {"type": "enabled"}}
    assert check(request, since=19_998) == []
    assert entries.looks < 60


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | one_of("user", "tool", "text", "function_call"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            one_of(
                "role",
                "content",
                "type",
                "parts",
                "text",
                "tool_calls",
                "id",
                "call_id",
                "function_call",
                "cache_control",
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@EVERY_DIALECT
@settings(deadline=None)
@given(data=st.data())
def test_hostile_json_is_reported_and_not_raised(
    check: Check, key: str, entry: st.SearchStrategy[Any], more: Mapping[str, Any], data: st.DataObject
) -> None:
    """Whatever JSON stands in the request, the answer is a list of known rules."""
    entries = data.draw(JSON | st.lists(JSON | entry, max_size=5))
    request = {key: entries, "tools": data.draw(JSON), "system": data.draw(JSON), "config": data.draw(JSON), **more}
    assert {problem.rule for problem in check(request)} <= RULES.keys()


@EVERY_DIALECT
def test_depth_is_no_danger(check: Check, key: str, entry: st.SearchStrategy[Any], more: Mapping[str, Any]) -> None:
    """Nesting far beyond the interpreter's stack is walked and not recursed into."""
    deep: Any = "\ud800"
    for _ in range(50_000):
        deep = [deep]
    role = {"role": "user", "content": "hi", "parts": [{"text": "hi"}]}
    assert "G5" in {problem.rule for problem in check({key: [{**role, "extra": deep}], **more})}
