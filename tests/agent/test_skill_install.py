"""Nothing is installed unasked; what is, stays apart."""

import zipfile
from hashlib import sha256

import pytest

from foveal.agent.skill_install import install, install_plan
from foveal.context.skills import Skills
from foveal.values.errors import BadInput

HASH = "--hash=sha256:" + "0" * 64


def planned(root, put, tmp_path, lines, front=""):
    put("pdf", front, **{"requirements.txt": lines})
    return install_plan(Skills.scan([root]).get("pdf"), tmp_path / "ws")


def recorder(code=0):
    calls = []

    def run(command, environment):
        calls.append((command, environment))
        return code, "it said no\n"

    return calls, run


def wheel(folder, name):
    """A built package, as a line that names it by its hash."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    parts = {f"{name}.py": "x = 1\n"}
    meta = f"{name}-1.0.dist-info"
    parts |= {
        f"{meta}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{meta}/WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    parts[f"{meta}/RECORD"] = "".join(f"{part},,\n" for part in (*parts, f"{meta}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for part, text in parts.items():
            archive.writestr(part, text)
    return f"{name}==1.0 --hash=sha256:{sha256(path.read_bytes()).hexdigest()}"


def test_a_plan_lists_packages_from_both_places(root, put, tmp_path):
    """Comments, blank lines and continued lines are read as people write them."""
    lines = f"# needed\na==1.0 \\\n    {HASH}\n\nb[x] >=2,<3 ; python_version > '3.8'  # why\n"
    plan = planned(root, put, tmp_path, lines, "dependencies: [c]")
    assert plan.packages == ("c", f"a==1.0 {HASH}", "b[x] >=2,<3 ; python_version > '3.8'")
    assert plan.refused == ()
    assert not plan.is_locked
    assert str(plan).splitlines()[0] == f"The skill pdf needs 3 packages, NOT locked by hashes, in {plan.place}:"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--index-url https://evil.example/simple", "is an option"),
        ("-r other.txt", "is an option"),
        ("-e .", "is an option"),
        ("a @ https://evil.example/a.whl", "is an address"),
        ("git+https://evil.example/a.git", "is an address"),
        ("./local", "is an address or a path"),
        ("a.whl", "is an address or a path"),
        ("a b", "is not a package's name"),
        ("a==1; $(id)", "is not a package's name"),
        ("a==1 --config-settings=x", "is not a package's name"),
        ("a==1 --hash=md5:00", "is not a package's name"),
        ("a" + " " * 50 + "==" + "1" * 400, "characters; a package's name"),
        ("\u0430bc", "is not a package's name"),
    ],
)
def test_what_could_come_from_elsewhere_is_refused(root, put, tmp_path, line, why):
    """A line is a package by name, or nothing of the skill is installed."""
    plan = planned(root, put, tmp_path, f"ok==1 {HASH}\n{line}\n")
    assert len(plan.refused) == 1
    assert plan.refused[0].startswith("requirements.txt, line 2: ")
    assert why in plan.refused[0]
    calls, run = recorder()
    with pytest.raises(BadInput, match="never installed, so nothing was: "):
        install(plan, allow=True, unlocked=True, run=run)
    assert calls == []


@pytest.mark.parametrize("allow", [False, None, 1, "yes"])
def test_nothing_is_installed_without_the_switch(root, put, tmp_path, allow):
    """By default the plan is told; only True is yes."""
    plan = planned(root, put, tmp_path, "a\n")
    calls, run = recorder()
    said = install(plan, allow=allow, run=run)
    assert said == str(plan)
    assert said.endswith("Nothing was installed.")
    assert calls == []
    assert not (tmp_path / "ws").exists()


def test_packages_without_hashes_need_a_second_word(root, put, tmp_path):
    """What is not locked can be another package tomorrow."""
    (tmp_path / "ws").mkdir()
    plan = planned(root, put, tmp_path, "a==1\n")
    calls, run = recorder()
    with pytest.raises(BadInput, match="not locked by hashes"):
        install(plan, allow=True, run=run)
    assert calls == []
    assert "Installed 1 packages" in install(plan, allow=True, unlocked=True, run=run)
    assert "--require-hashes" not in calls[1][0]


def test_the_programs_get_no_keys_and_no_other_place(root, put, tmp_path, monkeypatch):
    """The environment of this process stays here; only built packages are taken."""
    (tmp_path / "ws").mkdir()
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    calls, run = recorder()
    install(planned(root, put, tmp_path, f"a==1 {HASH}"), allow=True, run=run)
    assert {"--only-binary=:all:", "--require-hashes", "--no-input"} <= set(calls[1][0])
    for command, environment in calls:
        assert isinstance(command, list)
        assert not {"OPENAI_API_KEY", "PIP_TARGET"} & set(environment)
    assert calls[0][0][-1] == str(tmp_path / "ws" / "environments" / "pdf")


def test_a_failure_leaves_nothing_behind(root, put, tmp_path):
    """The half of an environment is removed, and the error says what the program said."""
    (tmp_path / "ws").mkdir()
    _, run = recorder(code=3)
    with pytest.raises(BadInput, match="exit code 3, it said no"):
        install(planned(root, put, tmp_path, f"a==1 {HASH}"), allow=True, run=run)
    assert list((tmp_path / "ws" / "environments").iterdir()) == []


def test_an_environment_is_made_once_and_never_through_a_link(root, put, tmp_path):
    """One that is there is not written over, and a link in its way leads nowhere."""
    (tmp_path / "ws" / "environments" / "pdf").mkdir(parents=True)
    plan = planned(root, put, tmp_path, f"a==1 {HASH}")
    calls, run = recorder()
    with pytest.raises(BadInput, match="is there already"):
        install(plan, allow=True, run=run)
    (tmp_path / "ws" / "environments").rename(tmp_path / "out")
    (tmp_path / "ws" / "environments").symlink_to(tmp_path / "out")
    with pytest.raises(BadInput, match="links are not followed"):
        install(plan, allow=True, run=run)
    assert calls == []


@pytest.mark.parametrize("file", ["a.pth", "distutils-precedence.pth", "sitecustomize.py", "usercustomize.so"])
def test_a_package_that_runs_with_every_start_is_removed(root, put, tmp_path, file):
    """No file that Python runs by itself comes from a package, also not in the place of one that was there."""
    (tmp_path / "ws").mkdir()

    def run(command, environment):
        site = tmp_path / "ws" / "environments" / "pdf" / "lib" / "python3" / "site-packages"
        site.mkdir(parents=True, exist_ok=True)
        is_pip = "pip" in command
        (site / (file if is_pip else "distutils-precedence.pth")).write_text("import evil" if is_pip else "import good")
        return 0, ""

    with pytest.raises(BadInput, match=f"installs {file}, code that runs with every start"):
        install(planned(root, put, tmp_path, f"a==1 {HASH}"), allow=True, run=run)
    assert list((tmp_path / "ws" / "environments").iterdir()) == []


def test_a_real_package_is_installed_apart(root, put, tmp_path, monkeypatch):
    """From a folder of packages into an environment of its own."""
    (tmp_path / "ws").mkdir()
    (tmp_path / "wheels").mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    said = install(planned(root, put, tmp_path, wheel(tmp_path / "wheels", "harmless")), allow=True)
    place = tmp_path / "ws" / "environments" / "pdf"
    assert said == f"Installed 1 packages for the skill pdf into {place}."
    assert list(place.glob("lib/python*/site-packages/harmless.py"))
