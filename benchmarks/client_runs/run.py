"""One run: a client does a task in one way, and what happened is measured."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from client_runs import launch
from client_runs.exchanges import ClientExchange, recorded, tapped
from client_runs.install import InstalledClient
from client_runs.plain_relay import PlainRelay
from client_runs.tasks import DONE, ClientTask, is_mended, make_workspace
from foveal.gateway.clients import CLIENTS
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.tools import offered_tools

TAP = Path(__file__).with_name("tap.py")
SOURCE = Path(__file__).resolve().parents[2] / "src"
DOWN_S = 1.0
"""Seconds between a kill and the start of the next process."""

_MOST_S = {False: 150.0, True: 600.0}
_STARTS_S = 30.0


class ClientRun(msgspec.Struct, frozen=True):
    """What happened in one run."""

    client: str
    version: str
    task: str
    budget: int | None
    """The budget of the gateway; None for a run without one."""
    is_finished: bool
    exit_codes: tuple[int, ...]
    seconds: float
    calls: int
    """Requests of the client to models that were answered."""
    errors: tuple[str, ...]
    """Errors that the client saw."""
    hidden: int
    """Calls in which the newest result did not reach the provider."""
    visible: int
    """Calls in which the client saw a tool of the gateway's."""
    refused: tuple[str, ...]
    """Requests that broke a rule of the provider."""
    upgrades: int
    """WebSockets that the client tried."""
    tokens: int
    bill: float
    """Price of all prompts, in input tokens at the full price."""
    first_fold: int | None
    """Number of the call that was folded first."""
    fold_tokens: int | None
    """Tokens of the client's request for it."""
    cpu_ms: float | None
    """Processor time of the gateway for each call after the first."""
    said: str
    """The end of what the client wrote."""


class _Place(NamedTuple):
    """The folders of one run."""

    root: Path
    work: Path
    home: Path
    tap: Path
    record: Path

    @property
    def store(self) -> Path:
        return self.root / "store.db"


def run(client: InstalledClient, task: ClientTask, budget: int | None, root: Path) -> ClientRun:
    """Have a client do a task, below an empty folder, and measure it."""
    shutil.rmtree(root, ignore_errors=True)
    place = _Place(root, root / "work", root / "home", root / "tap", root / "record")
    make_workspace(place.work)
    record, factor = place.record if budget is None else None, launch.FACTORS[client.name]
    with ScriptedProvider(record=record, cwd=place.work, factor=factor) as provider:
        provider.is_strict = client.name not in task.lenient
        for when, steps in task.agents:
            provider.play(*steps, when=when)
        provider.play(*task.steps)
        begun = time.monotonic()
        play = _killed if task.kill_at is not None else _played
        done = play(client, task, budget, place, provider)
        seconds = time.monotonic() - begun
        exchanges = recorded(place.record) if budget is None else tapped(place.tap)
        said = "\n".join(text for _, text in done)
        is_finished = DONE in said and all(code == 0 for code, _ in done)
        if task.mends:
            is_finished = is_finished and is_mended(place.work)
        return _measured(
            client,
            task,
            budget,
            done=done,
            seconds=seconds,
            is_finished=is_finished,
            exchanges=exchanges,
            provider=provider,
        )


def _measured(
    client: InstalledClient,
    task: ClientTask,
    budget: int | None,
    *,
    done: Sequence[tuple[int, str]],
    seconds: float,
    is_finished: bool,
    exchanges: Sequence[ClientExchange],
    provider: ScriptedProvider,
) -> ClientRun:
    calls = [one for one in exchanges if not one.is_upgrade]
    folded = next((i for i, one in enumerate(calls) if one.is_folded), None) if budget is not None else None
    bill = provider.bill
    return ClientRun(
        client=client.name,
        version=client.version,
        task=task.name,
        budget=budget,
        is_finished=is_finished,
        exit_codes=tuple(code for code, _ in done),
        seconds=round(seconds, 1),
        calls=sum(one.status == 200 for one in calls),
        errors=tuple(filter(None, (one.error for one in exchanges))),
        hidden=sum(one.hides_newest for one in calls),
        visible=sum(one.shows_own_tools for one in calls),
        refused=tuple(provider.refused),
        upgrades=sum(one.is_upgrade for one in exchanges),
        tokens=bill.tokens,
        bill=round(bill.cost(), 1),
        first_fold=None if folded is None else folded + 1,
        fold_tokens=None if folded is None else round(calls[folded].asked_tokens * launch.FACTORS[client.name]),
        cpu_ms=_cpu_ms(calls) if budget is not None and task.kill_at is None and not task.resumed else None,
        said=done[-1][1][-600:],
    )


def _cpu_ms(calls: Sequence[ClientExchange]) -> float | None:
    ended = sorted(one.cpu[1] for one in calls if one.cpu[1])
    return round(1_000 * (ended[-1] - ended[0]) / (len(ended) - 1), 1) if len(ended) > 1 else None


def _played(
    client: InstalledClient, task: ClientTask, budget: int | None, place: _Place, provider: ScriptedProvider
) -> list[tuple[int, str]]:
    """Run the client, and once more where the task is resumed; return exit codes and outputs."""
    environment = launch.environment(client.name, client.folder, place.home, provider.url) | _own_environment(place)
    done: list[tuple[int, str]] = []
    for prompt, resumed in ((task.prompt, False), *(((task.resumed, True),) if task.resumed else ())):
        words = launch.words(client.name, prompt, resumed=resumed)
        command = [CLIENTS[client.name].command, *words]
        if budget is not None:
            options = ["--budget", str(budget), "--store", str(place.store)]
            command = [sys.executable, str(TAP), "wrap", client.name, *options, "--", *words]
        done.append(_ended(_start(command, environment, place), _MOST_S[task.is_long]))
        if done[-1][0]:
            break
    return done


def _killed(
    client: InstalledClient, task: ClientTask, budget: int | None, place: _Place, provider: ScriptedProvider
) -> list[tuple[int, str]]:
    """Run the client behind a process that is killed at a step and started again on the same port."""
    with _between(client.name, budget, place, provider) as (port, restart):
        address = f"http://127.0.0.1:{port}"
        environment = launch.environment(client.name, client.folder, place.home, address)
        running = _start([CLIENTS[client.name].command, *launch.words(client.name, task.prompt)], environment, place)
        assert task.kill_at is not None
        until = time.monotonic() + _MOST_S[False]
        while _steps_asked(provider) <= task.kill_at and running.poll() is None and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.5)  # the first events of the stream arrive
        restart()
        return [_ended(running, _MOST_S[False])]


def _steps_asked(provider: ScriptedProvider) -> int:
    return sum(bool(offered_tools(one.body)) for one in list(provider.requests))


@contextmanager
def _between(
    name: str, budget: int | None, place: _Place, provider: ScriptedProvider
) -> Generator[tuple[int, Callable[[], None]]]:
    """Have a process between client and provider: a gateway, or without a budget a relay; with the function that kills it."""
    if budget is None:
        relays = [PlainRelay(provider.url)]

        def restart_relay() -> None:
            relays[-1].kill()
            time.sleep(DOWN_S)
            relays.append(PlainRelay(provider.url, relays[-1].port))

        yield relays[0].port, restart_relay
        relays[-1].kill()
        return
    port = _free_port()
    command = [sys.executable, str(TAP), "serve", "--port", str(port), "--store", str(place.store)]
    command += ["--budget", str(budget), "--upstream", f"{launch.PROVIDERS[name]}={provider.url}"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(place.home), "NO_PROXY": "127.0.0.1"}
    running = [_served(command, environment | _own_environment(place), place, port)]

    def restart() -> None:
        running[-1].kill()
        running[-1].wait()
        time.sleep(DOWN_S)
        running.append(_served(command, environment | _own_environment(place), place, port))

    try:
        yield port, restart
    finally:
        running[-1].terminate()
        running[-1].wait()


def _own_environment(place: _Place) -> dict[str, str]:
    return {"FOVEAL_TAP": str(place.tap), "PYTHONPATH": str(SOURCE)}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _served(command: Sequence[str], environment: dict[str, str], place: _Place, port: int) -> "subprocess.Popen[bytes]":
    """Start a gateway and wait until it listens."""
    place.root.mkdir(parents=True, exist_ok=True)
    with (place.root / "gateway.log").open("ab") as told:
        process = subprocess.Popen(command, env=environment, stdout=told, stderr=told, stdin=subprocess.DEVNULL)
    until = time.monotonic() + _STARTS_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return process
        time.sleep(0.05)
    process.kill()
    raise SystemExit(f"the gateway did not start: {(place.root / 'gateway.log').read_text()[-400:]}")


def _start(command: Sequence[str], environment: dict[str, str], place: _Place) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
        cwd=place.work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that a client that hangs can be ended with all that it started
    )


def _ended(process: "subprocess.Popen[str]", most_s: float) -> tuple[int, str]:
    """Wait for a client and return its exit code and output; one that takes too long is ended."""
    timer = threading.Timer(most_s, _end_all, (process.pid,))
    timer.start()
    try:
        said, _ = process.communicate()
    finally:
        timer.cancel()
    return process.returncode, said


def _end_all(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def ways(task: ClientTask, budgets: Iterable[int], *, is_fault: bool) -> list[int | None]:
    """Return the ways in which a task is run: without a gateway, and at its budgets; a fault at the first of them."""
    return [None, *list(budgets)[: 1 if is_fault or task.kill_at is not None else None]]
