"""`foveal workspace`: listing, showing what is old, and removing it only when told to."""

import os

import pytest

from foveal.context.workspace import Workspace

LONG_AGO = 1_000_000_000


@pytest.fixture
def root(tmp_path):
    for name in ("old\x1b[2J session", "new"):
        Workspace.open(tmp_path / "root", name).put(b"12345", "a.txt")
    for path in Workspace(tmp_path / "root", "old\x1b[2J session").path.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return tmp_path / "root"


def test_workspaces_are_listed(run, root):
    """The longest unused first, with files, bytes and the session's name made harmless."""
    ran = run("workspace", "list", "--root", root)
    lines = ran.out.splitlines()
    assert (ran.code, len(lines)) == (0, 3)
    assert "2001-09-09 01:46 UTC" in lines[1]
    assert lines[1].endswith("old␛[2J session")


def test_cleaning_shows_and_removes_nothing(run, root):
    """Without --apply everything is still there, and the output says how to go on."""
    ran = run("workspace", "clean", "--root", root)
    assert ran.code == 0
    assert "would be removed: 1, with " in ran.out
    assert "newer ones, which stay: 1" in ran.out
    assert "Nothing has been removed. Say --apply" in ran.out
    assert len(list(root.iterdir())) == 2


def test_cleaning_removes_when_told_to(run, root):
    """With --apply what was shown is gone, and the rest is not."""
    ran = run("workspace", "clean", "--root", root, "--apply")
    assert ran.code == 0
    assert ran.out.splitlines()[-1].startswith("removed: 1, with ")
    assert [path.name for path in root.iterdir()] == [Workspace(root, "new").path.name]


def test_nothing_old_is_nothing_to_remove(run, root):
    """An age that nothing has reached removes nothing, even with --apply."""
    ran = run("workspace", "clean", "--root", root, "--older-than", "5000w", "--apply")
    assert ran.out.startswith("nothing to remove")
    assert len(list(root.iterdir())) == 2


def test_the_document_says_what_was_done(run, root):
    """As JSON: what would be removed, and what was."""
    shown = run("workspace", "clean", "--root", root, "--json").json
    done = run("workspace", "clean", "--root", root, "--json", "--apply").json
    assert (shown["removed"], shown["older_than_s"]) == (None, 7 * 86_400)
    assert done["removed"] == shown["would_remove"]
    assert done["not_removed"] == []


def test_the_root_may_come_from_the_environment(run, root, monkeypatch):
    """$FOVEAL_WORKSPACES names it where nothing else does."""
    monkeypatch.setenv("FOVEAL_WORKSPACES", str(root))
    assert len(run("workspace", "list", "--json").json["workspaces"]) == 2


def test_no_root_is_no_workspaces(run, tmp_path):
    """Looking makes nothing."""
    assert run("workspace", "list", "--root", tmp_path / "none").out.startswith("no workspaces")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("age", ["7", "d", "-1d", "1y", "1.5d", "99999999d"])
def test_what_is_no_age_is_refused(run, root, age):
    """The error shows how an age is written."""
    ran = run("workspace", "clean", "--root", root, f"--older-than={age}")
    assert ran.code == 2
    assert "write 90m, 12h, 7d or 4w" in ran.err
