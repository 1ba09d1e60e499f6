"""The bundled session at 16 000 tokens, as text made for reading in a diff.

`FOVEAL_UPDATE_GOLDEN=1` writes the files anew; what changed is then in the diff, and is meant or not.
"""

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import replay
from foveal.testing import oracles
from foveal.testing.builders import MODELS, sends_at_most
from foveal.values.prompt import Prompt

HERE = Path(__file__).parent
CALLS = (6, 40, 70)
WIDE = 140


@pytest.fixture(scope="module")
def recording() -> Recording:
    (found,) = read(Path(str(files("foveal.analysis.replay").joinpath("demo.jsonl.gz"))))
    return found


def prompts(recording: Recording, dialect: str) -> dict[int, Prompt]:
    kept: dict[int, Prompt] = {}

    def keep(number: int, prompt: Prompt | None, refused: str) -> None:
        assert prompt, refused
        assert oracles.problems(prompt) == []
        if number in CALLS:
            kept[number] = prompt

    replay(recording, model=MODELS[dialect], policy=sends_at_most(16_000), dialect=dialect, on_prompt=keep)
    return kept


def compare(name: str, text: str) -> None:
    file = HERE / name
    if os.environ.get("FOVEAL_UPDATE_GOLDEN") == "1":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{name} changed; FOVEAL_UPDATE_GOLDEN=1 writes it anew"


def trace_text(prompt: Prompt) -> Iterator[str]:
    trace = prompt.trace
    yield f"call {trace.call}: {trace.tokens:,} of {trace.limit:,} tokens, {trace.raw_tokens:,} raw"
    yield f"  {trace.tools_tokens:>6,}  tools"
    yield f"  {trace.framing_tokens:>6,}  framing"
    full: list[int] = []
    for line in (*trace.lines, None):
        if line is not None and line.shown == "full" and not line.policy:
            full.append(line.tokens)
            continue
        if full:
            yield f"  {sum(full):>6,}  {len(full)} entries in full"
            full = []
        if line is not None:
            what = f"{line.kind} x{line.entries}" if line.entries > 1 else line.kind
            yield f"  {line.tokens:>6,}  {line.entry[:26]} {what}: {line.shown} by {line.policy}, {line.because}"


def test_the_trace_of_three_calls(recording: Recording) -> None:
    """What three calls showed, and why, is what it was."""
    found = prompts(recording, "openai_chat")
    compare("trace.txt", "\n".join(line for call in CALLS for line in (*trace_text(found[call]), "")))


@pytest.mark.parametrize("dialect", sorted(MODELS))
def test_the_prompt_of_a_call(recording: Recording, dialect: str) -> None:
    """One request in each dialect, with its texts cut to a line."""
    prompt = prompts(recording, dialect)[CALLS[0]]
    compare(f"prompt_{dialect}.txt", "\n".join(_shape(prompt.request)) + "\n")


def _shape(value: Any, indent: str = "", label: str = "") -> Iterator[str]:
    """A request line by line: keys, and the beginning of each text."""
    match value:
        case dict():
            inline = msgspec.json.encode(_cut(value)).decode()
            if len(inline) <= WIDE:
                yield f"{indent}{label}{inline}"
                return
            yield f"{indent}{label}{{"
            for key, item in value.items():
                yield from _shape(item, indent + " ", f"{key}: ")
        case list():
            yield f"{indent}{label}[{len(value)}]"
            for item in value:
                yield from _shape(item, indent + " ", "- ")
        case _:
            yield f"{indent}{label}{msgspec.json.encode(_cut(value)).decode()}"


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > 60:
            return f"{value[:40]}… {len(value)} characters"
        case dict():
            return {key: _cut(item) for key, item in value.items()}
        case list():
            return [_cut(item) for item in value]
        case _:
            return value
