"""Models that may write the prose of a summary, and asking them so that nothing they do can hurt.

    find("openai:gpt-5-mini")     a summariser by the name that a policy gives
    ask(summariser, question, …)  its accepted answer, or a typed reason why there is none

The state of a session is carried by code, and the deterministic summary needs nothing of this package.
"""

from foveal.writers.breaker import Breaker
from foveal.writers.call import AcceptedSummary, Cancel, FailedSummary, Judge, Spent, SummaryOutcome, ask
from foveal.writers.port import Reply, Summariser, Unanswered
from foveal.writers.prefetch import Speculation
from foveal.writers.registry import find, register

__all__ = [
    "AcceptedSummary",
    "Breaker",
    "Cancel",
    "FailedSummary",
    "Judge",
    "Reply",
    "Speculation",
    "Spent",
    "Summariser",
    "SummaryOutcome",
    "Unanswered",
    "ask",
    "find",
    "register",
]
