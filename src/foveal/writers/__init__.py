"""Models that may write the prose of a summary, asked in a way that no failure of theirs can hurt a session.

    find("openai:gpt-5-mini")     the summariser of the name that a policy gives
    ask(summariser, question, …)  its accepted answer, or a typed reason why there is none

Code carries the state of a session, and the deterministic summary needs nothing of this package.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.writers.call import ask
    from foveal.writers.port import Reply, Summariser, Unanswered
    from foveal.writers.registry import find, register
    from foveal.writers.summary_writer import SummaryWriter

# A session without a summariser needs the checkpoint tool of this package and nothing else of it before its first fold.
__getattr__ = later(
    __name__,
    {
        "Reply": "port",
        "Summariser": "port",
        "SummaryWriter": "summary_writer",
        "Unanswered": "port",
        "ask": "call",
        "find": "registry",
        "register": "registry",
    },
)

__all__ = ["Reply", "Summariser", "SummaryWriter", "Unanswered", "ask", "find", "register"]
