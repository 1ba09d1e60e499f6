"""Probes across tenants: each way in which a store can be asked for a session or an artifact of somebody else."""

import io
from collections.abc import Callable, Mapping
from typing import TypeAlias

from foveal.stores.port import KeptNote, Store
from foveal.stores.portable import export_session

TenantProbe: TypeAlias = Callable[[Store, str, str], object]
"""Asks a store for a session by its name, or for an artifact by its hash."""

REFUSED: Mapping[str, TenantProbe] = {
    "rows": lambda store, session, _: list(store.rows(session)),
    "rows_at": lambda store, session, _: store.rows_at(session, [1]),
    "find": lambda store, session, _: store.find(session, ""),
    "snapshot": lambda store, session, _: store.snapshot(session),
    "secret": lambda store, session, _: store.secret(session),
    "delete": lambda store, session, _: store.delete([session], takeover=True),
    "backdate": lambda store, session, _: store.backdate(session, created_ms=1, updated_ms=1),
    "artifact": lambda store, _, sha256: list(store.artifacts.read(sha256)),
    "span": lambda store, _, sha256: store.artifacts.span(sha256, 0, 1),
    "export": lambda store, session, _: export_session(store, session, io.BytesIO()),
    "keep a note": lambda store, session, _: store.scope("people").keep(KeptNote("k", "t", session, "host", 1)),
}
"""Those that are refused with `NotFound` or `BadInput`."""
EMPTY: Mapping[str, TenantProbe] = {
    "cards": lambda store, _, __: store.cards(),
    "card": lambda store, session, _: store.cards(session),
    "page": lambda store, _, __: store.page(),
    "page by prefix": lambda store, session, _: store.page(prefix=session),
    "scope": lambda store, _, __: store.scope("people").sessions(),
    "notes": lambda store, _, __: store.scope("people").notes(),
    "forget": lambda store, _, __: store.scope("people").forget("colour"),
    "tombstones": lambda store, _, __: store.tombstones(),
    "tombstones of a name": lambda store, session, _: store.tombstones_of([session, "gone"]),
    "sidecar": lambda store, _, sha256: store.artifacts.sidecar(sha256),
    "delete an artifact": lambda store, _, sha256: store.artifacts.delete(sha256, unless_put_after_ms=1 << 50),
    "sessions in stats": lambda store, _, __: store.stats().sessions,
}
"""Those that find nothing."""
