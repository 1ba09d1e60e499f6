"""Cleaning shows first, removes only what is old and ours, and follows nothing."""

import os
from datetime import timedelta

import pytest

from foveal import BadInput
from foveal.context.workspace import Workspace, clean, folders

NOW = 1_000_000_000.0
DAY = 86_400
WEEK = timedelta(days=7)


def aged(space, days):
    """As if nothing had been done in it for so many days."""
    for path in (space.path, *space.path.rglob("*")):
        os.utime(path, (NOW - days * DAY, NOW - days * DAY), follow_symlinks=False)
    return space


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


@pytest.fixture
def old(root):
    space = Workspace.open(root, "old")
    space.put(b"12345", "a.txt")
    return aged(space, 8)


@pytest.fixture
def fresh(root):
    return aged(Workspace.open(root, "fresh"), 6)


def test_a_plan_shows_and_removes_nothing(root, old, fresh):
    """What would go is named with its size and its age; everything is still there."""
    plan = clean(root, WEEK, now_s=NOW)
    assert [(one.session, one.folder, one.used_s) for one in plan.remove] == [("old", old.path.name, NOW - 8 * DAY)]
    assert plan.size_bytes > 5
    assert [one.session for one in plan.keep] == ["fresh"]
    assert old.list()[0].name == "a.txt"


def test_applying_removes_what_was_shown(root, old, fresh):
    """The old one is gone with all in it, the other is as it was."""
    plan = clean(root, WEEK, now_s=NOW)
    assert plan.apply().removed == plan.remove
    assert [path.name for path in root.iterdir()] == [fresh.path.name]


def test_one_new_file_keeps_a_session(root, old):
    """A session is as young as the youngest thing in it, however deep."""
    (old.folder("outputs") / "deep" / "er").mkdir(parents=True)
    (old.folder("outputs") / "deep" / "er" / "x").write_text("x")
    os.utime(old.folder("outputs") / "deep" / "er" / "x", (NOW, NOW))
    assert clean(root, WEEK, now_s=NOW).remove == ()


def test_opening_a_session_makes_it_young(root, old):
    """Whoever comes back to a session finds its files."""
    Workspace.open(root, "old")
    (found,) = folders(root)
    assert found.used_s > NOW


def test_what_was_used_since_the_plan_stays(root, old):
    """Between showing and removing somebody came back: the folder stays, and the outcome says so."""
    plan = clean(root, WEEK, now_s=NOW)
    stored = old.put(b"new", "b.txt")
    os.utime(old.folder("uploads") / stored.file, (NOW, NOW))
    outcome = plan.apply()
    assert outcome.removed == ()
    assert [why for _, why in outcome.kept] == ["it has been used since"]
    assert stored in old.list()


def test_what_is_not_ours_is_never_touched(root, old):
    """Other folders, files and links below the root stay, even with a name like ours."""
    stranger = root / f"s-{'0' * 40}"
    stranger.mkdir()
    (stranger / "session.json").write_text('{"session": "somebody"}')
    (root / "notes").mkdir()
    (root / f"s-{'1' * 40}").symlink_to(root / "notes")
    clean(root, timedelta(0), now_s=NOW * 2).apply()
    assert sorted(path.name for path in root.iterdir()) == ["notes", stranger.name, f"s-{'1' * 40}"]


@pytest.mark.usefixtures("unchanged")
def test_links_are_removed_and_not_followed(root, old, outside):
    """What a link in a session's folder leads to is still there afterwards."""
    (old.folder("temp") / "way_out").symlink_to(outside, target_is_directory=True)
    (old.folder("temp") / "file").symlink_to(outside / "secret.txt")
    aged(old, 8)
    clean(root, WEEK, now_s=NOW).apply()
    assert not old.path.exists()


def test_read_only_skills_are_removed(root, old, tmp_path):
    """What nobody may write in can still be cleaned."""
    (tmp_path / "skill" / "scripts").mkdir(parents=True)
    (tmp_path / "skill" / "scripts" / "x.py").write_text("x")
    old.link_skill(tmp_path / "skill")
    aged(old, 8)
    assert clean(root, WEEK, now_s=NOW).apply().kept == ()
    assert list(root.iterdir()) == []


def test_no_depth_is_too_deep(root, old):
    """Eleven hundred folders in each other, more than descriptors or recursion would allow, are removed."""
    here = os.open(old.folder("temp"), os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert clean(root, WEEK, now_s=NOW).apply().kept == ()
    assert list(root.iterdir()) == []


def test_what_an_interrupted_cleaning_left_is_cleaned(root, old):
    """It has no session any more, and goes with the next cleaning whatever its age."""
    old.path.rename(root / f"removing-{'a' * 24}")
    plan = clean(root, WEEK, now_s=NOW)
    assert [one.session for one in plan.remove] == [None]
    plan.apply()
    assert list(root.iterdir()) == []


def test_a_session_without_a_name_is_one(root):
    """The empty name is a session's name like any other."""
    aged(Workspace.open(root, ""), 1)
    assert clean(root, WEEK, now_s=NOW).remove == ()


def test_a_root_that_is_not_there_has_nothing(root):
    """Nothing to list, nothing to clean, and nothing is made."""
    assert folders(root) == ()
    assert clean(root, WEEK, now_s=NOW).remove == ()
    assert not root.exists()


def test_a_negative_age_is_refused(root):
    """It would mean the files of the future."""
    with pytest.raises(BadInput, match="not negative"):
        clean(root, timedelta(days=-1))
