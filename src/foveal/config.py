"""Reading policies from files."""

import tomllib
from pathlib import Path

from foveal.core.errors import BadPolicy
from foveal.policies import Policy, policy_from


def read_policy(path: str | Path) -> Policy:
    """A policy from a TOML file."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadPolicy(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPolicy(f"{path}: is not TOML: {error}") from None
    return policy_from(table, str(path))
