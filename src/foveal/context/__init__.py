"""Side context: content in a prompt that is not part of the conversation.

from the host        Environment: Instructions, Toolbox, Skills, Workspace, each a `ContextSource`
from the policy      ContextOptions: kinds of fences, reminder rules, clock
for each session     Injector: follows the messages with PromptFences, SessionReminders and the sources
for the user         SideContext: inject, remind, attach, mentioned
for each prompt      Injection: blocks, with lines of the trace
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.context.injector import Injector
    from foveal.context.side_context import FileEntry, NewEntry, SessionAccess, SideContext, file_entries

_BESIDE = ("FileEntry", "NewEntry", "SessionAccess", "SideContext", "file_entries")
__getattr__ = later(__name__, {"Injector": "injector"} | dict.fromkeys(_BESIDE, "side_context"))
# loaded by the first session

__all__ = ["FileEntry", "Injector", "NewEntry", "SessionAccess", "SideContext", "file_entries"]
