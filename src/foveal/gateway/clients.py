"""Facts about clients: where each of them sends its requests by itself, and how one run of it is led to a gateway.

Keys and logins are the client's own: none is changed or passed on, and no file of the user is written. Of a login of Codex it is
read which kind it is, because the two kinds have two addresses.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from foveal.dialects.json_values import JsonObject, fields, string
from foveal.gateway.routes import UPSTREAMS
from foveal.values.errors import BadInput

_CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex sends the requests of a ChatGPT login."""

_LOOPBACK = ("127.0.0.1", "localhost")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_JSON_COMMENTS = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/|,(?=\s*[}\]])', re.DOTALL)


class ClientUser(NamedTuple):
    """The user who starts a client, as far as clients look: environment, home and working folder."""

    environment: Mapping[str, str]
    home: Path
    folder: Path

    def place(self, variable: str, beside: str) -> Path:
        """Return the folder that a variable names, or the one below the home."""
        return Path(self.environment.get(variable) or self.home / beside)


class ClientLaunch(NamedTuple):
    """One run of a client: arguments before the user's own, and variables over the user's environment."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


Addresses = Mapping[str, str]
"""Base addresses by the names of providers, each in the client's own form."""


class Client(msgspec.Struct, frozen=True):
    """A client: its command, its npm package, the addresses it would use, and the launch that leads it to others."""

    command: str
    package: str
    addresses: Callable[[ClientUser], Addresses]
    launch: Callable[[ClientUser, Addresses, Path], ClientLaunch]
    keys: tuple[str, ...]
    """Variables that may hold a key."""
    logins: tuple[tuple[str, str, str], ...]
    """Files of a login: the variable that names their folder, the folder below the home, and the name."""
    once: tuple[str, ...]
    """Arguments before a request that is made once, without a terminal."""

    def credentials(self, user: ClientUser) -> str:
        """Return where the client's key or login is; empty if none is seen. Only whether something is there is looked at."""
        keys = [f"the key in ${name}" for name in self.keys if user.environment.get(name)]
        paths = (user.place(variable, beside) / name for variable, beside, name in self.logins)
        return next(iter([*keys, *(f"the login in {path}" for path in paths if path.is_file())]), "")

    @property
    def install(self) -> str:
        """The command that installs the client."""
        return f"npm install -g {self.package}"


class Detour(NamedTuple):
    """The way of a client's requests: to the gateway under `paths`, and from there to `upstreams`."""

    upstreams: Addresses
    paths: Mapping[str, str]

    def by(self, gateway: str) -> Addresses:
        """Return the base addresses for the client, with the gateway in place of the upstreams."""
        return {provider: gateway + path for provider, path in self.paths.items()}


def find_detour(client: Client, user: ClientUser) -> Detour:
    """Return the detour of a client: its upstreams are the addresses that it would use by itself.

    All requests of a client with one provider go to that one, also those that name none: its key is nobody else's business.
    """
    upstreams: dict[str, str] = {}
    paths: dict[str, str] = {}
    for provider, address in client.addresses(user).items():
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadInput(f"{client.command} is set up for {address!r:.80}, which is not a web address; mend it first")
        upstreams[provider] = f"{parts.scheme}://{parts.netloc}"
        paths[provider] = parts.path.rstrip("/")
    if len(upstreams) == 1:
        (only,) = upstreams.values()
        upstreams = dict.fromkeys(UPSTREAMS, only)
    return Detour(upstreams, paths)


def client_environment(user: ClientUser, launch: ClientLaunch) -> dict[str, str]:
    """Return the environment of a run: the user's, the launch's, and no web proxy between the client and the gateway."""
    made = {**user.environment, **launch.environment}
    if any(made.get(name) or made.get(name.upper()) for name in _PROXIES):
        for name in ("NO_PROXY", "no_proxy"):
            made[name] = ",".join(dict.fromkeys((*filter(None, made.get(name, "").split(",")), *_LOOPBACK)))
    return made


def _claude_addresses(user: ClientUser) -> Addresses:
    return {"anthropic": user.environment.get("ANTHROPIC_BASE_URL") or UPSTREAMS["anthropic"]}


def _claude(_user: ClientUser, led: Addresses, _folder: Path) -> ClientLaunch:
    return ClientLaunch(environment={"ANTHROPIC_BASE_URL": led["anthropic"]})


def _gemini_addresses(user: ClientUser) -> Addresses:
    return {"gemini": user.environment.get("GOOGLE_GEMINI_BASE_URL") or UPSTREAMS["gemini"]}


def _gemini(_user: ClientUser, led: Addresses, _folder: Path) -> ClientLaunch:
    return ClientLaunch(environment={"GOOGLE_GEMINI_BASE_URL": led["gemini"]})


def _codex_addresses(user: ClientUser) -> Addresses:
    config, home = _codex_config(user), user.place("CODEX_HOME", ".codex")
    provider = _codex_provider(config)
    if provider != "openai":
        told = string(fields(fields(config.get("model_providers")).get(provider)).get("base_url"))
        if not told:
            raise BadInput(
                f"{home / 'config.toml'} has model_provider = {provider!r} without a base_url, so that there is nothing to "
                f"forward to; add one under [model_providers.{provider}]"
            )
        return {"openai": told}
    told = string(config.get("openai_base_url")) or user.environment.get("OPENAI_BASE_URL")
    own = _CHATGPT if _is_chatgpt_login(home / "auth.json") else f"{UPSTREAMS['openai']}/v1"
    return {"openai": told or own}


def _codex(user: ClientUser, led: Addresses, _folder: Path) -> ClientLaunch:
    provider = _codex_provider(_codex_config(user))
    key = "openai_base_url" if provider == "openai" else f"model_providers.{provider}.base_url"
    return ClientLaunch(arguments=("-c", f"{key}={json.dumps(led['openai'])}"))


def _codex_config(user: ClientUser) -> JsonObject:
    path = user.place("CODEX_HOME", ".codex") / "config.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def _codex_provider(config: JsonObject) -> str:
    return string(config.get("model_provider")) or "openai"


def _is_chatgpt_login(path: Path) -> bool:
    """Return whether Codex is logged in with ChatGPT and not with a key: only which of the two is there is looked at."""
    found = _read_json(path)
    return bool(found.get("tokens")) and not found.get("OPENAI_API_KEY")


class _Place(NamedTuple):
    """A provider in the settings of clients with several: its name there, and its own address."""

    name: str
    address: str


_PI = {
    "anthropic": _Place("anthropic", UPSTREAMS["anthropic"]),
    "openai": _Place("openai", f"{UPSTREAMS['openai']}/v1"),
    "gemini": _Place("google", f"{UPSTREAMS['gemini']}/v1beta"),
}
_OPENCODE = {**_PI, "anthropic": _Place("anthropic", f"{UPSTREAMS['anthropic']}/v1")}


def _pi_addresses(user: ClientUser) -> Addresses:
    path = user.place("PI_CODING_AGENT_DIR", ".pi/agent") / "models.json"
    told = fields(_read_json(path).get("providers"))
    return {key: string(fields(told.get(one.name)).get("baseUrl")) or one.address for key, one in _PI.items()}


def _pi(_user: ClientUser, led: Addresses, folder: Path) -> ClientLaunch:
    """Write an extension that moves the built-in providers, so that models, settings and logins stay in their places."""
    path = folder / "foveal-gateway.js"
    moves = (
        f"  pi.registerProvider({json.dumps(one.name)}, {{ baseUrl: {json.dumps(led[key])} }});\n"
        for key, one in _PI.items()
    )
    path.write_text(f"export default function (pi) {{\n{''.join(moves)}}}\n", encoding="utf-8")
    return ClientLaunch(arguments=("-e", str(path)))


def _opencode_addresses(user: ClientUser) -> Addresses:
    found = {key: one.address for key, one in _OPENCODE.items()}
    variables = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
    found |= {key: told for key, name in variables.items() if (told := user.environment.get(name))}
    for config in _opencode_configs(user):
        for key, one in _OPENCODE.items():
            options = fields(fields(fields(config.get("provider")).get(one.name)).get("options"))
            found[key] = string(options.get("baseURL")) or found[key]
    return found


def _opencode_configs(user: ClientUser) -> list[JsonObject]:
    """Return the settings of opencode, the strongest last: of the user, of a named file, of the project, of the environment."""
    own = user.place("XDG_CONFIG_HOME", ".config") / "opencode"
    named = user.environment.get("OPENCODE_CONFIG")
    project = [one for one in (user.folder, *user.folder.parents) if (one / ".git").exists()][:1]
    within = [one for one in (user.folder, *user.folder.parents) if not project or one.is_relative_to(project[0])]
    places = [own, *reversed(within if project else [user.folder])]
    paths = [place / name for place in places for name in ("config.json", "opencode.json", "opencode.jsonc")]
    if named:
        paths.insert(3, Path(named))
    return [*map(_read_json, paths), _opencode_inline(user)]


def _opencode_inline(user: ClientUser) -> JsonObject:
    return _parse_json(user.environment.get("OPENCODE_CONFIG_CONTENT") or "{}", "OPENCODE_CONFIG_CONTENT")


def _opencode(user: ClientUser, led: Addresses, _folder: Path) -> ClientLaunch:
    inline = _opencode_inline(user)
    providers = dict(fields(inline.get("provider")))
    for key, one in _OPENCODE.items():
        told = fields(providers.get(one.name))
        providers[one.name] = {**told, "options": {**fields(told.get("options")), "baseURL": led[key]}}
    return ClientLaunch(environment={"OPENCODE_CONFIG_CONTENT": json.dumps({**inline, "provider": providers})})


def _read_json(path: Path) -> JsonObject:
    """Return the object of a file; an empty one if there is no file."""
    return _parse_json(path.read_bytes(), str(path)) if path.is_file() else {}


def _parse_json(given: bytes | str, place: str) -> JsonObject:
    """Return the object of a JSON text, in which comments and last commas are allowed."""
    found: Any = None
    with suppress(ValueError):  # also of bytes that are no text
        text = given if isinstance(given, str) else given.decode()
        for _ in range(2):  # a last comma may have a comment behind it
            text = _JSON_COMMENTS.sub(lambda match: match[1] or "", text)
        found = json.loads(text)
    if not isinstance(found, dict):
        raise BadInput(f"{place} is not a JSON object, so that the addresses in it cannot be followed; mend it first")
    return cast("JsonObject", found)


_ANTHROPIC_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_GEMINI_KEYS = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
_ALL_KEYS = (*_ANTHROPIC_KEYS, "OPENAI_API_KEY", *_GEMINI_KEYS)

CLIENTS: dict[str, Client] = {
    "claude": Client(
        "claude",
        "@anthropic-ai/claude-code",
        _claude_addresses,
        _claude,
        (*_ANTHROPIC_KEYS, "CLAUDE_CODE_OAUTH_TOKEN"),
        (("CLAUDE_CONFIG_DIR", ".claude", ".credentials.json"),),
        ("-p",),
    ),
    "codex": Client(
        "codex",
        "@openai/codex",
        _codex_addresses,
        _codex,
        ("OPENAI_API_KEY", "CODEX_API_KEY"),
        (("CODEX_HOME", ".codex", "auth.json"),),
        ("exec", "--skip-git-repo-check"),
    ),
    "pi": Client(
        "pi",
        "@mariozechner/pi-coding-agent",
        _pi_addresses,
        _pi,
        _ALL_KEYS,
        (("PI_CODING_AGENT_DIR", ".pi/agent", "auth.json"),),
        ("-p",),
    ),
    "opencode": Client(
        "opencode",
        "opencode-ai",
        _opencode_addresses,
        _opencode,
        _ALL_KEYS,
        (("XDG_DATA_HOME", ".local/share", "opencode/auth.json"),),
        ("run",),
    ),
    # A Google login uses another service, which does not go through the gateway.
    "gemini": Client("gemini", "@google/gemini-cli", _gemini_addresses, _gemini, _GEMINI_KEYS, (), ("-p",)),
}
"""The clients that `foveal wrap` knows, by the names of their commands."""
