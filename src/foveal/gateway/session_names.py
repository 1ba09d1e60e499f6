"""The names of sessions for callers of the HTTP API: a key has its own sessions, and sees no others.

The name of a session that was made with a key ends in the key's hash, as those of the gateway's conversations do. A caller who
names no key sees the sessions that were made without one.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import urlencode

from foveal.gateway.routes import has_key, key_hash

_HASH = re.compile(r"-([0-9a-f]{16})\Z")
_CHILD = "/"


class ApiCaller(NamedTuple):
    """The sender of a request."""

    key: str
    """The hash of its key; also of one who names none."""
    has_key: bool
    headers: Mapping[str, str]

    @staticmethod
    def of(headers: Mapping[str, str], query: Mapping[str, str] = MappingProxyType({})) -> "ApiCaller":
        """Return the sender of a request with these headers, whose names are in lower case, and this query."""
        asked = urlencode(query)
        return ApiCaller(key_hash(headers, asked), has_key(headers, asked), headers)

    def stored_name(self, name: str) -> str | None:
        """Return the name under which the store has a session of this caller; None if another key's hash ends the name.

        Of a child's name, the part before the first `/` counts: it is its parent's.
        """
        first, slash, rest = name.partition(_CHILD)
        found = _HASH.search(first)
        if found:
            return name if found[1] == self.key else None
        return f"{first}-{self.key}{slash}{rest}" if self.has_key else name

    def owns(self, stored: str) -> bool:
        """Return whether a session of the store is this caller's."""
        return self.stored_name(stored) == stored


def ends_in_hash(stored: str) -> bool:
    """Return whether a session of the store was made for a key, as those of the gateway's clients are."""
    return _HASH.search(stored.partition(_CHILD)[0]) is not None
