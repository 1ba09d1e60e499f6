"""Why a provider ended a reply, in each dialect, as a body and at the end of a stream."""

import pytest

from foveal.dialects import find_dialect
from foveal.dialects.endings import reply_ending
from foveal.testing.provider.replies import SPELLED, Call, Turn
from foveal.testing.provider.streams import SPOKEN


@pytest.mark.parametrize("dialect", sorted(SPELLED))
@pytest.mark.parametrize("ends", ["whole", "length", "filter"])
@pytest.mark.parametrize("calls", [(), (Call("c1"),)], ids=["words", "call"])
def test_the_reason_is_read_from_a_body_and_from_a_stream(dialect, ends, calls):
    """A reply that was cut short is never taken for a whole one."""
    body = SPELLED[dialect](Turn("Half an", calls, ends=ends), "m", 1, 10)
    stream = find_dialect(dialect).reader.stream()
    for _, event in SPOKEN[dialect](body):
        if isinstance(event, dict):  # not the line that ends a stream of OpenAI Chat
            stream.feed(event)
    assert (reply_ending(dialect, body), reply_ending(dialect, stream.body), stream.stop) == (ends, ends, "done")


def test_a_blocked_prompt_is_filtered():
    """Gemini answers it without any candidate."""
    assert reply_ending("gemini", {"candidates": [], "promptFeedback": {"blockReason": "SAFETY"}}) == "filter"


@pytest.mark.parametrize("dialect", sorted(SPELLED))
@pytest.mark.parametrize("body", [{}, {"choices": [], "candidates": []}, {"choices": "x", "candidates": [3]}])
def test_an_odd_body_is_whole(dialect, body):
    """Nothing is guessed of a reply that says nothing about its end."""
    assert reply_ending(dialect, body) == "whole"


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "OTHER"])
def test_a_reply_that_broke_in_a_call_is_no_whole_one(reason):
    """Gemini ends it behind the words that came before the call."""
    body = {"candidates": [{"content": {"parts": [{"text": "I'll mend it."}]}, "finishReason": reason}]}
    assert reply_ending("gemini", body) == "broken"


def test_a_reply_that_the_provider_paused_is_to_be_gone_on_with():
    """Anthropic pauses a long turn with tools of its own."""
    assert reply_ending("anthropic", {"stop_reason": "pause_turn"}) == "length"
