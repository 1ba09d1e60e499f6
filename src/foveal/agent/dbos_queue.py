"""Runs brought to workers by DBOS: a queue in SQLite or PostgreSQL, from which many workers take.

A workflow drives one run until it ends or rests, and has no steps of its own: every effect is in the log of the session before
the next one begins, and a workflow that is taken up again goes on from there. A checkpoint beside each entry of the log would
say the same again, for some 5 ms of CPU each. DBOS keeps the names of a run and of its agent, as JSON, and nothing that was said.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from importlib.util import find_spec
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING

from foveal.agent.run_marks import split_run
from foveal.agent.run_queue import TakeUp
from foveal.session.options import now_ms
from foveal.stores.lease import pack, this_process, unpack
from foveal.values.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from dbos import DBOSClient, EnqueueOptions, WorkflowHandle, WorkflowStatus

APPLICATION = "foveal"
WORKFLOW = "foveal_run"
VERSION = "1"
"""The version of the workflow's arguments: workers take runs of their own version alone. DBOS would use a hash of the sources,
and leave all runs behind with the next release."""
POLL_S = 0.5
"""Seconds between two looks of a worker into a queue."""
STARTING_S = 10.0
"""Seconds after which a worker that has taken a run from the queue, and does not hold its session, counts as dead; one that is
seen to be dead does so at once. If it lives all the same, one of two workers finds the session held and lets the run be."""


class DbosQueue:
    """A queue for `Runs(store, agents, queue=DbosQueue("postgresql://…/agents"))`; `sqlite:///FILE` serves one machine.

    The tables of DBOS are made with the first use. Workers are processes of their own: DBOS is one of a process.
    """

    def __init__(self, url: str) -> None:
        if find_spec("dbos") is None:
            raise MissingExtra("A queue of DBOS", "durable")
        if not url.startswith(("postgresql://", "sqlite:///")):
            raise BadInput(
                "the queue of DBOS lies in a database: name it as postgresql://USER@HOST/DATABASE or sqlite:///FILE"
            )
        self._url = url
        self._opened: DBOSClient | None = None
        self._gate = Lock()

    async def put(self, run: str, agent: str) -> None:
        """Bring a run to a worker of its agent. If a worker has died with it, it is brought to another one."""
        await asyncio.to_thread(self._put, run, agent)

    @asynccontextmanager
    async def serving(self, agents: Collection[str], take_up: TakeUp, at_once: int) -> AsyncGenerator[None]:
        """Have runs of these agents driven on this event loop, so many at once of each agent."""
        from dbos import DBOS, DBOSPortableJSONSerializer  # noqa: PLC0415

        async def drive(run: str, agent: str) -> str:
            task = await take_up(run, agent)
            return "driven elsewhere" if task is None else (await asyncio.shield(task)).status

        await asyncio.to_thread(self._client)  # makes the tables
        DBOS(
            config={
                "name": APPLICATION,
                "system_database_url": self._url,
                "application_version": VERSION,
                "executor_id": pack(this_process(now_ms())),
                "serializer": DBOSPortableJSONSerializer(),
                "log_level": "WARNING",
            }
        )
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(drive)
        DBOS.listen_queues([_queue_of(agent) for agent in agents])
        DBOS.launch()
        try:
            for agent in agents:
                await asyncio.to_thread(
                    DBOS.register_queue, _queue_of(agent), worker_concurrency=at_once, polling_interval_sec=POLL_S
                )
            yield
        finally:
            await asyncio.to_thread(DBOS.destroy, destroy_registry=True)

    def close(self) -> None:
        """Close the connections to the database."""
        with self._gate:
            if self._opened is not None:
                self._opened.destroy()
                self._opened = None

    def _put(self, run: str, agent: str) -> None:
        client, session = self._client(), split_run(run)[0]
        wish: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "workflow_id": f"{run}/{token_hex(8)}",
            "queue_name": _queue_of(agent),
            "app_version": VERSION,
            "deduplication_id": session,
            "duplication_policy": "return-existing",
        }
        found: WorkflowHandle[str] = client.enqueue(wish, run, agent)
        if found.get_workflow_id() == wish["workflow_id"]:
            return
        if _is_orphaned(found.get_status()):
            client.cancel_workflow(found.get_workflow_id())  # not resumed: that would forget the deduplication id
            client.enqueue(wish, run, agent)

    def _client(self) -> "DBOSClient":
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer  # noqa: PLC0415

        with self._gate:
            if self._opened is None:
                DBOS.migrate(self._url)
                self._opened = DBOSClient(
                    system_database_url=self._url,
                    serializer=DBOSPortableJSONSerializer(),
                    application_name=APPLICATION,
                )
            return self._opened


def _is_orphaned(workflow: "WorkflowStatus") -> bool:
    """Return whether the worker that took a workflow from the queue is dead. Nobody holds the session of its run."""
    if workflow.status != "PENDING" or workflow.executor_id is None:
        return False
    since_s = time.time() - (workflow.dequeued_at or 0) / 1000
    return unpack(workflow.executor_id).lives() is False or since_s > STARTING_S


def _queue_of(agent: str) -> str:
    return f"{APPLICATION} {agent}"
