"""The endpoint of a provider's SDK: its address and key, which are never shown, and the calls through it."""

from importlib.util import find_spec
from operator import attrgetter
from typing import Any

import msgspec

from foveal.values.entry import Message, Text, ToolCall, Usage
from foveal.values.errors import MissingExtra
from foveal.writers.faults import describe, fault_of, without_secrets
from foveal.writers.port import Reply, Unanswered

CUT_OFF = "The answer was cut off at its limit of tokens; write a shorter one."


class Endpoint(msgspec.Struct, frozen=True):
    """An address, a key and a timeout. Its `repr` shows the address alone, without a password in it."""

    base_url: str | None
    api_key: str | None
    timeout_s: float

    def __repr__(self) -> str:
        return without_secrets(self.base_url) if self.base_url else "the provider's own endpoint"

    def settings(self) -> dict[str, Any]:
        """Return the arguments for the client.

        The key of the environment belongs to the provider: any other address gets the key that was given, or none. The caller
        counts the attempts; an SDK that retries by itself would exceed the deadline unseen.
        """
        settings: dict[str, Any] = {"timeout": self.timeout_s, "max_retries": 0}
        if self.base_url:
            settings |= {"base_url": self.base_url, "api_key": self.api_key or "none"}
        elif self.api_key:
            settings["api_key"] = self.api_key
        return settings

    def post(self, client: type[Any], errors: type[Exception], method: str, request: dict[str, Any]) -> dict[str, Any]:
        """Call a method of an SDK's client, named by its path, with this request; return the body of the response."""
        try:
            with client(**self.settings()) as opened:
                return attrgetter(method)(opened)(**request).to_dict()
        except errors as error:
            raise self.unanswered(error) from None

    def unanswered(self, error: Exception) -> Unanswered:
        """Return the SDK's exception as `Unanswered`, without the key, wherever it occurs, and without the traceback's values."""
        text = describe(error)
        return Unanswered(fault_of(error), text.replace(self.api_key, "***") if self.api_key else text)


def require(package: str, what: str) -> None:
    """Raise `MissingExtra` if an SDK is not installed. The extra has the name of the package."""
    if find_spec(package) is None:
        raise MissingExtra(what, package)


def text_reply(message: Message, usage: Usage | None) -> Reply:
    """Return the text of a message; raise `Unanswered` if the message calls tools."""
    if any(isinstance(part, ToolCall) for part in message.parts):
        raise Unanswered("tool_call", "The answer is a tool call; write text only.", usage)
    return Reply("".join(part.text for part in message.parts if isinstance(part, Text)), usage)
