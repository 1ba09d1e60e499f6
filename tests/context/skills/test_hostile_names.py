"""Two thousand names that try to lead out of where skills may read and write."""

import json
import random

import pytest

from foveal.agent.skill_install import install_plan
from foveal.context.mentions import KnownNames, mentions_in
from foveal.context.skills import Skills
from foveal.values.errors import BadInput

PIECES = (
    *(
        "..",
        ".",
        "/",
        "\\",
        "~",
        "-rf",
        "$HOME",
        "`id`",
        "$(id)",
        "%2e%2e",
        "..%2f",
        "%00",
        "\0",
        "\n",
        "\r",
        "\t",
        " ",
    ),
    *(
        "\x1b[2J",
        "\u202e",
        "\u200b",
        "．．",
        "／",
        "⁄",
        "∕",
        "C:",
        "\\\\host\\share",
        "NUL",
        "CON",
        "aux.txt",
        "a",
        "SKILL.md",
    ),
    *(
        "é",
        "e\u0301",
        "İ",
        "ſ",
        "A",
        "PDF",
        "pdf ",
        "pdf.",
        ".pdf",
        "-pdf",
        "_pdf",
        "pdf/",
        "/etc/passwd",
        "{0.__class__}",
    ),
    *(
        "\ud800",
        "\udcff",
        "x" * 300,
        "|",
        ";",
        "&",
        "*",
        "?",
        "[",
        "]",
        "<system>",
        "'",
        '"',
        "#",
        "@",
        ":",
        "proc/self/root",
    ),
)


def hostile(number=2_000):
    """The same names in every run, none of which is a plain word."""
    picker = random.Random(5)
    names = dict.fromkeys((*PIECES, "../x", "../../secret", "/", "//", ""))
    while len(names) < number:
        names["".join(picker.choices(PIECES, k=picker.randint(1, 5)))] = None
    plain = "abcdefghijklmnopqrstuvwxyz0123456789_-"
    return [
        name for name in names if not (name and name[0] in plain[:36] and set(name) <= set(plain) and len(name) < 65)
    ]


def everything(folder):
    return sorted(map(str, folder.rglob("*")))


NAMES = hostile()


def test_there_are_two_thousand_of_them():
    """The generator makes what the claims below are about."""
    assert len(NAMES) >= 1_990
    assert len(set(NAMES)) == len(NAMES)


def test_no_hostile_name_becomes_a_skill(tmp_path):
    """As the name in a front matter: every one is refused with an error that names its file, and nothing is written."""
    root = tmp_path / "skills"
    for number, name in enumerate(NAMES):
        (root / f"s{number}").mkdir(parents=True)
        text = f"---\nname: {json.dumps(name)}\ndescription: D\n---\nBody\n"
        (root / f"s{number}" / "SKILL.md").write_text(text, encoding="utf-8", errors="replace")
    skills = Skills.scan([root])
    assert {skill.name for skill in skills.skills} <= {"a", "pdf"}  # "pdf " is the word with a space around it
    assert len(skills.problems) >= len(NAMES) - 10
    assert all(str(problem).startswith(problem.path) and str(problem).isprintable() for problem in skills.problems)


def test_no_hostile_name_opens_anything(tmp_path):
    """As the name of a skill, of a file of it, or of a mention: nothing outside is read and nothing is made."""
    root = tmp_path / "skills"
    (root / "pdf").mkdir(parents=True)
    (root / "pdf" / "SKILL.md").write_text("---\nname: pdf\ndescription: D\n---\nInside\n")
    (tmp_path / "secret").write_text("SECRET")
    skills = Skills.scan([root])
    before = everything(tmp_path)
    for name in NAMES:
        with pytest.raises(BadInput):
            skills.body(name)
        if name != "SKILL.md":
            with pytest.raises(BadInput) as caught:
                skills.resource("pdf", name)
            assert str(caught.value).isprintable()
        skills.suggest([name])
        assert mentions_in(f"@{name} @{{{name}}}", KnownNames(skills=skills.names)).skills in ((), ("pdf",))
    assert everything(tmp_path) == before


def test_folders_of_hostile_names_are_read_as_data(tmp_path):
    """As names on disk, as far as the disk takes them: the skill inside is found, and its place is shown safely."""
    root = tmp_path / "skills"
    made = 0
    for name in NAMES:
        if "/" in name or "\0" in name or name in ("", ".", "..", "SKILL.md"):
            continue
        try:
            (root / name).mkdir(parents=True)
            (root / name / "SKILL.md").write_text(f"---\nname: n{made}\ndescription: D\n---\nInside\n")
        except (OSError, UnicodeEncodeError):
            continue
        made += 0 if name.startswith(".") else 1
    skills = Skills.scan([root])
    assert made > 500
    assert len(skills.skills) == made
    assert not skills.problems
    for skill in skills.skills:
        assert skill.path.isprintable()
        assert skills.body(skill.name).text == "Inside"
        assert install_plan(skill, tmp_path).place == str(tmp_path / "environments" / skill.name)
