"""A skill in a session's workspace."""

import pytest

from foveal.core.errors import BadInput
from foveal.inject.skills import Skills, lay_out


def test_a_copy_is_made_that_nobody_writes_to(root, put, tmp_path):
    """All of its files are there, read-only, and links are not."""
    place = put("pdf", body="B", **{"a__b__c.txt": "C", "d.txt": "D"})
    (place / "link").symlink_to("/etc/hostname")
    copy = lay_out(Skills.scan([root]), "pdf", tmp_path)
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    assert [str(path.relative_to(copy)) for path in files] == ["SKILL.md", "a/b/c.txt", "d.txt"]
    assert not any(path.stat().st_mode & 0o222 or path.is_symlink() for path in files)
    assert (copy / "SKILL.md").read_bytes() == (place / "SKILL.md").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pdf", "skills"]


def test_a_copy_that_is_there_stays(root, put, tmp_path):
    """What a session was given does not change under it."""
    put("pdf", **{"a.txt": "old"})
    lay_out(Skills.scan([root]), "pdf", tmp_path)
    put("pdf", **{"a.txt": "new"})
    assert (lay_out(Skills.scan([root]), "pdf", tmp_path) / "a.txt").read_text() == "old"


def test_a_link_in_its_place_is_not_written_through(root, put, tmp_path):
    """An agent that puts a link where the copy goes gets an error, and its target nothing."""
    put("pdf")
    (tmp_path / "out").mkdir()
    (tmp_path / "pdf").symlink_to(tmp_path / "out")
    with pytest.raises(BadInput, match="cannot be copied there"):
        lay_out(Skills.scan([root]), "pdf", tmp_path)
    assert list((tmp_path / "out").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "pdf", "skills"]
