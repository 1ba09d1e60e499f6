"""The search for skills below a folder, and for the files of one."""

import os
from collections.abc import Iterator, Sequence

import msgspec

from foveal.context.safe_paths import FoundFile, list_folder, open_folder, read_file
from foveal.context.skills.front_matter import MOST_BYTES, Skill, read_front
from foveal.text.display import printable
from foveal.values.errors import BadInput

FILE = "SKILL.md"
MOST_FOLDERS = 2_000
MOST_DEPTH = 5
"""Folders between a root and a skill: collections are grouped, not buried."""


class SkillProblem(msgspec.Struct, frozen=True):
    """The reason why a skill cannot be used."""

    path: str
    what: str

    def __str__(self) -> str:
        return self.what if self.what.startswith(self.path) else f"{self.path}: {self.what}"


def skills_below(root: str) -> Iterator[Skill | SkillProblem]:
    """Yield each skill below a root, and the problem of each folder that might have been one."""
    seen = 0
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        folder = waiting.pop()
        seen += 1
        if seen > MOST_FOLDERS:
            yield SkillProblem(printable(root), f"has more than {MOST_FOLDERS:,} folders; the rest were not looked at")
            return
        try:
            with open_folder(root, folder) as handle:
                inside = list(list_folder(handle, folder))
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


def files_below(root: str, folder: Sequence[str], *, depth: int) -> Iterator[FoundFile]:
    """Yield everything below a folder except hidden entries (`.git`), outer entries first; links are not entered."""
    waiting = [tuple(folder)]
    for _ in range(MOST_FOLDERS):
        if not waiting:
            return
        parts = waiting.pop(0)
        with open_folder(root, parts) as handle:
            inside = [one for one in list_folder(handle, parts) if not one.parts[-1].startswith(".")]
        yield from inside
        if len(parts) - len(folder) < depth:
            waiting.extend(one.parts for one in inside if one.is_folder)
