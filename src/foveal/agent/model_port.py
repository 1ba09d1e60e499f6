"""The port to models: a request goes out, the provider's events come back; and the choice of a model as data."""

import re
from collections.abc import AsyncGenerator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args

import msgspec

from foveal.agent.near_names import did_you_mean
from foveal.models.catalogue import find
from foveal.session.options import Model
from foveal.values.errors import BadInput

ProviderName: TypeAlias = Literal["openai", "openai-responses", "anthropic", "google"]
"""The formats that an agent can speak, each through the SDK of its provider. Any server that speaks one has a `base_url`."""

DIALECT_OF: dict[str, str] = {
    "openai": "openai_chat",
    "openai-responses": "openai_responses",
    "anthropic": "anthropic",
    "google": "gemini",
}
_USER_IN_URL = re.compile(r"//[^/@]*@")
_PROVIDER_OF = {dialect: name for name, dialect in DIALECT_OF.items()}


class ModelPort(Protocol):
    """A model that answers requests of one dialect."""

    def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        """Send a request, the keyword arguments of the provider's SDK, and yield the events of the reply as mappings.

        An error of the provider is raised as the SDK raises it. Closing the generator hangs up.
        """
        ...

    async def close(self) -> None:
        """Give up connections."""
        ...


class ModelChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A model, and the way to it. `ModelChoice.of("anthropic:claude-sonnet-5")` reads the short form."""

    model: str
    provider: str = ""
    """`openai`, `openai-responses`, `anthropic` or `google`; by default the one of the catalogue, `openai` for unknown models."""
    base_url: str = ""
    """Another address that speaks the provider's format."""
    key_env: str = ""
    """The variable that holds the key, where it is not the provider's usual one."""
    timeout_s: float = 120.0
    """Seconds without any sign of life after which a call is given up and made again. A stream that brings nothing but such signs
    is given up after 600, or after these if they are more."""
    options: dict[str, Any] = {}
    """Further arguments of each call, such as `reasoning_effort`, as the SDK takes them."""

    def __post_init__(self) -> None:
        if not self.model:
            raise BadInput("a model has a name, such as 'claude-sonnet-5' or 'openai:gpt-5'")
        if self.provider and self.provider not in DIALECT_OF:
            raise BadInput(f"there is no provider {self.provider!r}. {did_you_mean(self.provider, DIALECT_OF)}")
        if not self.timeout_s > 0:
            raise BadInput(f"timeout_s is {self.timeout_s!r}; it is a number of seconds above 0")

    @classmethod
    def of(cls, said: "str | ModelChoice | Mapping[str, Any]") -> "ModelChoice":
        """Return the choice that a text (`MODEL`, `PROVIDER:MODEL`, `PROVIDER:MODEL@URL`) or a table names."""
        if isinstance(said, ModelChoice):
            return said
        if isinstance(said, Mapping):
            try:
                return msgspec.convert(said, cls)
            except msgspec.ValidationError as error:
                raise BadInput(f"a model is not understood: {error}") from None
        kind, colon, rest = said.partition(":")
        if not colon or kind not in get_args(ProviderName):
            near = get_close_matches(kind, DIALECT_OF) if colon and not find(said).known else ()
            if near:
                raise BadInput(f"there is no provider {kind!r}. Did you mean {' or '.join(near)}?")
            return cls(said)
        model, at, base_url = rest.partition("@")
        if at and not base_url.startswith(("http://", "https://")):
            raise BadInput(f"{said!r}: {base_url!r} is no address; one begins with http:// or https://")
        return cls(model, kind, base_url)

    @property
    def spelled(self) -> str:
        """The model and its address as `of` reads them, without a password in the address."""
        provider = self.provider_name if self.base_url else self.provider
        model = f"{provider}:{self.model}" if provider else self.model
        return f"{model}@{_USER_IN_URL.sub('//', self.base_url)}" if self.base_url else model

    @property
    def dialect(self) -> str:
        return DIALECT_OF[self.provider] if self.provider else find(self.model).dialect

    @property
    def provider_name(self) -> ProviderName:
        """The provider by name, also where the catalogue decides."""
        return cast("ProviderName", self.provider or _PROVIDER_OF[self.dialect])

    @property
    def session_model(self) -> Model:
        """The model as a session takes it."""
        return Model(self.model, self.dialect)
