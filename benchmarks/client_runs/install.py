"""Installation of the clients: each from npm into a folder of its own, without install scripts, at a pinned version."""

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from foveal.gateway.clients import CLIENTS

VERSIONS = {
    "claude": "2.1.325",
    "codex": "0.166.0",
    "pi": "0.73.1",
    "opencode": "1.18.33",
    "gemini": "0.61.0",
}
"""The versions that the results speak of; the newest ones that ran here when they were written down."""

_PROGRAMS = {
    "claude": ("@anthropic-ai/claude-code-*/claude",),
    "codex": ("@openai/codex-*/vendor/*/bin/codex", "@openai/codex-*/vendor/*/codex/codex"),
    "opencode": ("opencode-*-baseline/bin/opencode", "opencode-*/bin/opencode"),
}
"""Programs for this machine, which come as packages of their own; install scripts would copy them."""

_INSTALL_S = 600


class InstalledClient(NamedTuple):
    """A client on this machine."""

    name: str
    version: str
    folder: Path
    """A folder for the PATH, with the command and nothing else."""


def install(name: str, below: Path, *, latest: bool = False) -> InstalledClient:
    """Install a client below a folder, unless it is there, and return it."""
    package, folder = CLIENTS[name].package, below / name
    told = folder / "node_modules" / package / "package.json"
    if latest or not told.exists() or _version(told) != VERSIONS[name]:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{package}@{'latest' if latest else VERSIONS[name]}"
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(
            ["npm", "install", *options, "--prefix", str(folder), wanted],
            capture_output=True,
            text=True,
            timeout=_INSTALL_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"npm could not install {wanted}: {done.stderr.strip()[-400:]}")
    linked = folder / "path"
    linked.mkdir(exist_ok=True)
    command = linked / CLIENTS[name].command
    command.unlink(missing_ok=True)
    command.symlink_to(_program(name, folder / "node_modules"))
    return InstalledClient(name, _version(told), linked)


def _version(told: Path) -> str:
    return json.loads(told.read_text())["version"]


def _program(name: str, modules: Path) -> Path:
    """Return the program of a client: that for this machine, else the one that npm linked."""
    found = [path for pattern in _PROGRAMS.get(name, ()) for path in sorted(modules.glob(pattern)) if path.is_file()]
    return found[0] if found else modules / ".bin" / CLIENTS[name].command
