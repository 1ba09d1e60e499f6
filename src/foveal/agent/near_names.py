"""Names that were meant, for errors about names that do not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence with the nearest known names, or with all of them if none is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names) or 'none'}."
