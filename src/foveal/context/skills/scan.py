"""The skills that lie below some folders, and reading from them."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import msgspec

from foveal.context.skills.front import MOST_BYTES, Skill, read_front, split
from foveal.context.skills.safe_paths import FoundFile, decode_utf8, listed, opened_folder, parts_of, read_file
from foveal.text.display import printable
from foveal.values.errors import BadInput, NotFound

FILE = "SKILL.md"
MOST_FOLDERS = 2_000
MOST_DEPTH = 5
"""Folders between a root and a skill: collections are grouped, not buried."""
MOST_RESOURCES = 500
MOST_RESOURCE_BYTES = 8 << 20
_LINK = re.compile(r"\]\(([^()\s]{1,300})\)")


class SkillProblem(msgspec.Struct, frozen=True):
    """Why a skill is not among those that can be used."""

    path: str
    what: str

    def __str__(self) -> str:
        return self.what if self.what.startswith(self.path) else f"{self.path}: {self.what}"


class Resource(msgspec.Struct, frozen=True):
    """A file of a skill beside its SKILL.md, and whether the body links to it."""

    path: str
    size_bytes: int
    is_linked: bool


class SkillBody(msgspec.Struct, frozen=True):
    """The text of a skill, and what it may refer to. `broken` are links that lead to nothing inside its folder."""

    name: str
    text: str
    sha256: str
    resources: tuple[Resource, ...]
    broken: tuple[str, ...]


class Skills(msgspec.Struct, frozen=True):
    """Skills by name, and what was left out and why."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()

    @classmethod
    def scan(cls, roots: Iterable[str | Path]) -> "Skills":
        """The skills below the roots. As in a search path, the first that has a name keeps it: list what you trust most first."""
        skills: dict[str, Skill] = {}
        problems: list[SkillProblem] = []
        for root in dict.fromkeys(map(str, roots)):
            for found in _scanned(root):
                if isinstance(found, SkillProblem):
                    problems.append(found)
                elif first := skills.get(found.name):
                    what = f"{found.name!r} is already the skill {first.path} in {printable(first.root)}; this one is not used"
                    problems.append(SkillProblem(found.path, what))
                else:
                    skills[found.name] = found
        return cls(tuple(skills[name] for name in sorted(skills)), tuple(problems))

    @property
    def names(self) -> frozenset[str]:
        return frozenset(skill.name for skill in self.skills)

    def get(self, name: str) -> Skill:
        for skill in self.skills:
            if skill.name == name:
                return skill
        known = ", ".join(skill.name for skill in self.skills[:20]) or "none"
        raise NotFound(f"there is no skill {printable(name)!r:.80}; those found are: {known}")

    def body(self, name: str) -> SkillBody:
        """The text of a skill, as it was scanned, and the files beside it."""
        skill = self.get(name)
        data, _ = read_file(skill.root, (*skill.folder, FILE), most_bytes=MOST_BYTES)
        if sha256(data).hexdigest() != skill.sha256:
            raise BadInput(f"{skill.path}: has changed since the skills were scanned; scan them again")
        _, text = split(decode_utf8(data, skill.path), skill.path)
        files = {"/".join(found.parts): found.stat.st_size for found in self.files(name)}
        links = dict.fromkeys(link.partition("#")[0].removeprefix("./") for link in _LINK.findall(text))
        local = [link for link in links if link and not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]{0,20}:|//", link)]
        return SkillBody(
            name,
            text,
            skill.sha256,
            tuple(Resource(path, size, path in links) for path, size in sorted(files.items())),
            tuple(printable(link) for link in local if link not in files and link != FILE),
        )

    def files(self, name: str) -> tuple[FoundFile, ...]:
        """The regular files beside a skill's SKILL.md, at most 500. Links and what is behind them are not among them."""
        skill = self.get(name)
        found = (one for one in _below(skill.root, skill.folder, depth=MOST_DEPTH) if one.is_file)
        inside = [FoundFile(one.parts[len(skill.folder) :], one.stat) for one in found]
        return tuple(one for one in inside if one.parts != (FILE,))[:MOST_RESOURCES]

    def resource(self, name: str, path: str) -> bytes:
        """The bytes of a file of a skill; never of one outside its folder."""
        skill = self.get(name)
        return read_file(skill.root, (*skill.folder, *parts_of(path)), most_bytes=MOST_RESOURCE_BYTES)[0]

    def suggest(self, file_names: Iterable[str]) -> tuple[str, ...]:
        """The skills whose patterns match one of the files, by name."""
        bare = {re.split(r"[/\\]", name)[-1].lower()[:255] for name in file_names}
        return tuple(
            skill.name
            for skill in self.skills
            if any(fnmatchcase(name, pattern) for pattern in skill.files for name in bare)
        )


def _scanned(root: str) -> Iterator[Skill | SkillProblem]:
    """Each skill below a root, and whatever might have been one."""
    seen = 0
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        folder = waiting.pop()
        seen += 1
        if seen > MOST_FOLDERS:
            yield SkillProblem(printable(root), f"has more than {MOST_FOLDERS:,} folders; the rest were not looked at")
            return
        try:
            with opened_folder(root, folder) as handle:
                inside = list(listed(handle, folder))
                if own := next((one for one in inside if one.parts[-1] == FILE), None):
                    yield _skill(root, own)
                    continue
                yield from (_linked(one) for one in inside if one.is_link and _leads_to_folder(handle, one))
        except BadInput as error:
            yield SkillProblem(printable("/".join(folder) or root), str(error))
            continue
        below = [one.parts for one in inside if one.is_folder and not one.parts[-1].startswith(".")]
        waiting.extend(reversed(below) if len(folder) < MOST_DEPTH else ())


def _skill(root: str, file: FoundFile) -> Skill | SkillProblem:
    if file.is_link:
        return _linked(file)
    try:
        data, _ = read_file(root, file.parts, most_bytes=MOST_BYTES)
        return read_front(data, root=root, folder=file.parts[:-1])
    except BadInput as error:
        return SkillProblem(printable("/".join(file.parts)), str(error))


def _linked(found: FoundFile) -> SkillProblem:
    what = "is a link, and links are not followed; to use what it leads to, scan that folder as a root of its own"
    return SkillProblem(printable("/".join(found.parts)), what)


def _leads_to_folder(folder: int, found: FoundFile) -> bool:
    try:
        return FoundFile((), os.stat(found.parts[-1], dir_fd=folder)).is_folder
    except OSError:
        return False


def _below(root: str, folder: Sequence[str], *, depth: int) -> Iterator[FoundFile]:
    """Everything below a folder but what is hidden (`.git`), outer things first; links are not entered."""
    waiting = [tuple(folder)]
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        parts = waiting.pop(0)
        with opened_folder(root, parts) as handle:
            inside = [one for one in listed(handle, parts) if not one.parts[-1].startswith(".")]
        yield from inside
        if len(parts) - len(folder) < depth:
            waiting.extend(one.parts for one in inside if one.is_folder)
