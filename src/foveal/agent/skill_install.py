"""The installation of a skill's packages, in an environment of its own, if the user allows it.

By default nothing runs: `install` returns the plan. With `allow=True` the packages go into an environment of their own below the
workspace, from built packages only, so that none of their code runs while they are installed, and without the variables of this
process, which hold keys. A list without hashes can bring another package tomorrow, so it needs `unlocked=True` as well.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from foveal.context.safe_paths import decode_utf8, list_folder, open_folder, read_file
from foveal.context.skills.front_matter import Skill
from foveal.text.display import printable
from foveal.values.errors import BadInput

REQUIREMENTS = "requirements.txt"
ENVIRONMENTS = "environments"
MOST_BYTES = 64 << 10
MOST_PACKAGES = 100
TIME_LIMIT_S = 600
_KEPT = frozenset(
    {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE"}
    | {
        "REQUESTS_CA_BUNDLE",
        "PIP_CERT",
        "PIP_CONFIG_FILE",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_NO_INDEX",
        "PIP_PROXY",
    }
)
"""Variables that are needed to fetch packages at all. The rest of the environment holds keys, or could lead out."""
_HOOKS = frozenset({"sitecustomize", "usercustomize"})
"""Like .pth files, code that runs with every start of the environment's Python."""
_HASH = re.compile(r" --hash=sha256:[0-9a-f]{64}(?= |\Z)")
_PACKAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:\[[A-Za-z0-9._, -]{1,200}\])?"
    r" ?(?:(?:==|>=|<=|!=|~=|<|>) ?[A-Za-z0-9.*+!_-]{1,60} ?,? ?){0,8}"
    r"(?:; ?[A-Za-z0-9_.'\"<>=!~() -]{1,200})?\Z"
)

Run = Callable[[Sequence[str], dict[str, str]], tuple[int, str]]
"""Runs a program with an environment, and returns its exit code and its output."""


class InstallPlan(msgspec.Struct, frozen=True):
    """The packages and the place of an installation for a skill, and the refused lines with reasons. Its `str` is for people."""

    skill: str
    packages: tuple[str, ...]
    refused: tuple[str, ...]
    place: str
    is_locked: bool
    """Every package has a version and the hash of its file."""

    def __str__(self) -> str:
        if not self.packages and not self.refused:
            return f"The skill {self.skill} needs no packages."
        lock = "each with its hash" if self.is_locked else "NOT locked by hashes"
        lines = [f"The skill {self.skill} needs {len(self.packages)} packages, {lock}, in {printable(self.place)}:"]
        lines += [f"  {package.partition(' --hash')[0]}" for package in self.packages]
        lines += [f"  refused: {why}" for why in self.refused]
        return "\n".join([*lines, "Nothing was installed."])


def install_plan(skill: Skill, workspace: str | Path) -> InstallPlan:
    """Return the plan of an installation, from the skill's `dependencies` and its requirements.txt. Only reads."""
    lines = [("SKILL.md, dependencies", " ".join(line.split())) for line in skill.dependencies]
    lines += [(f"{REQUIREMENTS}, line {number}", line) for number, line in _requirements(skill)]
    packages = {line: None for _, line in lines if not _refusal(line)}
    refused = [f"{where}: {printable(line)!r:.120} {why}" for where, line in lines if (why := _refusal(line))]
    if len(packages) > MOST_PACKAGES:
        refused.append(f"{len(packages)} packages; {MOST_PACKAGES} is the most")
    is_locked = all("==" in package and _HASH.search(package) for package in packages)
    place = str(Path(workspace, ENVIRONMENTS, skill.name))
    return InstallPlan(skill.name, tuple(packages), tuple(refused), place, is_locked)


def install(plan: InstallPlan, *, allow: bool = False, unlocked: bool = False, run: Run | None = None) -> str:
    """Install the packages of a plan, if `allow` is True; else do nothing. Return a description of the outcome or of the plan."""
    if allow is not True or not (plan.packages or plan.refused):
        return str(plan)
    if plan.refused:
        raise BadInput(f"the skill {plan.skill} asks for what is never installed, so nothing was: {plan.refused[0]}")
    if not plan.is_locked and unlocked is not True:
        raise BadInput(
            f"the packages of the skill {plan.skill} are not locked by hashes, so nothing was installed. Lock them in its "
            f"{REQUIREMENTS} (name==version --hash=sha256:…), or accept whatever comes with unlocked=True."
        )
    place = _made(Path(plan.place))
    try:
        _install(plan, place, run or _run)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    return f"Installed {len(plan.packages)} packages for the skill {plan.skill} into {place}."


def _install(plan: InstallPlan, place: Path, run: Run) -> None:
    (place / REQUIREMENTS).write_text("".join(f"{package}\n" for package in plan.packages), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name in _KEPT}
    options = ["--no-input", "--disable-pip-version-check", "--only-binary=:all:", "--no-compile"]
    options += ["--require-hashes"] if plan.is_locked else []
    python = place / "bin" / "python"
    _must(run([sys.executable, "-I", "-m", "venv", str(place)], environment), plan)
    hooks = _hooks(place)
    _must(
        run([str(python), "-I", "-m", "pip", "install", *options, "-r", str(place / REQUIREMENTS)], environment), plan
    )
    if strange := sorted(_hooks(place).items() - hooks.items()):
        what = f"{printable(strange[0][0])}, code that runs with every start"
        raise BadInput(f"a package of the skill {plan.skill} installs {what}; the environment was removed")


def _must(done: tuple[int, str], plan: InstallPlan) -> None:
    code, said = done
    if code:
        raise BadInput(f"nothing was installed for the skill {plan.skill}: exit code {code}, {printable(said[-300:])}")


def _hooks(place: Path) -> dict[str, bytes]:
    """Return the files that an environment's Python runs by itself, with their bytes."""
    inside = place.glob("lib/python*/site-packages/*")
    hooks = (path for path in inside if path.name.endswith(".pth") or path.name.partition(".")[0] in _HOOKS)
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in hooks}


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[int, str]:
    try:
        done = subprocess.run(  # noqa: S603 - a list, no shell; names and versions are checked and come from a file
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"not done after {TIME_LIMIT_S} s"
    return done.returncode, (done.stderr or done.stdout).decode(errors="replace")


def _made(place: Path) -> Path:
    """Make the empty folder of an environment; its parent is a real folder of the workspace, not a link out of it."""
    with open_folder(place.parent.parent) as workspace, suppress(FileExistsError):
        os.mkdir(ENVIRONMENTS, 0o700, dir_fd=workspace)
    with open_folder(place.parent.parent, (ENVIRONMENTS,)) as folder:
        try:
            os.mkdir(place.name, 0o700, dir_fd=folder)
        except FileExistsError:
            raise BadInput(f"{place} is there already; remove it to install anew") from None
    return place.resolve()


def _requirements(skill: Skill) -> Iterator[tuple[int, str]]:
    """Yield the lines of the skill's requirements.txt, with continued lines joined, without comments."""
    with open_folder(skill.root, skill.folder) as folder:
        if not any(one.parts == (REQUIREMENTS,) for one in list_folder(folder)):
            return
    data, _ = read_file(skill.root, (*skill.folder, REQUIREMENTS), most_bytes=MOST_BYTES)
    begun, so_far = 1, ""
    for number, line in enumerate(decode_utf8(data, REQUIREMENTS).split("\n"), 1):
        so_far += line.removesuffix("\\") + " "
        if line.endswith("\\"):
            continue
        if plain := " ".join(re.sub(r"(?:^|\s)#.*", "", so_far).split()):
            yield begun, plain
        begun, so_far = number + 1, ""
    if so_far.strip():
        yield begun, " ".join(so_far.split())


def _refusal(line: str) -> str:
    """Return the reason why a line is not installed; empty if it is the plain name of a package with a version."""
    bare = _HASH.sub("", line)
    if len(bare) > 300:
        return f"has {len(bare):,} characters; a package's name and version have fewer"
    if bare.startswith("-"):
        return "is an option, and could change where packages come from"
    if any(sign in bare for sign in ("://", "@", "/", "\\")) or bare.endswith((".whl", ".zip", ".tar.gz")):
        return "is an address or a path; only packages by name are installed"
    return "" if _PACKAGE.match(bare) else "is not a package's name with a version"
