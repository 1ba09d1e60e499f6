"""The provider's count of thinking: within the output of every provider's usage, told where the provider tells it."""

import pytest

from foveal.dialects import find_dialect

CHAT = {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17}
RESPONSES = {"input_tokens": 10, "output_tokens": 7, "total_tokens": 17}
ANTHROPIC = {"input_tokens": 10, "output_tokens": 7}
GEMINI = {"prompt_token_count": 10, "candidates_token_count": 4, "total_token_count": 14}


def reply(dialect, usage):
    """A reply of one word."""
    return {
        "openai_chat": {
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
            "usage": usage,
        },
        "openai_responses": {
            "model": "m",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]}],
            "usage": usage,
        },
        "anthropic": {"model": "m", "content": [{"type": "text", "text": "Yes."}], "usage": usage},
        "gemini": {
            "model_version": "m",
            "candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}}],
            "usage_metadata": usage,
        },
    }[dialect]


@pytest.mark.parametrize(
    ("dialect", "usage", "output", "reasoning"),
    [
        ("openai_chat", CHAT, 7, None),
        ("openai_chat", CHAT | {"completion_tokens_details": None}, 7, None),
        ("openai_chat", CHAT | {"completion_tokens_details": {"reasoning_tokens": 0}}, 7, 0),
        ("openai_chat", CHAT | {"completion_tokens_details": {"reasoning_tokens": 5}}, 7, 5),
        ("openai_chat", CHAT | {"total_tokens": 22, "completion_tokens_details": {"reasoning_tokens": 5}}, 12, 5),
        ("openai_responses", RESPONSES, 7, None),
        ("openai_responses", RESPONSES | {"output_tokens_details": {"reasoning_tokens": 5}}, 7, 5),
        ("anthropic", ANTHROPIC, 7, None),
        ("anthropic", ANTHROPIC | {"output_tokens_details": {"thinking_tokens": 5}}, 7, 5),
        ("gemini", GEMINI, 4, None),
        ("gemini", GEMINI | {"thoughts_token_count": None}, 4, None),
        ("gemini", GEMINI | {"thoughts_token_count": 5}, 9, 5),
    ],
)
def test_thinking_is_counted_once_and_within_the_output(dialect, usage, output, reasoning):
    """OpenAI and Anthropic count it within their output, Gemini and xAI beside it; None is not zero."""
    counted = find_dialect(dialect).reader.reply(reply(dialect, usage)).usage
    assert counted is not None
    assert (counted.input_tokens, counted.output_tokens, counted.reasoning_tokens) == (10, output, reasoning)


def test_a_stream_of_anthropic_tells_it_at_its_end():
    """The last count of a stream has the details; the first one has none."""
    stream = find_dialect("anthropic").reader.stream()
    first = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": []}
    stream.feed({"type": "message_start", "message": first | {"usage": {"input_tokens": 10, "output_tokens": 1}}})
    stream.feed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}})
    stream.feed({"type": "content_block_stop", "index": 0})
    counted = {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 5}}
    stream.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counted})
    stream.feed({"type": "message_stop"})
    usage = stream.reply().usage
    assert usage is not None
    assert (usage.output_tokens, usage.reasoning_tokens) == (7, 5)
