"""The four dialects keep the contract that is shipped for any dialect."""

from typing import Any

from foveal.dialects import Dialect, find_dialect
from foveal.testing.dialect_contract import DialectContract
from foveal.testing.provider.replies import SPELLED, Call, Turn
from foveal.testing.provider.streams import SPOKEN

SAID = Turn("I read both.", (Call("c1"), Call("c2", arguments={"path": "ü.py", "n": 1e20})), thinking="Hm.", cached=40)


class Spelled(DialectContract):
    """A reply with thinking, a text and two calls, as the test provider spells it."""

    __test__ = False
    dialect: str

    def make_dialect(self) -> Dialect:
        return find_dialect(self.dialect)

    def whole_reply(self) -> dict[str, Any]:
        return SPELLED[self.dialect](SAID, self.model, 1, 100)

    def stream_events(self) -> list[dict[str, Any]]:
        return [event for _, event in SPOKEN[self.dialect](self.whole_reply()) if isinstance(event, dict)]


class TestOpenAIChat(Spelled):
    __test__ = True
    dialect, model = "openai_chat", "gpt-4.1"


class TestOpenAIResponses(Spelled):
    __test__ = True
    dialect, model = "openai_responses", "gpt-5"


class TestAnthropic(Spelled):
    __test__ = True
    dialect, model = "anthropic", "claude-opus-4-5"


class TestGemini(Spelled):
    __test__ = True
    dialect, model = "gemini", "gemini-3-pro-preview"
