"""`foveal skills`: listing, showing, and installing only when told to."""

from importlib import import_module

import pytest


@pytest.fixture
def root(tmp_path):
    def skill(name, front, text="Do it.\n"):
        folder = tmp_path / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\n{front}---\n{text}")
        return folder

    skill("plots", "description: Draw.\ndependencies: [plotlib==1.0]\nversion: 2.1\n")
    skill("locked", f"description: Safe.\ndependencies: ['a==1 --hash=sha256:{'0' * 64}']\n")
    skill("odd", "description: Odd.\ndependencies: ['-r http://evil/x']\n")
    folder = skill(
        "pdf", 'description: "Fill\\e[2J forms."\nfiles: [pdf]\n', "See [how](how.md) and [gone](gone.md).\n"
    )
    (folder / "how.md").write_text("So.")
    (tmp_path / "skills" / "broken").mkdir()
    (tmp_path / "skills" / "broken" / "SKILL.md").write_text("no front matter")
    return tmp_path / "skills"


@pytest.fixture
def ran(monkeypatch):
    """What would have been run; nothing is."""
    commands = []

    def run(command, environment):
        commands.append(list(command))
        return 0, ""

    monkeypatch.setattr(import_module("foveal.agent.skill_install"), "_run", run)
    return commands


def test_skills_are_listed(run, root):
    """By name, with what is not used and why; exit code 1 where something is not used."""
    done = run("skills", root)
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["locked", "odd", "pdf", "plots"]
    assert "Fill␛[2J forms." in done.out
    assert lines[5].startswith("not used: broken/SKILL.md")
    assert done.code == 1


def test_several_roots_are_a_search_path(run, root, tmp_path):
    """The first that has a name keeps it."""
    other = tmp_path / "other" / "pdf"
    other.mkdir(parents=True)
    (other / "SKILL.md").write_text("---\nname: pdf\ndescription: Mine.\n---\nMine.\n")
    listed = run("skills", tmp_path / "other", root, "--json").json
    assert next(skill["description"] for skill in listed["skills"] if skill["name"] == "pdf") == "Mine."
    assert any("is already the skill" in problem["what"] for problem in listed["problems"])


def test_the_roots_may_come_from_the_environment(run, root, monkeypatch):
    monkeypatch.setenv("FOVEAL_SKILLS", str(root))
    assert "plots" in run("skills").out
    assert run("skills", "show", "plots").code == 0


def test_a_skill_is_shown(run, root):
    """Its front matter, its files, links that lead nowhere, and its text."""
    done = run("skills", "show", "pdf", "--root", root)
    assert done.code == 0
    assert "files that suggest it: *.pdf" in done.out
    assert "file: how.md, 3 bytes" in done.out
    assert "links that lead nowhere: gone.md" in done.out
    assert done.out.rstrip().endswith("See [how](how.md) and [gone](gone.md).")
    assert run("skills", "show", "pdf", "--root", root, "--json").json["body"]["broken"] == ["gone.md"]


def test_an_unknown_skill_is_an_error_with_those_that_are_known(run, root):
    done = run("skills", "show", "none", "--root", root)
    assert done.code == 2
    assert "those found are: locked, odd, pdf, plots" in done.err


def test_installing_shows_and_installs_nothing(run, root, tmp_path, ran):
    """Without --allow the plan is told, with the switch that is needed."""
    done = run("skills", "install", "plots", "--root", root, "--workspace", tmp_path / "w")
    assert done.code == 0
    assert "plotlib==1.0" in done.out
    assert "Nothing was installed." in done.out
    assert "Say --allow --unlocked" in done.out
    assert (ran, (tmp_path / "w").exists()) == ([], False)


def test_unlocked_packages_take_a_second_word(run, root, tmp_path, ran):
    (tmp_path / "w").mkdir()
    done = run("skills", "install", "plots", "--root", root, "--workspace", tmp_path / "w", "--allow")
    assert done.code == 2
    assert "not locked by hashes" in done.err
    assert ran == []
    done = run("skills", "install", "plots", "--root", root, "--workspace", tmp_path / "w", "--allow", "--unlocked")
    assert (done.code, len(ran)) == (0, 2)
    assert "Installed 1 packages for the skill plots" in done.out


def test_locked_packages_are_installed_by_their_hashes(run, root, tmp_path, ran):
    """Into an environment below the workspace, from built packages only."""
    (tmp_path / "w").mkdir()
    done = run("skills", "install", "locked", "--root", root, "--workspace", tmp_path / "w", "--allow", "--json")
    assert done.json["is_installed"]
    assert {"--require-hashes", "--only-binary=:all:"} <= set(ran[1])
    assert str(tmp_path / "w" / "environments" / "locked") in ran[0]


def test_what_is_never_installed_is_refused(run, root, tmp_path, ran):
    (tmp_path / "w").mkdir()
    done = run("skills", "install", "odd", "--root", root, "--workspace", tmp_path / "w", "--allow", "--unlocked")
    assert done.code == 2
    assert "never installed" in done.err
    assert ran == []


def test_a_skill_without_packages_needs_none(run, root, tmp_path, ran):
    done = run("skills", "install", "pdf", "--root", root, "--workspace", tmp_path / "w", "--allow")
    assert "needs no packages" in done.out
    assert ran == []


@pytest.mark.parametrize("words", [["install", "plots"], ["install"], ["show"], ["show", "a", "b"]])
def test_what_is_missing_is_said(run, root, words):
    done = run("skills", *words, "--root", root)
    assert done.code == 2
    assert "foveal skills" in done.err
