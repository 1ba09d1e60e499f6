"""Patterns that are compiled at their first use: a long one takes a millisecond, and most sessions never need it."""

import re
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

LazyPattern: TypeAlias = Callable[[], re.Pattern[str]]


def lazy_pattern(source: str, flags: int = 0) -> LazyPattern:
    """Return a function that compiles the pattern at its first call, and returns it from then on."""

    @cache
    def compiled() -> re.Pattern[str]:
        return re.compile(source, flags)

    return compiled
