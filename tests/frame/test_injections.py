"""Recorded injections stay where they came in."""

import pytest

from foveal.core.entry import Text, ToolResult
from foveal.frame import neutralise_part, wrap

from .injections import RECORDED, holding, poisoned
from .parser import forged

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
