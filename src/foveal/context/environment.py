"""The environment of a session: everything that its host gives besides the conversation.

All of it reaches the model as fences, reminders and tools, never as conversation.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from foveal.context.fences import NO_FORMATTERS, Formatters
from foveal.context.source import ContextSource

if TYPE_CHECKING:
    from foveal.context.instructions import Instructions
    from foveal.context.reminders import Trigger
    from foveal.context.skills import Skills
    from foveal.context.toolbox import Toolbox
    from foveal.context.workspace import Workspace


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The workspace, tools, skills, instructions and functions that the host gives to a session. Everything is optional."""

    workspace: "Workspace | None" = None
    toolbox: "Toolbox | None" = None
    skills: "Skills | None" = None
    instructions: "Instructions | None" = None
    agents: frozenset[str] = frozenset()
    triggers: "tuple[Trigger, ...]" = ()
    formatters: Formatters = NO_FORMATTERS
    """Functions that write the content of fences, by the names under which the policy's kinds ask for them."""

    def sources(self, count: Callable[[str], int], allowed: frozenset[str] | None) -> tuple[ContextSource, ...]:
        """Return a new source for each thing given, in the order in which their fences and tools are listed.

        A child session may use the tools that are `allowed`; None allows all.
        """
        found: list[ContextSource] = []
        if self.instructions:
            found.append(self.instructions.source())
        if self.toolbox:
            found.append(self.toolbox.source(count, allowed))
        if self.skills:
            found.append(self.skills.source(count, self.workspace))
        if self.workspace:
            found.append(self.workspace.source())
        return tuple(found)


NO_ENVIRONMENT = Environment()
