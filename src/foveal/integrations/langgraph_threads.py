"""Threads of LangGraph that are older than their first call with Foveal: their past, from a checkpointer into a session."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver

from foveal.dialects import find_dialect
from foveal.integrations.langchain import FovealMiddleware, read_message
from foveal.models import catalogue
from foveal.session.client_session import ClientSession
from foveal.session.follow import told_list
from foveal.session.options import Model
from foveal.values.entry import Message
from foveal.values.errors import BadInput


def import_thread(checkpointer: BaseCheckpointSaver[Any], thread_id: str, *, into: FovealMiddleware, model: str) -> int:
    """Keep the past of a thread in the session of a middleware, and return the number of entries that were written.

    Messages that are no longer in the thread's state, since a summary took their place, are kept from the older checkpoints: the
    session can recall them. The next call of the thread goes on from its newest state. A second time writes nothing.
    """
    lists = _told_lists(checkpointer, thread_id)
    if not lists:
        raise BadInput(f"the checkpointer holds no messages of the thread {thread_id!r}; there is nothing to import")

    dialect = find_dialect(catalogue.find(model, into.sessions.policy.models).dialect)

    def is_known(listed: Sequence[Message]) -> bool:
        newest = told_list(listed, dialect=dialect, model=model).entries[-1]
        return any(row.id == newest for row in into.sessions.store.find(thread_id, newest))

    def follow(session: ClientSession) -> int:
        new = [listed for listed in lists[:-1] if not is_known(listed)]
        return sum(session.follow(listed).written for listed in (*new, lists[-1]))

    turn = into.sessions.turn(thread_id, Model(model))
    try:
        return turn.begin(follow)
    finally:
        turn.end()


def _told_lists(checkpointer: BaseCheckpointSaver[Any], thread_id: str) -> list[list[Message]]:
    """Return the lists that the thread's model was told, in their order, without those that a later one begins with."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    lists: list[Sequence[BaseMessage]] = []
    for saved in checkpointer.list(config):  # the newest comes first
        told: Sequence[BaseMessage] = saved.checkpoint["channel_values"].get("messages") or ()
        if told and not (lists and [one.id for one in lists[-1][: len(told)]] == [one.id for one in told]):
            lists.append(told)
    return [[read_message(one) for one in told] for told in reversed(lists)]
