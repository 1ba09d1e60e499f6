"""Recorded injections stay where they came in."""

import os
from collections.abc import Iterator

import pytest

from foveal.testing.builders import open_session
from foveal.text.guard import neutralise_part, wrap
from foveal.values.entry import Text, ToolResult
from foveal.values.errors import OverBudget
from foveal.values.prompt import Prompt

from .injections import RECORDED, Poisoned, as_message, holding, poisoned
from .parser import forged
from .requests import live

pytestmark = pytest.mark.skipif(not RECORDED.is_file(), reason="recorded sessions are not at ../shared/data")


def test_injections_are_found_where_the_tools_returned_them() -> None:
    """The search finds the injection in results of most attacked trajectories, and never in a system prompt."""
    attacked = list(poisoned())
    found = [{one.messages[at]["role"] for at in holding(one.injections, _texts(one.messages))} for one in attacked]
    assert len(attacked) > 200
    assert sum("tool" in roles for roles in found) > len(attacked) // 2
    assert not any("system" in roles for roles in found)


def test_an_injection_cannot_leave_its_result() -> None:
    """Neutralised and put into a frame, an injection is inside that frame and forges none."""
    for one in poisoned():
        texts = _texts(one.messages)
        results = [texts[at] for at in holding(one.injections, texts) if one.messages[at]["role"] == "tool"]
        for text in results:
            part = neutralise_part(ToolResult("c", (Text(text),)))
            assert isinstance(part, ToolResult)
            shown = wrap("document", str(getattr(part.content[0], "text", "")), nonce="abc")
            assert forged(shown, "abc") == []
            before, inside, after = shown.partition(text)
            assert holding(one.injections, (before, inside, after)) == [1]


def _texts(messages: list[dict[str, object]]) -> list[str]:
    return [str(message.get("content")) for message in messages]


EVERY = 1 if os.environ.get("FOVEAL_ALL") == "1" else 8


def _prompts(one: Poisoned, limit: int) -> Iterator[tuple[Prompt, list[str]]]:
    """The trajectory's prompts under a budget, with the session's entries."""
    session, entries = open_session(limit=limit), list[str]()
    for recorded in one.messages:
        entries.append(session.append(as_message(recorded)).id)
        if recorded["role"] in ("tool", "user"):
            try:
                yield session.prompt(), entries
            except OverBudget:
                return


def test_an_injection_stays_in_its_result_through_folds() -> None:
    """Replayed at a small budget, an injection's words appear in results, in the model's own words about them, and in
    stand-ins.

    The system prompt and the user's requests never hold them, and nothing of them is taken for the frame.
    """
    folded = 0
    for one in list(poisoned())[::EVERY]:
        said = {one.messages[at]["role"] for at in holding(one.injections, _texts(one.messages))}
        asked = [str(message["content"]) for message in one.messages if message["role"] == "user"]
        for prompt, entries in _prompts(one, limit=700):
            folded += prompt.fold is not None
            messages = prompt.request["messages"]
            for at in holding(one.injections, _texts(messages)):
                role, text = messages[at]["role"], str(messages[at]["content"])
                is_stand_in = role == "user" and text not in asked and text.startswith("[")
                assert is_stand_in or (role in said and role != "system")
            assert live(prompt, entries) == []
    assert folded > 20
