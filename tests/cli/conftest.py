"""A way to run the command, a small recording, and a store with the demo's session in it."""

import gzip
import json
import re
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

import pytest

from foveal.cli import main

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Reads a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capsys):
    def run_main(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return run_main


def conversation(name, steps=6, size=400):
    """A session with a large result for every call."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"Look at everything in {name}."},
    ]
    for i in range(steps):
        arguments = json.dumps({"path": f"{name}/file_{i}.py"})
        call = {"id": f"call_{name}_{i}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "\n".join(f"line {n} of file {i} in {name}" for n in range(size))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    messages.append({"role": "assistant", "content": "That was all."})
    return {
        "id": name,
        "source": "made for a test",
        "license": "MIT",
        "model": None,
        "tools": TOOLS,
        "messages": messages,
        "meta": {},
    }


@pytest.fixture
def recorded(tmp_path):
    """Writes conversations to a file, one a line."""

    def write(*names, file="recorded.jsonl", **options):
        path = tmp_path / file
        path.write_text("".join(json.dumps(conversation(name, **options)) + "\n" for name in names))
        return path

    return write


@pytest.fixture
def kept(run, recorded, tmp_path):
    """A store with one replayed session, `alpha`, that was folded."""
    store = tmp_path / "kept.db"
    assert run("replay", recorded("alpha"), "--budget", 8000, "--store", store).code == 0
    return store


@pytest.fixture
def page_blocks():
    """A function that returns the data of a page that was written."""
    block = re.compile(r'<script type="application/octet-stream" id="([\w-]+)">([A-Za-z0-9+/=]*)</script>')
    return lambda path: {
        name: json.loads(gzip.decompress(b64decode(data))) for name, data in block.findall(path.read_text())
    }
