"""The neutral form: chat messages with what the provider measured."""

import copy
import json

import pytest

from foveal.analysis.recordings import read
from foveal.values.entry import ToolCall, ToolResult, Usage
from foveal.values.errors import BadRecording


def test_usage_stands_at_its_message(write, samples):
    """`meta.usage` becomes the usage of the step it counts; cached tokens are part of the input."""
    [recording] = read(write(samples["neutral"]))
    assert (recording.id, recording.model, recording.source[-2:]) == ("trip/1", "m-1", ":1")
    assert recording.tools == '[{"type":"function","function":{"name":"fare"}}]'
    assert [step.usage for step in recording.steps] == [
        None,
        Usage("m-1", 900, 20),
        None,
        Usage("m-1", 1000, 9, cache_read_tokens=896),
    ]
    assert recording.steps[1].message.parts == (ToolCall("c1", "fare", "{}"),)
    result = recording.steps[2].message.parts[0]
    assert isinstance(result, ToolResult)
    assert (result.call, result.status) == ("c1", "ok")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ([[0, 1, 2, 3]], "message 0, which is no assistant message"),
        ([[9, 1, 2, 3]], "message 9, which is no assistant message"),
        ([[1, 2]], r"must be \[message_index"),
        ([[1, "a", 2, 3]], "must be a count"),
        ([[-1, 1, 2, 3]], "must be a count"),
        ("x", "must be a list"),
    ],
)
def test_usage_that_fits_no_message_is_refused(write, samples, usage, expected):
    """A count that cannot be placed would falsify every bill made from it."""
    record = copy.deepcopy(json.loads(samples["neutral"]))
    record["meta"]["usage"] = usage
    with pytest.raises(BadRecording, match=expected):
        list(read(write([record])))


def test_losses_of_the_set_are_noted(write, samples):
    """What the makers of a set left out is said again."""
    record = json.loads(samples["neutral"])
    record["meta"] |= {"system_prompt_recorded": False, "dropped_unanswered_calls": 2, "compactions": [{"index": 1}]}
    [recording] = read(write([record]))
    assert recording.notes == (
        "the system prompt was not recorded",
        "1 compactions of the recording agent are in it",
        "the set leaves out 2 calls without an answer",
    )
