"""Skills by name: reading them, their list in the static prompt, and the tool by which the model reads one."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from foveal.context.file_names import suffix_of, type_by_name
from foveal.context.mentions import KnownNames, Mentioned
from foveal.context.safe_paths import FoundFile, decode_utf8, parts_of, read_file
from foveal.context.skills.front_matter import MOST_BYTES, Skill, split_front
from foveal.context.skills.scan import FILE, MOST_DEPTH, SkillProblem, files_below, skills_below
from foveal.context.source import ContextSource, SourceFence
from foveal.project.atoms import calls_of
from foveal.project.view import View
from foveal.text.display import printable
from foveal.text.guard import safe_name
from foveal.text.repair import json_object
from foveal.values.entry import Message, ToolCall, result
from foveal.values.errors import BadInput, FovealError, NotFound
from foveal.values.retention import RetentionRule

if TYPE_CHECKING:
    from foveal.context.workspace import Workspace

MOST_RESOURCES = 500
MOST_RESOURCE_BYTES = 8 << 20
_LINK = re.compile(r"\]\(([^()\s]{1,300})\)")
READ = "foveal_skill"
HEADER = f"Skills, each with instructions for one kind of work. Read one with `{READ}` before you do such work:"
_WIDTHS = (1_024, 240, 120, 60, 0)
"""Widths of descriptions in characters, from the longest allowed down to the name alone."""

SKILL_TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": READ,
        "description": "Read the instructions of a skill, or a file of it.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "file": {"type": "string", "description": "a file that the skill lists; the instructions if left out"},
            },
            "required": ["name"],
        },
    },
}
CATALOGUE_TOKENS = 2_000
_ERROR_CHARS = 300
FENCE = "skills"
"""The built-in kind of the fence that lists the skills."""


class Resource(msgspec.Struct, frozen=True):
    """A file of a skill beside its SKILL.md, and whether the body links to it."""

    path: str
    size_bytes: int
    is_linked: bool


class SkillBody(msgspec.Struct, frozen=True):
    """The text of a skill, and the files beside it. `broken` are links that lead to nothing inside its folder."""

    name: str
    text: str
    sha256: str
    resources: tuple[Resource, ...]
    broken: tuple[str, ...]


class Skills(msgspec.Struct, frozen=True):
    """Skills by name, and the problems of those that were left out."""

    skills: tuple[Skill, ...] = ()
    problems: tuple[SkillProblem, ...] = ()

    @classmethod
    def scan(cls, roots: Iterable[str | Path]) -> "Skills":
        """Return the skills below the roots. Of two with one name, the first is used: list the most trusted root first."""
        skills: dict[str, Skill] = {}
        problems: list[SkillProblem] = []
        for root in dict.fromkeys(map(str, roots)):
            for found in skills_below(root):
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
        """Return the text of a skill, as it was scanned, and the files beside it."""
        skill = self.get(name)
        data, _ = read_file(skill.root, (*skill.folder, FILE), most_bytes=MOST_BYTES)
        if sha256(data).hexdigest() != skill.sha256:
            raise BadInput(f"{skill.path}: has changed since the skills were scanned; scan them again")
        _, text = split_front(decode_utf8(data, skill.path), skill.path)
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
        """Return the regular files beside a skill's SKILL.md, at most 500. Links are left out, and the files behind them."""
        skill = self.get(name)
        found = (one for one in files_below(skill.root, skill.folder, depth=MOST_DEPTH) if one.is_file)
        inside = [FoundFile(one.parts[len(skill.folder) :], one.stat) for one in found]
        return tuple(one for one in inside if one.parts != (FILE,))[:MOST_RESOURCES]

    def resource(self, name: str, path: str) -> bytes:
        """Return the bytes of a file of a skill; never of a file outside its folder."""
        skill = self.get(name)
        return read_file(skill.root, (*skill.folder, *parts_of(path)), most_bytes=MOST_RESOURCE_BYTES)[0]

    def suggest(self, file_names: Iterable[str]) -> tuple[str, ...]:
        """Return the skills whose patterns match one of the files, by name."""
        bare = {re.split(r"[/\\]", name)[-1].lower()[:255] for name in file_names}
        return tuple(
            skill.name
            for skill in self.skills
            if any(fnmatchcase(name, pattern) for pattern in skill.files for name in bare)
        )

    def source(self, count: Callable[[str], int], workspace: "Workspace | None" = None) -> "SkillSource":
        """Return the state of these skills for one session. Their files are copied into the workspace, if there is one."""
        return SkillSource(self, count, workspace)


class _Asked(msgspec.Struct, frozen=True):
    name: str
    file: str | None = None


def catalogue(skills: Skills, tokens: int, count: Callable[[str], int]) -> str:
    """Return one line per skill, by name, in at most this many tokens; empty if there are none.

    If they do not fit, all descriptions are cut to the same width, so that no skill is described better than another; if not
    even the names fit, the last line says how many are left out.
    """
    if not skills.skills:
        return ""
    for width in _WIDTHS:
        text = _listed(skills.skills, width)
        if count(text) <= tokens:
            return text
    low, high = 0, len(skills.skills) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count(_cut(skills.skills, middle)) <= tokens else (low, middle - 1)
    text = _cut(skills.skills, low)
    if count(text) > tokens:
        raise BadInput(
            f"a catalogue of skills does not fit into {tokens:,} tokens; allow it {count(text):,} or leave it out"
        )
    return text


def _listed(skills: Sequence[Skill], width: int) -> str:
    lines = (f"- {skill.name}" + (f": {_short(skill.description, width)}" if width else "") for skill in skills)
    return "\n".join([HEADER, *lines])


def _cut(skills: Sequence[Skill], number: int) -> str:
    return f"{_listed(skills[:number], 0)}\n- and {len(skills) - number} more, which the user can name"


def _short(description: str, width: int) -> str:
    """Return a description on one line: it is a stranger's text, and must not begin another."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in description).split())
    return plain if len(plain) <= width else plain[: width - 1].rstrip() + "…"


def answer(call: ToolCall, skills: Skills) -> str:
    """Return the result of the tool; `BadInput`, with a text for the model, if there is no such skill or file."""
    try:
        asked = msgspec.json.decode(call.arguments, type=_Asked)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the arguments are not understood: {error}; pass the name of a skill") from None
    if asked.file is None:
        body = skills.body(asked.name)
        files = [f"- {printable(one.path)} ({one.size_bytes:,} bytes)" for one in body.resources]
        return "\n".join([body.text, *(["", f"[files of the skill {body.name}]", *files] if files else [])])
    data = skills.resource(asked.name, asked.file)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadInput(f"{printable(asked.file)}: is not text; it has {len(data):,} bytes") from None


class SkillSource(ContextSource):
    """Skills in one session, and the skill that the model has read last."""

    def __init__(self, skills: Skills, count: Callable[[str], int], workspace: "Workspace | None") -> None:
        self._skills, self._count, self._workspace = skills, count, workspace
        self._active: str | None = None

    def follow(self, view: View, mentioned: Mentioned) -> None:
        self._active = None
        for atom in view.atoms:
            for call in calls_of(atom):
                self._active = self._skill_read(call) or self._active

    @property
    def names(self) -> KnownNames:
        return KnownNames(skills=self._skills.names)

    def tools(self, limit: int, mentioned: Mentioned) -> Sequence[Mapping[str, Any]]:
        return (SKILL_TOOL,) if self._skills.skills else ()

    def fences(self, view: View) -> Iterator[SourceFence]:
        yield SourceFence(FENCE, catalogue(self._skills, CATALOGUE_TOKENS, self._count))

    def answer(self, call: ToolCall) -> Message | None:
        if call.name != READ:
            return None
        text = answer(call, self._skills)
        skill = self._skill_read(call)
        if skill is None:
            return result(call.id, text)
        self._active = skill
        return result(call.id, f"{self._folder_line(skill)}{text}", retention=RetentionRule(mode="pin"))

    def attached(self, name: str, media_type: str) -> Mapping[str, tuple[str, ...]]:
        """Return the skills that the name or the content of a file suggests."""
        names = [name]
        if type_by_name(name).media_type != media_type:
            names.append(f"file.{suffix_of(media_type)}")
        return {"suggested_skills": tuple(one for one in self._skills.suggest(names) if one != self._active)}

    @property
    def situation(self) -> Mapping[str, str]:
        return {"active_skill": self._active} if self._active else {}

    def _folder_line(self, name: str) -> str:
        """Return a line with the skill's folder in the workspace, or the reason why it is not there; the skill is read anyway."""
        if self._workspace is None:
            return ""
        skill = self._skills.get(name)
        try:
            where = f"its folder is {self._workspace.link_skill(skill.root, skill.folder).place}, read-only"
        except FovealError as error:
            # The model is not told where the workspace is on the host's disk.
            text = str(error).replace(str(self._workspace.path), "the workspace")
            where = f"its files are not in the workspace: {safe_name(text, _ERROR_CHARS)}"
        return f"[skill {name}: {where}]\n\n"

    def _skill_read(self, call: ToolCall) -> str | None:
        """Return the skill whose instructions a call reads; None for other calls, and for calls that read a file of a skill."""
        asked = json_object(call.arguments) if call.name == READ else None
        name = asked.get("name") if asked and asked.get("file") is None else None
        return name if isinstance(name, str) and name in self._skills.names else None
