"""Adapters over the providers' own SDKs, loaded when the first call is made. The SDKs do not retry: the caller counts
attempts."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import cached_property
from importlib.util import find_spec
from typing import Any, NamedTuple

from foveal.agent.model_port import ModelChoice, ModelPort
from foveal.values.errors import MissingExtra, ModelFailed
from foveal.writers.faults import without_secrets


class ProviderFacts(NamedTuple):
    """The SDK of a provider: its package, the extra that installs it, and the variables that may hold the key."""

    title: str
    package: str
    extra: str
    key_names: tuple[str, ...]


FACTS: dict[str, ProviderFacts] = {
    "openai": ProviderFacts("OpenAI", "openai", "openai", ("OPENAI_API_KEY",)),
    "openai-responses": ProviderFacts("OpenAI", "openai", "openai", ("OPENAI_API_KEY",)),
    "anthropic": ProviderFacts("Anthropic", "anthropic", "anthropic", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
    "google": ProviderFacts("Google", "google.genai", "google", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
}


MOST_SILENT_S = 600.0
"""Seconds for which a stream may bring nothing but signs of life, such as pings while a model thinks: as long as the SDKs wait
for a whole reply. `timeout_s` is about the connection, which such signs keep open for ever."""

_UNREACHABLE = frozenset({"APIConnectionError", "ConnectError"})
"""Names of the errors of SDKs, and of httpx below Google's, for an address at which nobody answers."""
_WRONG_KEY = 401


def open_model(choice: ModelChoice) -> ModelPort:
    """Return the adapter for a model. `MissingExtra` without its SDK; `ModelFailed` without a key, and what to set."""
    facts = FACTS[choice.provider_name]
    if not _is_installed(facts.package):
        raise MissingExtra(f"Asking {choice.model} at {facts.title}", facts.extra)
    return SdkPort(choice, _key(choice, facts), _SDKS[choice.provider_name])


def _key_name(choice: ModelChoice, facts: ProviderFacts) -> str:
    """Return the variable whose key is sent; nothing for an address of the user's own without one."""
    return next((name for name in _key_names(choice, facts) if os.environ.get(name)), "")


def _key_names(choice: ModelChoice, facts: ProviderFacts) -> tuple[str, ...]:
    return (choice.key_env,) if choice.key_env else () if choice.base_url else facts.key_names


def _plain_error(error: Exception, choice: ModelChoice) -> Exception:
    """Return the error of an SDK with the address that does not answer, or the variable of the key that was refused."""
    facts = FACTS[choice.provider_name]
    if type(error).__name__ in _UNREACHABLE:
        who = f"the server at {choice.base_url}" if choice.base_url else facts.title
        ask = "Is it running?" if choice.base_url else "Is there a way to the network?"
        return ConnectionError(f"{who} cannot be reached. {ask}")
    if getattr(error, "status_code", getattr(error, "code", None)) != _WRONG_KEY:
        return error
    words = f"It says: {without_secrets(str(error))}"
    if name := _key_name(choice, facts):
        who = choice.base_url or facts.title
        said = f"{who} refused the key in {name} ({_WRONG_KEY})"
        return ModelFailed(choice.model, "auth", said, f"Set another key. {words}")
    usual = next((name for name in facts.key_names if os.environ.get(name)), "")
    kept = f": the one in {usual} is sent to {facts.title} alone" if usual else ""
    said = f"{choice.base_url} wants a key ({_WRONG_KEY}), and none was sent{kept}"
    advice = f"Name the variable that holds it with key_env, in an agent file. {words}"
    return ModelFailed(choice.model, "auth", said, advice)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


def _key(choice: ModelChoice, facts: ProviderFacts) -> str:
    """Return the key of a choice. The provider's usual key is sent to no other address."""
    names = _key_names(choice, facts)
    if not names:
        return "none"
    if name := _key_name(choice, facts):
        return os.environ[name]
    advice = f"Set {' or '.join(names)}"
    advice += "." if choice.key_env else ", name another variable with key_env, or another address with base_url."
    raise ModelFailed(choice.model, "auth", f"there is no key for {facts.title}.", advice)


async def _within(events: AsyncIterator[Any], most_s: float) -> AsyncGenerator[Any]:
    """Yield the events of a stream. `TimeoutError` if the next one takes longer, whatever the connection says of itself."""
    while True:
        time = asyncio.timeout(most_s)
        try:
            async with time:
                event = await anext(events)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if not time.expired():  # of the SDK, about its connection
                raise
            raise TimeoutError(f"the stream is open, and has brought nothing for {most_s:g} s") from None
        yield event


class SdkPort:
    """A model behind the client of an SDK, which is made with the first call."""

    def __init__(self, choice: ModelChoice, key: str, sdk: "_Sdk") -> None:
        self._choice, self._key, self._sdk = choice, key, sdk

    @cached_property
    def _client(self) -> Any:
        return self._sdk.open(self._choice, self._key)

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        """Send a request and yield the events of the reply."""
        try:
            stream = await self._sdk.ask(self._client, request, self._choice.options)
        except Exception as error:
            raise _plain_error(error, self._choice) from error
        async with aclosing(stream) as events:
            async for event in _within(aiter(events), max(self._choice.timeout_s, MOST_SILENT_S)):
                yield event.model_dump(exclude_unset=True, exclude={"sdk_http_response", "parsed"}, warnings=False)

    async def close(self) -> None:
        """Give up the connections of the client."""
        if "_client" in self.__dict__:
            await self._sdk.close(self._client)


class _Sdk(NamedTuple):
    """The functions of one SDK that an adapter uses."""

    open: Callable[[ModelChoice, str], Any]
    ask: Callable[[Any, Mapping[str, Any], Mapping[str, Any]], Awaitable[Any]]
    close: Callable[[Any], Awaitable[object]]


def _settings(choice: ModelChoice, key: str) -> dict[str, Any]:
    settings = {"api_key": key, "timeout": choice.timeout_s, "max_retries": 0}
    return settings | ({"base_url": choice.base_url} if choice.base_url else {})


def _openai(choice: ModelChoice, key: str) -> Any:
    import openai  # noqa: PLC0415 - an extra, and slow to load

    return openai.AsyncOpenAI(**_settings(choice, key))


def _anthropic(choice: ModelChoice, key: str) -> Any:
    import anthropic  # noqa: PLC0415 - an extra, and slow to load

    return anthropic.AsyncAnthropic(**_settings(choice, key))


def _google(choice: ModelChoice, key: str) -> Any:
    from google import genai  # noqa: PLC0415 - an extra, and slow to load

    # One attempt: the SDK would otherwise repeat some errors by itself.
    http: Any = {"timeout": int(choice.timeout_s * 1_000), "retry_options": {"attempts": 1}}
    return genai.Client(api_key=key, http_options=http | ({"base_url": choice.base_url} if choice.base_url else {}))


async def _ask_chat(client: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    streamed = {"stream": True, "stream_options": {"include_usage": True}}
    return _Closing(await client.chat.completions.create(**{**request, **options, **streamed}))


async def _ask_responses(client: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    return _Closing(await client.responses.create(**{**request, **options, "stream": True}))


async def _ask_anthropic(client: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    return _Closing(await client.messages.create(**{**request, **options, "stream": True}))


async def _ask_google(client: Any, request: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    config = {**request.get("config", {}), **options}
    return await client.aio.models.generate_content_stream(**{**request, "config": config})


async def _close(client: Any) -> None:
    await client.close()


async def _close_google(client: Any) -> None:
    await client.aio.aclose()


class _Closing:
    """A stream of an SDK that is closed by `aclose`, as generators are."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __aiter__(self) -> Any:
        return aiter(self._stream)

    async def aclose(self) -> None:
        """Hang up."""
        await self._stream.close()


_SDKS: dict[str, _Sdk] = {
    "openai": _Sdk(_openai, _ask_chat, _close),
    "openai-responses": _Sdk(_openai, _ask_responses, _close),
    "anthropic": _Sdk(_anthropic, _ask_anthropic, _close),
    "google": _Sdk(_google, _ask_google, _close_google),
}
