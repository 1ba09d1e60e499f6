"""What a session can reach besides its conversation: a workspace, tools on demand, skills, instructions from disk.

`Environment` is what a host gives; `EnvironmentState` follows one session with it: mentions, the tools that were found, which
skill is at work. All of it reaches the model as fences, reminders and tools, never as conversation.
"""

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from foveal.context.fences import NO_FORMATTERS, FenceKind, Formatters
from foveal.context.mentions import Mentioned, Registries, mentioned
from foveal.context.reminders import Trigger
from foveal.project.atoms import calls_of
from foveal.project.view import View
from foveal.text import guard as frame
from foveal.text.display import safe_file_name
from foveal.text.repair import json_object
from foveal.text.user_words import user_words
from foveal.values.entry import Message, Text, ToolCall, ToolResult, result
from foveal.values.errors import BadInput, FovealError
from foveal.values.retention import RetentionRule
from foveal.values.shown import Atom

if TYPE_CHECKING:
    from foveal.context.files import Attachment
    from foveal.context.instructions import Instructions
    from foveal.context.skills import Skills
    from foveal.context.toolbox import Toolbox
    from foveal.context.workspace import Workspace

KINDS = (
    FenceKind("instructions", placement="after_system", lifetime="session", must_keep=True, role="system"),
    FenceKind("skills", placement="after_system", lifetime="session", must_keep=True, role="system"),
)
"""Always there, never summarised. They move the prefix when they change, and only then."""

STARTED = FenceKind("started", placement="after_system", lifetime="session", must_keep=True, role="system")
"""When the session began. The last of what stays, so that what is the same in all sessions stands before it."""

CATALOGUE_TOKENS = 2_000
_ERROR_CHARS = 300
TOOLS_SHARE = 0.25
"""Of the limit: what the tools of a toolbox may take before the rest of them goes behind the search tool."""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """What the host gives to a session. Everything is optional."""

    workspace: "Workspace | None" = None
    toolbox: "Toolbox | None" = None
    skills: "Skills | None" = None
    instructions: "Instructions | None" = None
    agents: frozenset[str] = frozenset()
    triggers: tuple[Trigger, ...] = ()
    formatters: Formatters = NO_FORMATTERS
    """Functions that write the content of fences, by the names under which the policy's kinds ask for them."""


NOWHERE = Environment()


class Put(NamedTuple):
    """Content for a fence of ours."""

    kind: str
    text: str


class EnvironmentState:
    """One session's surroundings as they are now."""

    def __init__(self, given: Environment, count: Callable[[str], int], allowed: Collection[str] | None = None) -> None:
        self.given, self._count = given, count
        self._allowed = None if allowed is None else frozenset(allowed)
        self._instructions = given.instructions
        self.mentioned = Mentioned()
        self._found: tuple[str, ...] = ()
        self._asked: set[str] = set()
        """Ids of calls to the tool that finds tools."""
        self.active_skill: str | None = None

    def follow(self, view: View) -> Mentioned | None:
        """Begin with a session that is there already; what its newest request mentions, if nobody has answered it yet."""
        self.mentioned, self._found, self.active_skill = Mentioned(), (), None
        place = view.place(view.last_user) if view.last_user else None
        for atom in view.atoms if self.given.skills or self.given.toolbox else ():
            self._see(atom)
        if place is not None:
            parts = (shown.part for item in view.atoms[place].items for shown in item.shown)
            said = (Text(frame.restore(part.text)) if isinstance(part, Text) else part for part in parts if part)
            self.heard(Message("user", tuple(said)))
        if view.setup and self.given.toolbox:
            box = (*self.given.toolbox.enabled, *self.given.toolbox.on_demand)
            findable = {spec.name for spec in box}.difference(self.mentioned.tools)
            offered = msgspec.json.decode(view.setup.tools, type=list[dict[str, Any]])
            names = (tool.get("function", tool).get("name") for tool in offered)
            self._found = tuple(dict.fromkeys((*(name for name in names if name in findable), *self._found)))
        return self.mentioned if place is not None and place == len(view.atoms) - 1 else None

    def _see(self, atom: Atom) -> None:
        """What an atom of the past tells of skills and tools."""
        if self.given.skills:
            for call in calls_of(atom):
                self.active_skill = self._skill_read(call) or self.active_skill
        for item in atom.items if self.given.toolbox else ():
            self._note_found(Message(item.role, tuple(one.part for one in item.shown if one.part is not None)))

    def heard(self, message: Message) -> Mentioned | None:
        """Take a message into account; what it mentions, if the user said it. What a harness put in mentions nobody."""
        if message.role == "user":
            texts = [user_words(part.text) for part in message.parts if isinstance(part, Text)]
            if not any(texts) and len(texts) == len(message.parts):
                return None  # it asks for nothing: the request before it still holds
            self.mentioned = self._mentioned("\n".join(texts))
            return self.mentioned
        if self.given.toolbox:
            self._note_found(message)
        return None

    def attached(self, found: "Attachment") -> tuple[str, ...]:
        """A file came that can be mentioned from now on; the skills that its name or its content suggests."""
        from foveal.context.workspace.types import suffix_of, type_by_name  # noqa: PLC0415 - loaded by the first file

        self._files.add(found.name)
        if self.given.skills is None:
            return ()
        names = [found.name]
        if type_by_name(found.name).media_type != found.media_type:
            names.append(f"file.{suffix_of(found.media_type)}")
        return tuple(name for name in self.given.skills.suggest(names) if name != self.active_skill)

    def put(self, view: View) -> Iterator[Put]:
        """What must stand after the system prompt, where it is not there yet or has changed."""
        shown = {fence.kind: fence.text for fence in view.fences}
        given = (
            ("instructions", self._instructions.render() if self._instructions else None),
            ("skills", self._catalogue(self.given.skills) if self.given.skills else None),
        )
        for kind, text in given:  # whoever gives none leaves what is there: a child has its parent's
            if text is not None and text != shown.get(kind, ""):
                yield Put(kind, text)

    def news(self, view: View) -> tuple[str, ...]:
        """The instruction files that are new or changed since the session was last shown them."""
        if self._instructions is None:
            return ()
        try:
            self._instructions = self._instructions.changed() or self._instructions
        except BadInput as error:  # half saved, or gone for a moment: what was read still holds
            warnings.warn(f"instructions were not read again: {error}", UserWarning, stacklevel=2)
        told = next((fence.text for fence in view.fences if fence.kind == "instructions"), "")
        files = self._instructions.files if told else ()
        return tuple(file.name for file in files if file.text.strip() not in told)

    def tools(self, given: Sequence[Mapping[str, Any]], limit: int) -> Sequence[Mapping[str, Any]]:
        """The host's tools with those of the toolbox, and the tool that reads skills if there are any."""
        from foveal.context.toolbox import visible  # noqa: PLC0415 - loaded where there is a toolbox

        listed = list(given)
        if self.given.toolbox:
            share = int(limit * TOOLS_SHARE)
            names = self.mentioned.tools
            tools = visible(self.given.toolbox, mentioned=names, found=self._found, tokens=share, count=self._count)
            listed += (tool for tool in tools if self._may_offer(tool["function"]["name"]))
        if self.given.skills and self.given.skills.skills:
            from foveal.context.skills.catalogue import SKILL_TOOL  # noqa: PLC0415 - loaded where there are skills

            listed.append(SKILL_TOOL)
        return listed

    def answer(self, call: ToolCall) -> Message | None:
        """The result of a call to the tools that find tools and read skills; None for other calls."""
        try:
            return self._answer(call)
        except FovealError as error:
            return result(call.id, str(error), status="error")

    def _answer(self, call: ToolCall) -> Message | None:
        if self.given.toolbox:
            from foveal.context import toolbox  # noqa: PLC0415 - loaded where there is one

            if call.name == toolbox.SEARCH:
                return result(call.id, toolbox.answer(call, self.given.toolbox))
        if self.given.skills:
            from foveal.context.skills.catalogue import READ, answer  # noqa: PLC0415 - loaded where there are skills

            if call.name == READ:
                text = answer(call, self.given.skills)
                skill = self._skill_read(call)
                if skill is None:
                    return result(call.id, text)
                self.active_skill = skill
                return result(call.id, f"{self._laid_out(skill)}{text}", retention=RetentionRule(mode="pin"))
        return None

    def _laid_out(self, name: str) -> str:
        """A line that says where the workspace has the skill's files; or why it has not, which is no reason not to read it."""
        if self.given.workspace is None or self.given.skills is None:
            return ""
        skill = self.given.skills.get(name)
        try:
            where = f"its folder is {self.given.workspace.link_skill(skill.root, skill.folder).place}, read-only"
        except FovealError as error:
            said = str(error).replace(
                str(self.given.workspace.path), "the workspace"
            )  # where it lies is not the model's
            where = f"its files are not in the workspace: {frame.safe_name(said, _ERROR_CHARS)}"
        return f"[skill {name}: {where}]\n\n"

    def _skill_read(self, call: ToolCall) -> str | None:
        """The skill whose instructions this call reads; None for other calls, and for those that read a file of one."""
        from foveal.context.skills.catalogue import READ  # noqa: PLC0415 - loaded where there are skills

        asked = json_object(call.arguments) if call.name == READ else None
        name = asked.get("name") if asked and asked.get("file") is None else None
        return name if isinstance(name, str) and self.given.skills and name in self.given.skills.names else None

    def _may_offer(self, name: str) -> bool:
        """A child is offered what it was given; with a toolbox of its own, the tool that searches it as well."""
        from foveal.context.toolbox import SEARCH  # noqa: PLC0415 - loaded where there is a toolbox

        return self._allowed is None or name in self._allowed or name == SEARCH

    def _mentioned(self, text: str) -> Mentioned:
        if "@" not in text and "#" not in text:
            return Mentioned()
        tools = self.given.toolbox.names if self.given.toolbox else frozenset[str]()
        known = Registries(
            tools=tools if self._allowed is None else tools & self._allowed,
            skills=self.given.skills.names if self.given.skills else frozenset(),
            agents=self.given.agents,
            files=frozenset(self._files) if "#" in text else frozenset(),  # the disk is looked at where somebody asks
        )
        return mentioned(text, known)

    @cached_property
    def _files(self) -> set[str]:
        """Names of what was attached, also before the session was opened again."""
        try:
            return (
                {safe_file_name(file.name) for file in self.given.workspace.list()} if self.given.workspace else set()
            )
        except FovealError:  # cleaned, or damaged: `attach` says so
            return set()

    def _note_found(self, message: Message) -> None:
        from foveal.context.toolbox import SEARCH, found_in  # noqa: PLC0415 - loaded where there is a toolbox

        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == SEARCH:
                self._asked.add(part.id)
            elif isinstance(part, ToolResult) and part.call in self._asked:
                text = "\n".join(item.text for item in part.content if isinstance(item, Text))
                self._found = tuple(dict.fromkeys((*self._found, *found_in(text))))

    def _catalogue(self, skills: "Skills") -> str:
        from foveal.context.skills.catalogue import catalogue  # noqa: PLC0415 - loaded where there are skills

        return catalogue(skills, CATALOGUE_TOKENS, self._count)
