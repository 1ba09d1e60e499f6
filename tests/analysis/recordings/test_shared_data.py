"""Every recorded set that is at hand is read without an error, and nothing in it is lost."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from foveal.analysis.recordings import detect, read
from foveal.values.entry import Text, ToolCall, ToolResult

DATA = Path(__file__).parents[4] / "shared" / "data"
SETS = sorted(DATA.glob("*.jsonl.gz"))

if not SETS:
    pytest.skip(f"no recorded sets in {DATA}", allow_module_level=True)


def counted_plainly(path: Path) -> Counter[str]:
    """The same counts, straight from the JSON."""
    counts: Counter[str] = Counter()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, lines):
            counts["recordings"] += 1
            counts["usage"] += len(record["meta"].get("usage") or [])
            counts["input"] += sum(row[1] for row in record["meta"].get("usage") or [])
            for message in record["messages"]:
                counts[message["role"]] += 1
                counts["characters"] += len(message["content"] or "")
                for call in message.get("tool_calls") or []:
                    counts["calls"] += 1
                    counts["arguments"] += len(call["function"]["arguments"])
    return +counts


def counted_as_recordings(path: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for recording in read(path):
        counts["recordings"] += 1
        for step in recording.steps:
            counts[step.message.role] += 1
            counts["usage"] += step.usage is not None
            counts["input"] += step.usage.input_tokens if step.usage else 0
            for part in step.message.parts:
                match part:
                    case Text():
                        counts["characters"] += len(part.text)
                    case ToolCall():
                        counts["calls"] += 1
                        counts["arguments"] += len(part.arguments)
                    case ToolResult():
                        counts["characters"] += sum(len(item.text) for item in part.content if isinstance(item, Text))
    return +counts


@pytest.mark.parametrize("path", SETS, ids=lambda path: path.name.partition(".")[0])
def test_a_set_is_read_completely(path):
    """Messages, calls, results, characters and measured usage agree with a plain count of the JSON."""
    assert detect(path) == "neutral"
    assert counted_as_recordings(path) == counted_plainly(path)
