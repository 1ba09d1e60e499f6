"""Made sessions of an agent that uses far back what it read, one line of each file, and never the others."""

from foveal.analysis.measurement.case import case_of
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.values.entry import ToolCall, assistant, result, user
from foveal_bench.training.rows import Row


def line(name, file, n):
    return f"def {name}_{file}_line_{n}(value): return value * {n + 1000 * (file + 1)}"


def session(name, steps=24, lines=12, back=9):
    """Reads a file at each step, and writes the third line of the file that it read `back` steps before."""
    messages = [user(f"Go through {name}.")]
    for i in range(steps):
        text = line(name, i - back, 3) if i >= back else "pass"
        arguments = f'{{"path": "{name}/file_{i}.py", "text": "{text}"}}'
        messages.append(assistant("", ToolCall(f"c{i}", "work", arguments)))
        messages.append(result(f"c{i}", "\n".join(line(name, i, n) for n in range(lines))))
    return messages


def recording(name, **options):
    return Recording(name, f"{name}.jsonl", None, "[]", tuple(map(RecordedStep, session(name, **options))))


def row(*features, needed, weight=1.0):
    return Row(features, needed, weight)


def case(name, **options):
    return case_of(recording(name, **options), "made", frozenset())
