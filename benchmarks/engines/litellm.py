"""litellm's trim_messages, with our counter in place of its own."""

from typing import Any

import litellm.utils

from engines.port import Job, Plain, count


class Trim(Plain):
    def __init__(self, job: Job) -> None:
        super().__init__(job)
        litellm.utils.token_counter = self._count

    def step(self, place: int) -> None:
        self.sent = litellm.utils.trim_messages(self.job.messages[:place], max_tokens=self.job.budget)

    def _count(self, model: str = "", messages: Any = None, text: Any = None, **_: Any) -> int:
        return sum(map(self.size, messages)) if messages is not None else count(text or "")
