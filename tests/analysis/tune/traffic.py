"""Small sessions in which something read early is used late, and cells without any session."""

import json
from typing import Any

from foveal.analysis.measurement.case import case_of
from foveal.analysis.measurement.shares import Interval
from foveal.analysis.recordings import read
from foveal.analysis.tune.points import Cell

BUDGET = 4_000


def conversation(name, steps=30, lines=40):
    """Reads a file at each step, and uses a number of what it read ten steps before."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Go through {name}."}]
    for i in range(steps):
        edit = f"value * {(i * 7 + 3) % lines + 1000 * (i - 10)}" if i >= 10 else "pass"
        arguments = json.dumps({"path": f"{name}/file_{i}.py", "edit": edit})
        call = {"id": f"call_{name}_{i}", "type": "function", "function": {"name": "work", "arguments": arguments}}
        text = "\n".join(f"def {name}_{i}_line_{n}(value): return value * {n + 1000 * i}" for n in range(lines))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    messages.append({"role": "assistant", "content": "Done."})
    return {"id": name, "source": "made for a test", "license": "MIT", "tools": [], "messages": messages, "meta": {}}


def written(path, *names, **options):
    path.write_text("".join(json.dumps(conversation(name, **options)) + "\n" for name in names))
    return path


def cases_of(path):
    return [case_of(recording, "made", frozenset()) for recording in read(path)]


def cell(cost=0.5, grounding=0.8, *, short_range=1.0, broken=0):
    """A session of a hundred of everything."""
    found = (100 * grounding, 100.0)
    return Cell((100 * cost, 100.0), found, found, (100 * short_range, 100.0), broken)


def within(interval, low, high):
    return isinstance(interval, Interval) and low <= interval.low <= interval.high <= high
