"""Words in the events of streams, and requests that allow no more calls, in each provider's format."""

import pytest

from foveal.dialects import DIALECTS
from foveal.dialects.deltas import SpokenDelta, spoken, without_calls
from foveal.testing.provider.replies import SPELLED, Call, Turn
from foveal.testing.provider.streams import SPOKEN

TURN = Turn("Hello", (Call("c1"),), thinking="hm")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_words_of_a_stream_are_those_of_its_reply(dialect):
    """Text and thinking apart, each once; other events say nothing."""
    events = [data for _, data in SPOKEN[dialect](SPELLED[dialect](TURN, "m", 1, 9)) if not isinstance(data, str)]
    words = [spoken(dialect, event) for event in events]
    assert "".join(one.text for one in words) == "Hello"
    assert "".join(one.thinking for one in words) == "hm"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("event", [{}, {"type": "ping"}, {"choices": None}, {"candidates": [None]}, {"delta": 3}])
def test_an_odd_event_says_nothing(dialect, event):
    """Servers send keep-alives, and now and then nonsense."""
    assert spoken(dialect, event) == SpokenDelta()


@pytest.mark.parametrize(
    ("dialect", "choice"),
    [("openai_chat", "none"), ("openai_responses", "none"), ("anthropic", {"type": "none"})],
)
def test_no_call_is_allowed_any_more(dialect, choice):
    """The tools stay, so that the prefix does; a request without tools is as it was."""
    assert without_calls(dialect, {"tools": [1]}) == {"tools": [1], "tool_choice": choice}
    assert without_calls(dialect, {"messages": []}) == {"messages": []}


def test_gemini_has_it_in_its_config():
    """Beside the tools."""
    told = without_calls("gemini", {"config": {"tools": [1]}})["config"]
    assert told == {"tools": [1], "tool_config": {"function_calling_config": {"mode": "NONE"}}}
    assert without_calls("gemini", {"config": {}}) == {"config": {}}
