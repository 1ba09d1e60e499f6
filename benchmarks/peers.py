"""Other engines, each in an environment of its own, as runners of the benchmark: same bytes, same counter, same budget.

Environments are made on first use under $FOVEAL_PEERS (~/.cache/foveal-peers by default). An engine runs as a subprocess that is
given sessions, one line of JSON each, and answers with what it would have sent for each call (`peer_run.py`). An engine
that cannot be installed or started is left out, with a note in the table.
"""

import atexit
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from foveal.analysis.measurement.case import Case, Runner, Sent, text_of
from foveal_bench.runners import RUNNERS, own_runner

HERE = Path(__file__).parent
TOKENIZER = "splintr-rs>=0.22,<0.23"
PINS = {
    "langchain": "langchain==1.4.7",
    "deepagents": "deepagents==0.7.32",
    "pydantic-ai-harness": "pydantic-ai-harness==0.62.0",
    "haystack": "haystack-ai==3.4.0",
    "headroom": "headroom-ai==0.42.0",
    "litellm": "litellm==1.106.2",
    "openhands": "openhands-sdk==1.58.0",
}
"""By the first word of an engine's name."""
PYTHONS = {"openhands": (3, 12)}
"""The Python version of engines that do not run on this interpreter."""
ENGINES = (
    "langchain clear tool uses",
    "langchain summarisation",
    "deepagents summarisation",
    "pydantic-ai-harness clear",
    "pydantic-ai-harness tiered",
    "haystack prune",
    "haystack sliding window",
    "openhands condenser",
    "headroom compress",
    "litellm trim",
)


def ready() -> tuple[list[str], list[str]]:
    """The engines that can be run, and why others cannot."""
    found, notes = list[str](), list[str]()
    for name in ENGINES:
        try:
            _environment(name.partition(" ")[0])
            found.append(name)
        except (OSError, subprocess.CalledProcessError, LookupError) as error:
            notes.append(f"{name} was left out: {error}")
    return found, notes


def runner(name: str) -> Runner:
    """One of our own, or another engine."""
    return partial(_run, name) if name not in RUNNERS and name in ENGINES else own_runner(name)


def _run(name: str, case: Case, budget: int) -> Iterator[Sent]:
    """Yield the engine's prompts. Its budget is that of the messages: most engines do not count tools."""
    job = {"messages": case.messages, "sizes": case.sizes, "calls": case.calls, "budget": budget - case.fixed}
    table = list(case.messages)
    for line in _package(name.partition(" ")[0]).ask({"engine": name, **job}):
        if "error" in line:
            raise RuntimeError(line["error"])
        table.extend(line["new"])
        shown: list[int] = line["shown"]
        offered = partial(_texts, case, line.get("offered") or 0)
        yield Sent(
            [table[i] for i in shown],
            case.tools,
            offered,
            cpu_s=line["cpu_s"],
            summaries=line.get("summaries", 0),
        )


def _texts(case: Case, upto: int) -> Iterator[str]:
    return map(text_of, case.messages[:upto])


class Engine:
    """One subprocess. It can run all engines of its package: a job may name another."""

    def __init__(self, name: str) -> None:
        self._name = name
        command = [_environment(name.partition(" ")[0]), "-W", "ignore", HERE / "peer_run.py"]
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "HEADROOM_TELEMETRY": "off",
        }
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        atexit.register(self.close)

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
        into, out = self._process.stdin, self._process.stdout
        assert into is not None
        assert out is not None
        into.write(json.dumps({"engine": self._name, **job}).encode("utf-8", "surrogatepass") + b"\n")
        into.flush()
        for _ in job["calls"]:
            line = out.readline()
            if not line:
                _running.clear()
                raise RuntimeError("the engine's process ended")
            found = json.loads(line)
            yield found
            if "error" in found:
                return


_running: dict[str, Engine] = {}


def _package(name: str) -> Engine:
    """Started once a process, for all of its sessions. They come policy by policy: the package before has done its work."""
    if name not in _running:
        for before in list(_running):
            _running.pop(before).close()
        _running[name] = Engine(name)
    return _running[name]


def _environment(package: str) -> Path:
    """The interpreter of the engine's environment, made if it is not there."""
    root = Path(os.environ.get("FOVEAL_PEERS") or Path.home() / ".cache" / "foveal-peers")
    folder = root / PINS[package].replace("==", "-")
    python, done = folder / "bin" / "python", folder / "ready"
    if done.exists():
        return python
    root.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    wanted, interpreter = [PINS[package], TOKENIZER], _interpreter(package)
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "-q", "--python", interpreter, folder], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "--python", python, *wanted], check=True)
    else:
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    done.touch()
    return python


def _interpreter(package: str) -> str:
    least = PYTHONS.get(package)
    if not least or sys.version_info >= least:
        return sys.executable
    name = "python{}.{}".format(*least)
    pyenv = sorted(Path.home().glob(f".pyenv/versions/{least[0]}.{least[1]}.*/bin/python"))
    if pyenv:
        return str(pyenv[-1])
    if found := shutil.which(name):
        return found
    raise LookupError(f"it needs Python {least[0]}.{least[1]}, which is not here")
