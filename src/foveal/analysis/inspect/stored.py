"""Stores that commands read, and sessions that replays leave in them."""

import os
import warnings
from argparse import ArgumentParser
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from foveal.analysis.complaints import complain
from foveal.models.counters import counter_for, encoding
from foveal.project.retention_layers import layers_from
from foveal.session.model_setup import ModelSetup, UnknownModelWarning, setup_for
from foveal.session.policy import policy_from
from foveal.session.rebuild import prompt_at, setup_at
from foveal.stores import open_store
from foveal.stores import rows as log
from foveal.stores.port import Draft, Store
from foveal.values.entry import Body, Message, Setup, Stored, ToolResult
from foveal.values.errors import BadInput, NotFound
from foveal.values.prompt import Prompt


def add_store(parser: ArgumentParser) -> None:
    parser.add_argument("--store", metavar="FILE", help="the store to read (default: $FOVEAL_STORE, else ./foveal.db)")


@contextmanager
def existing_store(named: str | None) -> Generator[Store]:
    """The store to read. Reading never makes one."""
    path = Path(named or os.environ.get("FOVEAL_STORE") or "foveal.db")
    if not path.exists():
        raise NotFound(f"there is no store at {path}; name one with --store FILE or $FOVEAL_STORE")
    if not path.is_file() or not path.stat().st_size:
        raise NotFound(f"{path} is not a store; name one with --store FILE or $FOVEAL_STORE")
    store = open_store(path)
    try:
        yield store
    finally:
        store.close()


def known_session(store: Store, name: str) -> str:
    """The name, if there is such a session."""
    if store.cards(name):
        return name
    names = [card.id for card in store.cards()]
    near = [known for known in names if name.lower() in known.lower()][:3] or names[:3]
    raise NotFound(f"there is no session {name!r} in this store; it has {', '.join(near) or 'none'}")


class AbsentRenderers(Mapping[str, Callable[[str], str]]):
    """In the place of a host's renderers, which are code and not in the log: each shows the whole result."""

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Callable[[str], str]:
        self.asked.add(name)
        return str

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.asked))

    def __len__(self) -> int:
        return len(self.asked)


def optics_of(setup: Setup) -> ModelSetup:
    """What the prompts of a stored session were built with, as far as the log knows."""
    policy = policy_from(msgspec.json.decode(setup.policy), "the stored policy")
    counter = counter_for(setup.model)
    if counter.counter.name != setup.counter:
        counter = msgspec.structs.replace(counter, counter=encoding(setup.counter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownModelWarning)  # it was said when the session was made
        layers = layers_from(setup.retention)
        return setup_for(setup.model, policy, setup.dialect, counter, layers=layers, renderers=AbsentRenderers())


def stored_prompt(store: Store, name: str, call: int | None) -> tuple[Prompt, ModelSetup]:
    """The prompt of a call, built again from the log; of the next one, if none is named."""
    optics = optics_of(setup_at(store, known_session(store, name), call))
    prompt = prompt_at(store, name, optics, call)
    if optics.renderers:
        what = f"the host shows some results by renderers that are not known here ({', '.join(optics.renderers)})"
        complain(f"{what}; such results are shown and counted whole")
    return prompt, optics


def copy_session(source: Store, target: Store, name: str) -> None:
    """All entries of a session, in one step: all of them or none."""
    if target.cards(name):
        raise BadInput(f"the store has a session {name!r} already; name a new file")
    drafts = [Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in source.rows(name)]
    for row in source.rows(name):
        if b'"stored"' in row.payload:
            for sha256 in _artifacts(log.to_entry(row, name).body):
                target.artifacts.put(source.artifacts.read(sha256))
    writer = target.acquire(name)
    try:
        writer.append(drafts)
    finally:
        writer.release()


def _artifacts(body: Body) -> Iterator[str]:
    for part in body.parts if isinstance(body, Message) else ():
        for item in part.content if isinstance(part, ToolResult) else (part,):
            if isinstance(item, Stored):
                yield item.sha256
