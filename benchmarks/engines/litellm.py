"""litellm's trim_messages, with our counter in place of its own."""

from typing import Any

import litellm.utils

from engines.port import Plain, count, tokens_of


def _count(model: str = "", messages: Any = None, text: Any = None, **_: Any) -> int:
    return sum(map(tokens_of, messages)) if messages is not None else count(text or "")


litellm.utils.token_counter = _count


class Trim(Plain):
    def step(self, place: int) -> None:
        self.sent = litellm.utils.trim_messages(self.job.messages[:place], max_tokens=self.job.budget)
