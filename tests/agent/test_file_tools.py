"""Tools for files: nothing outside the workspace, read before edit, and no half-written file."""

import asyncio
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor, wait
from threading import Event
from typing import Any

import pytest

import foveal
from foveal.agent import ToolContext, file_tools
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.file_tools import Files
from foveal.agent.tool_calls import run_call
from foveal.values.errors import BadInput

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


def test_others_can_read_what_is_made(hands, workspace):
    """As far as the program's mask allows: a page in a new folder is for the server beside it."""
    before = os.umask(0o022)
    try:
        hands("write_file", path="docs/a/b.md", content="x")
    finally:
        os.umask(before)
    made = (workspace / "docs", workspace / "docs" / "a", workspace / "docs" / "a" / "b.md")
    assert [one.stat().st_mode & 0o777 for one in made] == [0o755, 0o755, 0o644]


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


def test_a_folder_that_cannot_be_opened_keeps_nobody_from_the_others(hands, workspace, monkeypatch):
    """It is listed, and nothing in it is; asked about by its name, it is an error."""
    (workspace / "locked").mkdir()
    whole = file_tools.open_folder

    def opened(root, parts=()):
        if parts == ("locked",):
            raise BadInput("locked: cannot be opened (Permission denied)")
        return whole(root, parts)

    monkeypatch.setattr(file_tools, "open_folder", opened)
    assert hands("list_files") == ("ok", "locked/\nnotes.txt\nsrc/\nsrc/sum.py")
    assert hands("search_files", pattern="return a") == ("ok", "src/sum.py:2:    return a - b")
    assert hands("list_files", folder="locked")[0] == "error"


WINDOWS = b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\nfour\n"


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        ("two\n", "2\nand a half\n", WINDOWS.replace(b"two\r\n", b"2\r\nand a half\r\n")),
        ("two\r\n", "2\r\n", WINDOWS.replace(b"two", b"2")),
        ("one", "1", WINDOWS.replace(b"one", b"1")),
        ("three\nfour\n", "3\n", WINDOWS.replace(b"three\r\nfour\n", b"3\r\n")),
    ],
    ids=["lines", "with its own line ends", "the first word", "line ends of both kinds"],
)
def test_an_edit_changes_nothing_else(hands, workspace, old, new, after):
    """Neither line ends nor the byte order mark, which a reader is not shown: each line would be another one."""
    (workspace / "win.txt").write_bytes(WINDOWS)
    assert hands("read_file", path="win.txt") == ("ok", "one\ntwo\nthree\nfour\n")
    assert hands("edit_file", path="win.txt", old=old, new=new)[0] == "ok"
    assert (workspace / "win.txt").read_bytes() == after


def test_a_file_that_is_replaced_keeps_its_line_ends(hands, workspace):
    """A new one has those that it is given."""
    (workspace / "win.txt").write_bytes(WINDOWS)
    hands("read_file", path="win.txt")
    assert hands("write_file", path="win.txt", content="1\n2\r\n")[0] == "ok"
    assert (workspace / "win.txt").read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n"
    assert hands("write_file", path="new.txt", content="1\n2\r\n")[0] == "ok"
    assert (workspace / "new.txt").read_bytes() == b"1\n2\r\n"


def test_a_file_that_could_not_be_read_is_not_replaced(hands, workspace):
    """The model has seen nothing of it."""
    (workspace / "logo.png").write_bytes(b"\x89PNG\xff")
    assert hands("read_file", path="logo.png")[0] == "error"
    assert "read it first" in hands("write_file", path="logo.png", content="x")[1]
    assert (workspace / "logo.png").read_bytes() == b"\x89PNG\xff"


def test_a_line_has_the_number_that_a_search_says(hands, workspace):
    """Form feeds and the like are no line ends."""
    (workspace / "old.c").write_text("a\x0cb\nc\u2028d\nneedle\n")
    assert hands("search_files", pattern="needle") == ("ok", "old.c:3:needle")
    assert hands("read_file", path="old.c", first_line=3, lines=1) == ("ok", "needle\n")


def test_two_sub_agents_do_not_write_over_each_other(workspace, monkeypatch):
    """Each has tools of its own: the second one is told that the file has changed."""
    hands, other = Hands(workspace), Hands(workspace, "other")
    begun, go, whole = Event(), Event(), Files._replace

    def slow(*given: Any) -> None:
        begun.set()
        go.wait(10)
        whole(*given)

    for one in (hands, other):
        one("read_file", path="notes.txt")
    monkeypatch.setattr(Files, "_replace", slow)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(hands, "edit_file", path="notes.txt", old="one", new="1")
        begun.wait(10)
        second = threads.submit(other, "edit_file", path="notes.txt", old="two", new="2")
        assert not wait([second], timeout=0.05).done
        go.set()
    assert first.result()[0] == "ok"
    assert "somebody has changed it" in second.result()[1]
    assert (workspace / "notes.txt").read_text() == "1\ntwo\nthree\n"
