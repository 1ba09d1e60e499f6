"""The promise of a PostgreSQL server: does what it acknowledges survive the loss of the machine?"""

import warnings
from typing import Literal, TypeAlias, get_args

from foveal.stores.postgres.connections import Link
from foveal.values.errors import BadInput, StoreError

Replication: TypeAlias = Literal["warn", "require", "ignore"]

_SETTINGS = (
    "SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),"
    " (SELECT count(*)::bigint FROM pg_stat_replication WHERE application_name NOT LIKE 'pg_basebackup%%')"
)


def weaknesses(link: Link, *, wants_replica: bool) -> list[str]:
    """Return the reasons for which an acknowledged entry can be lost; `wants_replica` counts a server that stands alone."""
    fsync, commit, standby_names, standbys = link.ask(_SETTINGS)[0]
    found: list[str] = []
    if fsync == "off":
        found.append("fsync is off: a power cut loses or damages everything")
    if commit in ("off", "local"):
        found.append(f"synchronous_commit is {commit}: commits are acknowledged before they are safe")
    if not standby_names and standbys:
        found.append(f"{standbys} replicas follow asynchronously: one that takes over may lack the newest entries")
    elif not standby_names and wants_replica:
        found.append("no synchronous replica is named (synchronous_standby_names)")
    return found


def check_replication(replication: str) -> None:
    """Raise `BadInput` for a word that does not say what is to be done about such a server."""
    if replication not in get_args(Replication):
        raise BadInput(f"foveal_replication is {replication!r:.40}; give one of {', '.join(get_args(Replication))}")


def check_durability(link: Link, place: str, replication: Replication) -> None:
    """Warn of a server that can lose what it acknowledges, or refuse it, as `replication` says."""
    check_replication(replication)
    found = weaknesses(link, wants_replica=replication == "require") if replication != "ignore" else []
    if not found:
        return
    text = (
        f"{place} may lose what it acknowledged: {'; '.join(found)}. A writer that lost entries is told so (TailLost)."
    )
    if replication == "require":
        raise StoreError(f"{text} It is refused because of foveal_replication=require; set up synchronous replication.")
    warnings.warn(f"{text} foveal_replication=require refuses such a server, =ignore is silent.", stacklevel=4)
