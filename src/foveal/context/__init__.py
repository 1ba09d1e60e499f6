"""Side context: content in a prompt that is not part of the conversation.

from the host        Environment: Instructions, Toolbox, Skills, Workspace, each a `ContextSource`
from the policy      ContextOptions: kinds of fences, reminder rules, clock
for each session     Injector: follows the messages with PromptFences, SessionReminders and the sources
for the user         SideContext: inject, remind, attach, mentioned
for each prompt      Injection: blocks, with lines of the trace
"""
