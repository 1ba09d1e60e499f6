"""Options of summary writing: the author, its deadline, and the course after a failure."""

from typing import Literal

import msgspec

from foveal.values.errors import BadPolicy


class Compact(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `[compact]` table. Without a summariser, code alone writes summaries and nothing can fail."""

    summariser: str = ""
    """Author of the prose: `openai:MODEL`, `anthropic:MODEL`, `local:PATH`, or a registered name."""
    deadline_s: float = 60.0
    retries: int = 1
    on_failure: Literal["code", "raise"] = "code"
    """Whether code's own summary takes the place of one that failed, or the prompt is refused."""
    soft: float = 0.8
    """Share of the sendable tokens at which the summariser is asked ahead, in the background."""
    reuse_prefix: bool = True
    """Whether a summariser that is the conversation's own model is asked at the end of the conversation's own request, whose
    prefix the provider's cache holds, rather than in a chat of its own."""
    checkpoint: bool = False
    """Whether the agent is offered a tool to write the summary itself, when the prompt fills up."""
    recoveries: int = 3
    """How often a prompt that the provider refused for its length is made smaller, before that is an error."""

    def __post_init__(self) -> None:
        if not self.deadline_s > 0:
            raise BadPolicy(f"compact.deadline_s is {self.deadline_s}; it must be above 0")
        for name in ("retries", "recoveries"):
            if getattr(self, name) < 0:
                raise BadPolicy(f"compact.{name} is {getattr(self, name)}; it cannot be negative")
        if not 0 < self.soft <= 1:
            raise BadPolicy(f"compact.soft is {self.soft}; it must be above 0 and at most 1")
