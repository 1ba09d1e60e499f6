"""Models that may write the prose of a summary, and asking them so that nothing they do can hurt.

    find("openai:gpt-5-mini")     a summariser by the name that a policy gives
    ask(summariser, question, …)  its accepted answer, or a typed reason why there is none

The state of a session is carried by code, and the deterministic summary needs nothing of this package.
"""

from foveal.summarisers.asking import Answered, Cancel, Failed, Judge, Outcome, Spent, ask
from foveal.summarisers.breaker import Breaker
from foveal.summarisers.port import Reply, Summariser, Unanswered
from foveal.summarisers.registry import find, register
from foveal.summarisers.speculation import Speculation

__all__ = [
    "Answered",
    "Breaker",
    "Cancel",
    "Failed",
    "Judge",
    "Outcome",
    "Reply",
    "Speculation",
    "Spent",
    "Summariser",
    "Unanswered",
    "ask",
    "find",
    "register",
]
