"""Stored sessions: the model setup that their log records, their prompts built again, copies of them."""

import warnings
from collections.abc import Callable
from typing import Any

import msgspec

from foveal.dialects.renderer import SentMessage, sent_messages
from foveal.models.counters import counter_for, encoding
from foveal.project.retention_layers import layers_from
from foveal.project.view import View
from foveal.session.model_setup import ModelSetup, UnknownModelWarning, setup_for
from foveal.session.options import Model
from foveal.session.policy import logged_policy
from foveal.session.rebuild import prompt_of, setup_at, view_at
from foveal.stores import rows as log
from foveal.stores.port import Draft, Store
from foveal.stores.portable import add_session
from foveal.stores.references import artifacts_named
from foveal.stores.rows import check_readable
from foveal.values.entry import Entry, Setup
from foveal.values.errors import NotFound
from foveal.values.prompt import Prompt


class AbsentRendererWarning(UserWarning):
    """Some results of the session are shown by renderers of its host, which are code and not in the log."""


class AbsentRenderers(dict[str, Callable[[str], str]]):
    """A substitute for the renderers of a host: each returns the whole result. Those that were asked for are kept."""

    def __missing__(self, name: str) -> Callable[[str], str]:
        return self.setdefault(name, str)

    def __contains__(self, name: object) -> bool:
        return True


def known_session(store: Store, session: str) -> str:
    """Return the name of the session; raise `NotFound`, which names similar ones, if the store has no such session, and
    `StoreError` if it was opened without the keys of the session."""
    if store.cards(session):
        check_readable(store, session)
        return session
    names = [card.id for card in store.cards()]
    near = [known for known in names if session.lower() in known.lower()][:3] or names[:3]
    others = f" and {len(names) - len(near):,} others" if len(names) > len(near) else ""
    raise NotFound(f"there is no session {session!r} in this store; it has {', '.join(near) or 'none'}{others}")


def branch_of(store: Store, session: str) -> list[Entry]:
    """Return the entries of the session's current branch, oldest first."""
    return [log.to_entry(row, session) for row in log.branch(store.rows(session))]


def entry_id(store: Store, session: str, prefix: str) -> str:
    """Return the id of the only entry whose id begins with `prefix`; raise `NotFound` if there is none or several."""
    found = store.find(session, prefix)
    if len(found) != 1:
        many = "several entries begin" if found else "no entry begins"
        raise NotFound(f"{many} with {prefix!r} in session {session!r}; `foveal why` lists them")
    return found[0].id


def tool_name(tool: dict[str, Any]) -> str:
    """Return the name of a tool in a recorded setup; the type of a provider's own tool, which has no name."""
    return str(tool.get("function", tool).get("name") or tool.get("type"))


def recorded_setup(setup: Setup) -> ModelSetup:
    """Return the model setup of a stored session, as far as a setup mark of its log records it."""
    policy, _ = logged_policy(setup.policy)
    counter = counter_for(setup.model)
    if counter.counter.name != setup.counter:
        counter = msgspec.structs.replace(counter, counter=encoding(setup.counter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownModelWarning)  # its host was warned when the session was made
        layers = layers_from(setup.retention)
        model = Model(setup.model, setup.dialect, counter)
        return setup_for(model, policy, layers=layers, renderers=AbsentRenderers())


def stored_prompt(store: Store, session: str, call: int | None = None) -> tuple[Prompt, ModelSetup]:
    """Return the prompt of a call, built again from the log, and its model setup; of the next call if `call` is None."""
    view, setup = _stored_view(store, session, call)
    return prompt_of(session, view, setup), setup


def stored_messages(store: Store, session: str, call: int | None = None) -> tuple[Prompt, list[SentMessage]]:
    """Return the prompt of a call and its messages in the order in which they are sent, fences and reminders among them."""
    view, setup = _stored_view(store, session, call)
    blocks = view.facts.context.blocks if view.facts.context else ()
    return prompt_of(session, view, setup), list(sent_messages(view, blocks))


def _stored_view(store: Store, session: str, call: int | None) -> tuple[View, ModelSetup]:
    """Return the view of a call as the log records it, and its model setup; warn of renderers that are not known here."""
    setup = recorded_setup(setup_at(store, known_session(store, session), call))
    view = view_at(store, session, setup, call)
    if setup.renderers:
        what = (
            f"the host shows some results by renderers that are not known here ({', '.join(sorted(setup.renderers))})"
        )
        warnings.warn(AbsentRendererWarning(f"{what}; such results are shown and counted whole"), stacklevel=4)
    return view, setup


def copy_session(source: Store, target: Store, session: str) -> None:
    """Copy all entries of a session to another store, with their artifacts: all of them or none."""
    rows = list(source.rows(session))
    read, kept = source.artifacts_for(session), target.artifacts_for(session)
    for sha256 in artifacts_named(rows):
        kept.put(read.read(sha256))
    drafts = [Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in rows]
    add_session(target, session, drafts, secret=source.secret(session))
