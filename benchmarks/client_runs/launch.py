"""Headless runs of each client: settings in an empty home, environment and words of the command line. No key is a real one."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROVIDERS = {"claude": "anthropic", "codex": "openai", "pi": "anthropic", "opencode": "anthropic", "gemini": "gemini"}
"""The provider that each client talks to here, by the name that `foveal serve --upstream` takes."""

FACTORS = {"claude": 1.59, "codex": 1.0, "pi": 1.21, "opencode": 1.21, "gemini": 1.17}
"""Tokens that the provider of each client's model counts for one of o200k: the medians in `foveal.models.counters.families`."""

_KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-scripted",
    "OPENAI_API_KEY": "sk-scripted",
    "CODEX_API_KEY": "sk-scripted",
    "GEMINI_API_KEY": "scripted",
}
_QUIET = {
    "CI": "1",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/bash",
    "NO_PROXY": "127.0.0.1,localhost",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "IS_SANDBOX": "1",  # Claude Code refuses to work unasked as root elsewhere
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
}


def environment(name: str, path: Path, home: Path, address: str) -> dict[str, str]:
    """Return the environment of a client that finds its provider at an address, and write its settings into the home."""
    home.mkdir(parents=True, exist_ok=True)
    told = _SETTINGS[name](home, address)
    return {"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(home), **_QUIET, **_KEYS, **told}


def words(name: str, prompt: str, *, resumed: bool = False) -> list[str]:
    """Return the arguments of a headless run, or of one that goes on with the newest session of the folder."""
    match name:
        case "claude":
            return [*(["-c"] if resumed else []), "-p", prompt, "--dangerously-skip-permissions"]
        case "codex":
            options = ["-m", "gpt-5-codex", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            return ["exec", *options, *(["resume", "--last"] if resumed else []), prompt]
        case "pi":
            model = ["--provider", "anthropic", "--model", "claude-sonnet-4-5"]
            return ["-p", *(["-c"] if resumed else []), *model, prompt]
        case "opencode":
            return ["run", *(["-c"] if resumed else []), "-m", "anthropic/claude-sonnet-4-5", prompt]
        case _:
            return ["-y", "-m", "gemini-2.5-pro", *(["-r", "latest"] if resumed else []), "-p", prompt]


def _claude(_home: Path, address: str) -> Mapping[str, str]:
    return {"ANTHROPIC_BASE_URL": address}


def _codex(home: Path, address: str) -> Mapping[str, str]:
    _write(home / ".codex" / "config.toml", f'openai_base_url = "{address}/v1"\ncheck_for_update_on_startup = false\n')
    return {}


def _pi(home: Path, address: str) -> Mapping[str, str]:
    _write(home / ".pi" / "agent" / "models.json", {"providers": {"anthropic": {"baseUrl": address}}})
    return {}


def _opencode(home: Path, address: str) -> Mapping[str, str]:
    told = {
        "share": "disabled",
        "autoupdate": False,
        "permission": {"*": "allow"},
        "provider": {"anthropic": {"options": {"baseURL": f"{address}/v1"}}},
    }
    _write(home / ".config" / "opencode" / "opencode.json", told)
    return {}


def _gemini(home: Path, address: str) -> Mapping[str, str]:
    told = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
    }
    _write(home / ".gemini" / "settings.json", told)
    return {"GOOGLE_GEMINI_BASE_URL": address}


def _write(path: Path, told: str | Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(told if isinstance(told, str) else json.dumps(told), encoding="utf-8")


_SETTINGS: dict[str, Callable[[Path, str], Mapping[str, str]]] = {
    "claude": _claude,
    "codex": _codex,
    "pi": _pi,
    "opencode": _opencode,
    "gemini": _gemini,
}
