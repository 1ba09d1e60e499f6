"""Tools for files: nothing outside the workspace, read before edit, and no half-written file."""

import asyncio
import json
import re
from typing import Any

import pytest

import foveal
from foveal.agent import ToolContext
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.tool_calls import run_call

from .test_tools import Scope


@pytest.fixture
def workspace(tmp_path):
    inside = tmp_path / "work"
    (inside / "src").mkdir(parents=True)
    (inside / "src" / "sum.py").write_text("def add(a, b):\n    return a - b\n")
    (inside / "notes.txt").write_text("one\ntwo\nthree\n")
    (inside / ".git").mkdir()
    (inside / ".git" / "config").write_text("return nothing")
    (tmp_path / "secret.txt").write_text("return the secret")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    return inside


class Hands:
    """The tools of one session."""

    def __init__(self, workspace, session: str = "s") -> None:
        self.tools = {one.name: one for one in built_in_tools(["files"], workspace)}
        self.scope = Scope()
        self.scope.session = session

    def __call__(self, name: str, **arguments: object) -> tuple[str, str]:
        call = foveal.ToolCall("c1", name, json.dumps(arguments))
        ctx = ToolContext(self.scope, key="k", call="c1", tool=name)
        part: Any = asyncio.run(run_call(self.tools[name], call, ctx)).message.parts[0]
        return part.status, part.content[0].text


@pytest.fixture
def hands(workspace):
    return Hands(workspace)


def test_a_file_is_read_whole_or_by_lines(hands):
    """And says how much is left."""
    assert hands("read_file", path="notes.txt") == ("ok", "one\ntwo\nthree\n")
    assert hands("read_file", path="notes.txt", first_line=2, lines=1) == ("ok", "two\n[1 more lines]")


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link.txt", "src/../../secret.txt", "src"])
@pytest.mark.parametrize("name", ["read_file", "write_file"])
def test_no_path_leads_out(hands, workspace, name, path):
    """Neither by its parts nor by a link; nothing is read and nothing is written."""
    more = {"content": "x"} if name == "write_file" else {}
    status, text = hands(name, path=path, **more)
    assert status == "error"
    assert "the secret" not in text
    assert (workspace.parent / "secret.txt").read_text() == "return the secret"


def test_an_edit_needs_a_file_that_was_read(hands, workspace):
    """As it is now: neither from memory nor over somebody else's change."""
    edit = {"path": "src/sum.py", "old": "a - b", "new": "a + b"}
    assert hands("edit_file", **edit) == ("error", "src/sum.py: read it first; nothing was changed")
    hands("read_file", path="src/sum.py")
    (workspace / "src" / "sum.py").write_text("# changed\ndef add(a, b):\n    return a - b\n")
    assert "somebody has changed it" in hands("edit_file", **edit)[1]
    hands("read_file", path="src/sum.py")
    assert hands("edit_file", **edit) == ("ok", "edited: src/sum.py, line 3")
    assert "a + b" in (workspace / "src" / "sum.py").read_text()
    assert hands("edit_file", path="src/sum.py", old="a + b", new="b + a")[0] == "ok"


@pytest.mark.parametrize("mode", [0o755, 0o600], ids=oct)
@pytest.mark.parametrize("given", [{"content": "new"}, {"old": "one", "new": "1"}], ids=["write_file", "edit_file"])
def test_a_file_keeps_its_permissions(hands, workspace, mode, given):
    """A program stays one, and a file that others could not read is not shown to them."""
    (workspace / "notes.txt").chmod(mode)
    hands("read_file", path="notes.txt")
    assert hands("write_file" if "content" in given else "edit_file", path="notes.txt", **given)[0] == "ok"
    assert (workspace / "notes.txt").stat().st_mode & 0o777 == mode


def test_another_session_must_read_for_itself(hands, workspace):
    """What one has read, the other has not."""
    hands("read_file", path="notes.txt")
    other = Hands(workspace, "other")
    other.tools = hands.tools
    assert other("write_file", path="notes.txt", content="x")[0] == "error"


@pytest.mark.parametrize(("old", "times"), [("e", "3 times"), ("four", "0 times"), ("", "0 times")])
def test_the_text_to_replace_occurs_once(hands, old, times):
    """Otherwise nothing is changed, and the model is told how often."""
    hands("read_file", path="notes.txt")
    status, text = hands("edit_file", path="notes.txt", old=old, new="x")
    assert status == "error"
    assert times in text


def test_a_new_file_is_written_with_its_folders(hands, workspace):
    """And leaves nothing beside it."""
    assert hands("write_file", path="docs/a/b.md", content="x\ny\n") == ("ok", "written: docs/a/b.md, 2 lines")
    assert [one.name for one in (workspace / "docs" / "a").iterdir()] == ["b.md"]
    assert hands("write_file", path="docs/a/b.md", content="z\n")[0] == "ok"


@pytest.mark.parametrize(("before", "after"), [(0, 9_000), (40, 9_000), (4_000, 5_000), (9_000, 0), (0, 480), (480, 0)])
def test_a_long_line_is_cut_around_its_match(hands, workspace, before, after):
    """The match is shown with 500 characters of its line, and how many are left out on either side."""
    (workspace / "app.min.js").write_text("ä" * before + "needle(1);" + "x" * after)
    status, said = hands("search_files", pattern="needle")
    assert status == "ok"
    name, number, line = said.split(":", 2)
    assert (name, number) == ("app.min.js", "1")
    assert "needle(1);" in line
    left = [int(one.replace(",", "")) for one in re.findall(r"\[([\d,]+) characters (?:before|after)\]", line)]
    shown = re.sub(r"\[[\d,]+ characters before\] | \[[\d,]+ characters after\]", "", line)
    assert sum(left) + len(shown) == before + 10 + after
    assert len(shown) == min(500, before + 10 + after)


def test_files_are_listed_and_searched(hands):
    """At any depth, without links and without the folders of other programs."""
    assert hands("list_files") == ("ok", "notes.txt\nsrc/\nsrc/sum.py")
    assert hands("search_files", pattern=r"return \w - \w") == ("ok", "src/sum.py:2:    return a - b")
    assert hands("search_files", pattern="secret") == ("ok", "[no lines]")
    assert hands("search_files", pattern="(")[0] == "error"
