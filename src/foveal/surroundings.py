"""What a session can reach besides its conversation: a workspace, tools on demand, skills, instructions from disk.

`Surroundings` is what a host gives; `Around` follows one session with it: what the user mentions, which tools were found, which
skill is at work. All of it reaches the model as fences, reminders and tools, never as conversation.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from foveal.core.entry import Message, Text, ToolCall, ToolResult, result
from foveal.core.errors import BadInput, FovealError
from foveal.core.project import View
from foveal.core.retention import Rule
from foveal.inject.fences import FenceKind
from foveal.inject.mentions import Mentioned, Registries, mentioned
from foveal.inject.reminders import Trigger

if TYPE_CHECKING:
    from foveal.inject.instructions import Instructions
    from foveal.inject.skills import Skills
    from foveal.inject.toolbox import Toolbox
    from foveal.workspace import Workspace

KINDS = (
    FenceKind("instructions", placement="after_system", lifetime="session", must_keep=True, role="system"),
    FenceKind("skills", placement="after_system", lifetime="session", must_keep=True, role="system"),
)
"""Always there, never summarised. They move the prefix when they change, and only then."""

CATALOGUE_TOKENS = 2_000
TOOLS_SHARE = 0.25
"""Of the limit: what the tools of a toolbox may take before the rest of them goes behind the search tool."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the host gives to a session. Everything is optional."""

    workspace: "Workspace | None" = None
    toolbox: "Toolbox | None" = None
    skills: "Skills | None" = None
    instructions: "Instructions | None" = None
    agents: frozenset[str] = frozenset()
    triggers: tuple[Trigger, ...] = ()


NOWHERE = Surroundings()


class Put(NamedTuple):
    """Content for a fence of ours."""

    kind: str
    text: str


class Around:
    """One session's surroundings as they are now."""

    def __init__(self, given: Surroundings, count: Callable[[str], int]) -> None:
        self.given, self._count = given, count
        self._instructions = given.instructions
        self.mentioned = Mentioned()
        self._found: tuple[str, ...] = ()
        self._asked: set[str] = set()
        """Ids of calls to the tool that finds tools."""
        self.files: set[str] = set()
        """Names of what was attached."""
        self.active_skill: str | None = None

    def follow(self, view: View) -> None:
        """Begin with a session that is there already: what was offered last was found."""
        if view.setup and self.given.toolbox:
            on_demand = {spec.name for spec in self.given.toolbox.on_demand}
            offered = msgspec.json.decode(view.setup.tools, type=list[dict[str, Any]])
            names = (tool.get("function", tool).get("name") for tool in offered)
            self._found = tuple(name for name in names if name in on_demand)

    def heard(self, message: Message) -> Mentioned | None:
        """Take a message into account; what it mentions, if the user said it."""
        if message.role == "user":
            text = "\n".join(part.text for part in message.parts if isinstance(part, Text))
            self.mentioned = mentioned(text, self._registries())
            return self.mentioned
        if self.given.toolbox:
            self._note_found(message)
        return None

    def put(self, view: View) -> Iterator[Put]:
        """What must stand after the system prompt, where it is not there yet or has changed."""
        shown = {fence.kind: fence.text for fence in view.fences}
        for kind, text in (("instructions", self._instructions_text()), ("skills", self._catalogue())):
            if text != shown.get(kind, ""):
                yield Put(kind, text)

    def news(self) -> tuple[str, ...]:
        """The instruction files that have changed on disk since they were last asked for."""
        if self._instructions is None:
            return ()
        try:
            now = self._instructions.changed()
        except BadInput as error:  # half saved, or gone for a moment: what was read still holds
            warnings.warn(f"instructions were not read again: {error}", UserWarning, stacklevel=2)
            return ()
        if now is None:
            return ()
        known = {file.sha256 for file in self._instructions.files}
        self._instructions = now
        return tuple(file.name for file in now.files if file.sha256 not in known)

    def tools(self, given: Sequence[Mapping[str, Any]], limit: int) -> Sequence[Mapping[str, Any]]:
        """The host's tools with those of the toolbox, and the tool that reads skills if there are any."""
        from foveal.inject.toolbox import visible  # noqa: PLC0415 - loaded where there is a toolbox

        listed = list(given)
        if self.given.toolbox:
            share = int(limit * TOOLS_SHARE)
            names = self.mentioned.tools
            listed += visible(self.given.toolbox, mentioned=names, found=self._found, tokens=share, count=self._count)
        if self.given.skills and self.given.skills.skills:
            from foveal.inject.skills.catalogue import SKILL_TOOL  # noqa: PLC0415 - loaded where there are skills

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
            from foveal.inject import toolbox  # noqa: PLC0415 - loaded where there is one

            if call.name == toolbox.SEARCH:
                return result(call.id, toolbox.answer(call, self.given.toolbox))
        if self.given.skills:
            from foveal.inject.skills.catalogue import READ, answer  # noqa: PLC0415 - loaded where there are skills

            if call.name == READ:
                text = answer(call, self.given.skills)
                asked: dict[str, Any] = msgspec.json.decode(call.arguments)
                if asked.get("file") is not None:
                    return result(call.id, text)
                self.active_skill = str(asked["name"])
                return result(call.id, text, retention=Rule(mode="pin"))
        return None

    def _registries(self) -> Registries:
        return Registries(
            tools=self.given.toolbox.names if self.given.toolbox else frozenset(),
            skills=self.given.skills.names if self.given.skills else frozenset(),
            agents=self.given.agents,
            files=frozenset(self.files),
        )

    def _note_found(self, message: Message) -> None:
        from foveal.inject.toolbox import SEARCH, found_in  # noqa: PLC0415 - loaded where there is a toolbox

        for part in message.parts:
            if isinstance(part, ToolCall) and part.name == SEARCH:
                self._asked.add(part.id)
            elif isinstance(part, ToolResult) and part.call in self._asked:
                text = "\n".join(item.text for item in part.content if isinstance(item, Text))
                self._found = tuple(dict.fromkeys((*self._found, *found_in(text))))

    def _instructions_text(self) -> str:
        return self._instructions.render() if self._instructions else ""

    def _catalogue(self) -> str:
        if not self.given.skills:
            return ""
        from foveal.inject.skills.catalogue import catalogue  # noqa: PLC0415 - loaded where there are skills

        return catalogue(self.given.skills, CATALOGUE_TOKENS, self._count)
