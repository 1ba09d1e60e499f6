"""The bill beside ours: the same session with its whole history sent for every call, cached as the provider caches it."""

from collections.abc import Iterator

from foveal.analysis.replay.cost import Bill, bill
from foveal.models.catalogue import ModelFacts
from foveal.values.prompt import Prompt
from foveal.values.shown import Item
from foveal.values.trace import PROMPT_TOKENS


class WholeHistory:
    """Follows one session, call by call."""

    def __init__(self) -> None:
        self._before = self._unsendable = self._framing = self._tools_tokens = 0
        self._known: set[str] = set()
        self._has_folded = False

    def bill(
        self,
        facts: ModelFacts,
        raw_tokens: int,
        prompt: Prompt | None,
        *,
        tools_tokens: int = 0,
        is_cold: bool = False,
    ) -> Bill:
        """The next call's, when all messages so far take `raw_tokens`; `prompt` is ours, if it was not refused."""
        # Whoever sends everything has no use for the recall tools, which come later.
        self._tools_tokens = self._tools_tokens or tools_tokens
        sent = 0
        if prompt:
            sent = prompt.tokens
            self._has_folded |= prompt.fold is not None
            self._unsendable += sum(map(_unsendable, self._new_items(prompt)))
        tokens = raw_tokens - self._unsendable + self._tools_tokens + PROMPT_TOKENS
        if not self._has_folded:
            # Words between replies and results that never came: whoever sends everything needs them too.
            self._framing = max(self._framing, sent - tokens)
        tokens += self._framing
        raw = bill(facts, tokens, 0 if is_cold else self._before)
        self._before = tokens - PROMPT_TOKENS
        return raw

    def _new_items(self, prompt: Prompt) -> Iterator[Item]:
        """The items that no prompt has shown before: they stand at the end."""
        for atom in reversed(prompt.atoms):
            new = [item for item in atom.items if item.id not in self._known]
            if not new and atom.items:
                return
            self._known.update(item.id for item in new)
            yield from new


def _unsendable(item: Item) -> int:
    """Tokens that nobody could send in this dialect, such as another model's thinking: no part of this bill either."""
    return sum(shown.raw_tokens for shown in item.shown if shown.level == "hidden" and shown.policy == "dialect")
