"""A full replay of one 10 000-message session, a prompt before every reply: Foveal beside other engines, on the same bytes.

Every engine runs in an environment of its own (made on first use under $FOVEAL_PEERS, ~/.cache/foveal-peers by default) as a
subprocess, one after the other, with Foveal first, in the middle and last. See `peer_run.py` for what is timed.

Each peer is run twice: with the counter that it comes with (characters divided by four), and with Foveal's exact tokenizer
handed to it, because a budget that is kept only on paper is cheap to keep.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import synthetic

HERE = Path(__file__).parent
BUDGET = 64_000
TOKENIZER = "splintr-rs>=0.22,<0.23"
PINS = {"langchain": "langchain==1.4.7", "deepagents": "deepagents==0.7.32", "haystack": "haystack-ai==3.4.0"}
"""By the first word of an engine's name."""
PEERS = (
    "langchain trim_messages",
    "langchain ClearToolUsesEdit",
    "deepagents SummarizationMiddleware",
    "haystack pruning",
    "haystack pruning, usage reported",
    "haystack sliding window",
    "haystack sliding window, usage reported",
    "haystack sliding window, history kept",
)
LEFT_OUT = (
    "LangChain's SummarizationMiddleware and haystack's SummarizationCompactor (not run here)",
    "every engine outside these three packages",
    "what a summary costs: a stub answers at once",
)


def environment(package: str) -> Path:
    """The interpreter of the peer's environment, made if it is not there."""
    root = Path(os.environ.get("FOVEAL_PEERS") or Path.home() / ".cache" / "foveal-peers")
    folder = root / PINS[package].replace("==", "-")
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    root.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    wanted = [PINS[package], TOKENIZER]
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "-q", "--python", sys.executable, folder], check=True)
        subprocess.run(["uv", "pip", "install", "-q", "--python", python, *wanted], check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    ready.touch()
    return python


def run(engine: str, python: Path, job: Path) -> dict[str, Any]:
    """What `peer_run.py` found, or why there is nothing."""
    command = [python, "-W", "ignore", HERE / "peer_run.py", engine, job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"engine": engine, "failed": done.stderr.strip().splitlines()[-1]}
    found = json.loads(done.stdout.splitlines()[-1])
    found["total_s"] = found["measured_s"] * found["calls"] / found["measured_calls"]
    return found


def measure(*, messages: int = 10_000, budget: int = BUDGET, cap_s: float = 40.0) -> dict[str, Any]:
    own: list[dict[str, Any]] = []
    peers: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        job = Path(name) / "job.json"
        for exact in (False, True):
            job.write_text(json.dumps(_job(messages, budget, cap_s, exact=exact)))
            own.append(run("foveal, memory", Path(sys.executable), job))
            for peer in PEERS:
                print(f"peers: {peer}, {'exact' if exact else 'own'} counter", file=sys.stderr, flush=True)
                python = environment(peer.partition(" ")[0])
                peers.append(run(peer, python, job) | {"exact": exact})
        own.append(run("foveal, memory", Path(sys.executable), job))
        durable = run("foveal, SQLite", Path(sys.executable), job)
    spent = statistics.median(found["total_s"] for found in own)
    for found in peers:
        if "total_s" in found:
            found["times_foveal"] = found["total_s"] / spent
    return {
        "messages": messages,
        "budget": budget,
        "target": budget // 2,
        "cap_s": cap_s,
        "foveal": {"calls": own[0]["calls"], "memory_s": spent, "sqlite_s": durable["total_s"]},
        "peers": peers,
        "left_out": LEFT_OUT,
    }


def _job(messages: int, budget: int, cap_s: float, *, exact: bool) -> dict[str, Any]:
    return {
        "messages": synthetic.chat_messages(messages),
        "tools": synthetic.TOOLS,
        "budget": budget,
        "target": budget // 2,
        "cap_s": cap_s,
        "exact": exact,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--budget", type=int, default=BUDGET)
    parser.add_argument("--cap-s", type=float, default=40.0, help="CPU seconds for one engine")
    given = parser.parse_args()
    print(json.dumps(measure(messages=given.messages, budget=given.budget, cap_s=given.cap_s), indent=2))


if __name__ == "__main__":
    main()
