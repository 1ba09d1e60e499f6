"""Every Python block in the README and the docs runs, and every command line in them is one that the command takes."""

import asyncio
import gc
import re
import shlex
import warnings
from pathlib import Path

import pytest

from foveal.cli.parser import parse
from foveal.testing.provider import Call, ScriptedProvider, Turn

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\$ |    )(?:[^#\n]*\| )?(foveal [^\n]*)$", re.MULTILINE)
HEAVY = {"litellm.md": "litellm"}
"""Pages whose framework is installed by `make dropins` alone."""

LINK = re.compile(r"\]\(([^)#]+)\)")

READS = Turn("", (Call("call_1", "read_file", {"path": "login.py"}),))
SAYS = Turn("It does nothing yet.")


@pytest.fixture
def provider(monkeypatch):
    """The environment of a reader who has a key; the model reads a file, whatever it is asked, and then says something."""
    with ScriptedProvider(improvise=lambda request: SAYS if b"call_1" in request.raw else READS) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        asyncio.set_event_loop(None)  # the one that a framework's `run_sync` leaves
        gc.collect()  # the SDKs' clients of a short program, which nobody closes: its end does


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run(page, provider, tmp_path, monkeypatch):
    """A reader can paste any block of a page into an empty folder and it works."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login.py").write_text("def login(): ...\n")
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks, f"{page.name} opens with a runnable example"
    if page.name in HEAVY:
        pytest.importorskip(HEAVY[page.name], reason="tested by `make dropins`")
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}[{number}]", "exec"), {"__name__": "block"})  # noqa: S102 - our own docs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_a_page_lead_somewhere(page):
    """Every relative link in the docs names a file that is there."""
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_command_lines_of_a_page_are_understood(page):
    """Each line that begins with `foveal` parses, and one that reads a store names it: a reader has no ./foveal.db."""
    for line in COMMAND.findall(page.read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)
        args = parse(words[1:])
        reads_files = words[1] == "replay" or (words[1] == "view" and (not args.target or Path(args.target).suffix))
        assert getattr(args, "store", "given") or reads_files, line


def test_the_first_program_can_be_run_twice(provider, tmp_path, monkeypatch):
    """The README's quickstart, pasted again into the same folder, goes on with its session: nothing is said twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "login.py").write_text("def login(): ...\n")
    block = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    for _ in range(2):
        exec(compile(block, "README.md[0]", "exec"), {"__name__": "block"})  # noqa: S102 - our own docs
    roles = [message["role"] for message in provider.last.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert provider.refused == []
