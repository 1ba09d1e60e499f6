"""Finding skills and reading from them, and nothing outside them."""

import os

import pytest

from foveal.context.skills import Skills, scan
from foveal.values.errors import BadInput, NotFound


def told(skills):
    return [str(problem) for problem in skills.problems]


def test_skills_are_found_by_name_in_one_order(root, put):
    """Whatever the folders are called and however deep they lie, the list is by name."""
    put("zz", "name: alpha\ndescription: First.")
    put("group/inner/pdf")
    put("bravo")
    assert [skill.name for skill in Skills.scan([root]).skills] == ["alpha", "bravo", "pdf"]
    assert Skills.scan([root]) == Skills.scan([root])


def test_a_skills_folder_is_not_searched_for_more(root, put):
    """A SKILL.md among a skill's own files is a file of it."""
    put("outer", inner__SKILL="x")
    put("outer/examples/pdf")
    put(".hidden/pdf")
    assert Skills.scan([root]).names == {"outer"}


def test_the_first_root_that_has_a_name_keeps_it(root, put, tmp_path):
    """A project cannot replace a skill of the user's without being seen."""
    mine = put("pdf", below=tmp_path / "mine").parent
    put("pdf", "name: pdf\ndescription: Not the user's.")
    skills = Skills.scan([mine, root, mine])
    assert skills.get("pdf").description == "About pdf."
    assert len(skills.problems) == 1
    assert "pdf/SKILL.md: 'pdf' is already the skill pdf/SKILL.md in " in told(skills)[0]


def test_duplicates_in_one_root_are_reported(root, put):
    """Of two folders with one name, the first by folder is used."""
    put("a", "name: same\ndescription: A.")
    put("b", "name: same\ndescription: B.")
    skills = Skills.scan([root])
    assert skills.get("same").description == "A."
    assert told(skills)[0].startswith("b/SKILL.md: 'same' is already")


def test_a_root_that_is_not_there_is_reported(root, put, tmp_path):
    """The others are scanned all the same."""
    put("pdf")
    skills = Skills.scan([tmp_path / "nowhere", root])
    assert skills.names == {"pdf"}
    assert "nowhere: cannot be opened (No such file" in told(skills)[0]


def test_links_are_reported_and_not_followed(root, put, tmp_path):
    """A folder or a SKILL.md that is a link is none, wherever it leads."""
    outside = put("secret", below=tmp_path / "elsewhere")
    (root / "folder").symlink_to(outside)
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (root / "loop").symlink_to(root)
    (root / "README.md").symlink_to(outside / "SKILL.md")
    skills = Skills.scan([root])
    assert skills.skills == ()
    assert sorted(problem.path for problem in skills.problems) == ["file/SKILL.md", "folder", "loop"]
    assert all("links are not followed" in line for line in told(skills))


def test_a_root_may_be_a_link(root, put, tmp_path):
    """The root is the user's own word."""
    put("pdf")
    (tmp_path / "link").symlink_to(root)
    assert Skills.scan([tmp_path / "link"]).names == {"pdf"}


def test_what_is_no_regular_file_is_not_read(root):
    """A pipe would hold the reader for ever; it is refused."""
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir(parents=True)
    assert all("is not a regular file" in line for line in told(Skills.scan([root])))
    assert len(Skills.scan([root]).problems) == 2


def test_a_body_is_the_text_without_its_front_matter(root, put):
    """With the files beside it, those it links to marked, and the links that lead nowhere."""
    body = "See [how](guide.md#top), [more](./ref/a.md), [no](../x.md), [gone](gone.md), [web](https://a.example/b)."
    put("pdf", body=body, **{"guide.md": "Guide", "ref__a.md": "A", "script.py": "x"})
    found = Skills.scan([root]).body("pdf")
    assert found.text == body
    assert [(one.path, one.size_bytes, one.is_linked) for one in found.resources] == [
        ("guide.md", 5, True),
        ("ref/a.md", 1, True),
        ("script.py", 1, False),
    ]
    assert found.broken == ("../x.md", "gone.md")


def test_a_body_that_changed_since_the_scan_is_refused(root, put):
    """What was listed and agreed to is what is read."""
    put("pdf")
    skills = Skills.scan([root])
    put("pdf", body="Something else.")
    with pytest.raises(BadInput, match=r"pdf/SKILL\.md: has changed since"):
        skills.body("pdf")


def test_an_unknown_skill_is_named_with_those_that_are_there(root, put):
    """The error says what can be asked for."""
    put("pdf")
    with pytest.raises(NotFound, match="there is no skill 'docx'; those found are: pdf"):
        Skills.scan([root]).body("docx")


@pytest.mark.parametrize(
    "path", ["../../secret", "/etc/hostname", "a/../../x", "", ".", "a//b", "x\0y", "link", "linked/x", "up/x"]
)
def test_a_resource_outside_is_never_read(root, put, tmp_path, path):
    """Neither by a path nor by a link inside the folder."""
    place = put("pdf", a__b="inside")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "x").write_text("secret")
    (place / "link").symlink_to(tmp_path / "secret")
    (place / "linked").symlink_to(tmp_path / "out")
    (place / "up").symlink_to("..")
    skills = Skills.scan([root])
    assert skills.resource("pdf", "a/b") == b"inside"
    assert [one.path for one in skills.body("pdf").resources] == ["a/b"]
    with pytest.raises(BadInput):
        skills.resource("pdf", path)


def test_a_folder_swapped_for_a_link_is_not_read(root, put, tmp_path):
    """What is checked is what is opened: nothing is read through a link that came after the scan."""
    place = put("group/pdf", note="inside")
    skills = Skills.scan([root])
    (root / "group").rename(tmp_path / "moved")
    (root / "group").symlink_to(tmp_path / "moved")
    assert (place / "note").read_text() == "inside"  # the path as text still works
    with pytest.raises(BadInput, match="link"):
        skills.resource("pdf", "note")


def test_skills_are_suggested_by_file_type(root, put):
    """Patterns, and extensions for short; case and folders do not matter."""
    put("pdf", "files: [pdf, .PS]")
    put("tables", "files: ['*.csv', 'data-?.txt', Makefile.am]")
    put("plain")
    skills = Skills.scan([root])
    assert skills.suggest(["a/b/Report.PDF"]) == ("pdf",)
    assert skills.suggest(["x.ps", r"c:\t\DATA-1.txt"]) == ("pdf", "tables")
    assert skills.suggest(["makefile.am"]) == ("tables",)
    assert skills.suggest(["pdf", "csv", "x.pdf.txt", ""]) == ()


def test_too_many_folders_are_said(root, monkeypatch):
    """A scan ends, and says that it has not seen all."""
    monkeypatch.setattr(scan, "MOST_FOLDERS", 3)
    for number in range(5):
        (root / f"d{number}").mkdir()
    assert told(Skills.scan([root]))[0].endswith("has more than 3 folders; the rest were not looked at")
