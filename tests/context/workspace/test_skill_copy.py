"""A skill in a workspace: the same content, read-only, and nothing from elsewhere."""

import os
import re
import stat

import pytest

from foveal import BadInput
from foveal.context.workspace import skill_copy
from foveal.testing.hostile_names import hostile_names

pytestmark = pytest.mark.usefixtures("unchanged")


@pytest.fixture
def skill(tmp_path):
    folder = tmp_path / "skill"
    (folder / "scripts").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: charts\n---\n")
    (folder / "scripts" / "run.sh").write_text("#!/bin/sh\n")
    (folder / "scripts" / "run.sh").chmod(0o4755)
    return folder


def test_a_skill_is_copied_with_its_hostile_names(space, skill):
    """The text of a skill names its files, so their names and contents are the same in the copy."""
    linked = space.link_skill(skill)
    assert (linked.path / "SKILL.md").read_text() == (skill / "SKILL.md").read_text()
    assert (linked.path / "scripts" / "run.sh").read_text() == "#!/bin/sh\n"
    assert (linked.name, linked.files, linked.size_bytes) == ("skill", 2, 31)


def test_the_copy_is_read_only(space, skill):
    """Nobody may write in it; what could be run still can, without special rights."""
    linked = space.link_skill(skill)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (linked.path, *linked.path.rglob("*"))}
    assert modes == {linked.path.name: 0o555, "SKILL.md": 0o444, "scripts": 0o555, "run.sh": 0o555}


def test_the_same_content_is_copied_once(space, skill):
    """Linking again gives the same folder, and leaves nothing else behind."""
    assert space.link_skill(skill) == space.link_skill(skill)
    assert len(list(space.folder("skills").iterdir())) == 1


def test_changed_content_gets_a_folder_of_its_own(space, skill):
    """A session that reads the old one is not disturbed by the new one."""
    before = space.link_skill(skill)
    (skill / "SKILL.md").write_text("other")
    after = space.link_skill(skill)
    assert before.path != after.path
    assert (before.path / "SKILL.md").read_text() != "other"


def test_a_link_within_the_skill_is_copied_as_its_file(space, skill):
    """A link to a file of the same skill, over another link and back up, becomes that file."""
    (skill / "scripts" / "again.md").symlink_to("../SKILL.md")
    (skill / "README.md").symlink_to("scripts/again.md")
    linked = space.link_skill(skill)
    assert (linked.path / "README.md").read_text() == (skill / "SKILL.md").read_text()
    assert not (linked.path / "README.md").is_symlink()


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret.txt",
        "scripts/../../outside/secret.txt",
        "/etc/passwd",
        "loop",
        "scripts",
        "../skill/SKILL.md",
    ],
)
def test_a_link_that_leaves_the_skill_is_refused(space, skill, target):
    """Out of the folder, in circles, or to a folder: refused by name, and nothing is left in the workspace."""
    (skill / "loop").symlink_to(target)
    with pytest.raises(BadInput, match="has a link to"):
        space.link_skill(skill)
    assert list(space.folder("skills").iterdir()) == []


def test_a_skill_below_a_root_is_reached_step_by_step(space, skill, tmp_path):
    """The root may be a link, which is the user's word; a folder below it that was swapped for a link is not entered."""
    links = tmp_path / "other"
    links.mkdir()
    (links / "alias").symlink_to(tmp_path)
    (links / "swapped").symlink_to(tmp_path / "outside")
    linked = space.link_skill(links / "alias", ("skill",))
    assert (linked.name, linked.place) == ("skill", f"skills/{linked.path.name}")
    assert linked == space.link_skill(skill)
    for folder in (("swapped",), ("alias", "skill"), ("nul\0",), ("missing",)):
        with pytest.raises(BadInput, match="cannot be read"):
            space.link_skill(links, folder)
    assert [path.name for path in space.folder("skills").iterdir()] == [linked.path.name]


def test_what_is_hidden_is_no_part_of_a_skill(space, skill):
    """The history of a checkout is not copied, and does not count."""
    before = space.link_skill(skill)
    (skill / ".git" / "objects").mkdir(parents=True)
    (skill / ".git" / "objects" / "ab").write_text("history")
    (skill / ".env").symlink_to("/etc/passwd")
    assert space.link_skill(skill) == before


def test_a_pipe_in_a_skill_is_refused(space, skill):
    """What is no file, folder or link has no place in a skill."""
    os.mkfifo(skill / "pipe")
    with pytest.raises(BadInput, match="no file, folder or link"):
        space.link_skill(skill)


@pytest.mark.parametrize(("limit", "most"), [("MOST_FILES", 1), ("MOST_SKILL_BYTES", 5), ("MOST_DEPTH", 0)])
def test_too_large_a_skill_is_refused(space, skill, monkeypatch, limit, most):
    """Too many files, bytes or levels: refused with the limit, and nothing is left."""
    monkeypatch.setattr(skill_copy, limit, most)
    with pytest.raises(BadInput, match="is it the right folder"):
        space.link_skill(skill)
    assert list(space.folder("skills").iterdir()) == []


@pytest.mark.parametrize("path", ["missing", "outside/secret.txt", "nul\0"])
def test_what_is_no_folder_is_no_skill(space, tmp_path, path):
    """The error names what was given."""
    with pytest.raises(BadInput, match="cannot be read"):
        space.link_skill(str(tmp_path / path))


def test_hostile_skill_names_escape_nowhere(space, tmp_path):
    """2 000 hostile names of skills, as far as a disk can hold them: each folder in the workspace has a generated name."""
    made = 0
    for name in hostile_names():
        folder = tmp_path / "other" / name.replace("/", "∕")
        try:
            folder.mkdir(parents=True)
        except (OSError, ValueError):
            continue  # no disk can hold such a name, so no skill has it
        (folder / "SKILL.md").write_text(str(made))
        space.link_skill(folder)
        made += 1
    found = [path.name for path in space.folder("skills").iterdir()]
    assert len(found) == made > 300
    assert all(re.fullmatch("[0-9a-f]{32}", name) for name in found)
