"""The places where agents keep their sessions on a machine, and the newest files there."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec


class ClientFolder(msgspec.Struct, frozen=True):
    """A folder of one client's sessions."""

    variable: str
    """The environment variable that names the folder, if the user has set it."""
    folder: str
    """The folder otherwise, from the home directory on."""
    patterns: tuple[str, ...]


CLIENT_FOLDERS = (
    ClientFolder("CLAUDE_CONFIG_DIR", ".claude", ("projects/*/*.jsonl", "projects/*/*/subagents/*.jsonl")),
    ClientFolder("CODEX_HOME", ".codex", ("sessions/**/rollout-*.jsonl",)),
    ClientFolder("PI_CODING_AGENT_DIR", ".pi/agent", ("sessions/*/*.jsonl",)),
    ClientFolder("", ".gemini", ("tmp/*/chats/**/*.jsonl", "tmp/*/chats/session-*.json")),
    ClientFolder("XDG_DATA_HOME", ".local/share", ("opencode/opencode*.db", "opencode/storage/session/*/*.json")),
)


def newest_sessions(home: Path, environment: Mapping[str, str], most: int) -> list[Path]:
    """Return the files of the newest sessions of all clients, newest first. opencode keeps all of its sessions in one file."""
    found = [(_changed(path), path) for place in CLIENT_FOLDERS for path in _files(place, home, environment)]
    return [path for _, path in sorted(found, reverse=True)[:most]]


def _files(place: ClientFolder, home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    folder = Path(environment.get(place.variable) or home / place.folder)
    for pattern in place.patterns:
        yield from (path for path in folder.glob(pattern) if path.is_file())


def _changed(path: Path) -> float:
    """Return when a file was last written to; a database, with the log beside it."""
    log = path.with_name(f"{path.name}-wal")
    return max(one.stat().st_mtime for one in (path, log) if one.exists())
