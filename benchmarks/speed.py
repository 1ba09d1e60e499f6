"""A full replay of one synthetic session, a prompt before every reply: CPU time here, and in other engines (`peers.py`).

All get the same messages, budget and counter. Engines that look at the whole history at each call get a sample of the calls,
spread evenly, from which the rest is extrapolated; the others get all of them, until a cap. For Foveal everything is timed that a
user waits for: append, count, fold, render and validate.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import foveal
import peers
import synthetic
from foveal.analysis.measurement.case import tools_tokens
from foveal.stores import Store
from foveal.stores.memory import MemoryStore

BUDGET = 64_000
STATELESS = ("langchain clear tool uses", "headroom compress", "litellm trim")
SAMPLE = 20


def own(chat: list[dict[str, Any]], budget: int, store: Store) -> float:
    """CPU seconds of Foveal. Opening the session loads the vocabulary, which happens once a process and is not timed."""
    bodies = [synthetic.to_message(message) for message in chat]
    policy = foveal.Policy(budget=foveal.BudgetTable(limit=budget, reserve=0))
    with foveal.Session(store, "speed", model="gpt-5", policy=policy) as session:
        start = time.process_time()
        for body in bodies:
            if body.role == "assistant":
                session.prompt(synthetic.TOOLS)
            session.append(body)
        return time.process_time() - start


def other(name: str, job: dict[str, Any], cap_s: float) -> dict[str, Any]:
    """Return the time of another engine, or why there is none."""
    calls: list[int] = job["calls"]
    if name in STATELESS:
        width = len(calls) / SAMPLE
        calls = [calls[int((k + 0.5) * width)] for k in range(SAMPLE)]
    spent, measured = 0.0, 0
    with peers.Engine(name) as engine:
        for line in engine.ask({**job, "calls": calls}):
            if "error" in line:
                return {"engine": name, "failed": line["error"]}
            spent, measured = spent + line["cpu_s"], measured + 1
            if spent > cap_s:
                break
    return {"engine": name, "measured_calls": measured, "total_s": spent * len(job["calls"]) / measured}


def measure(*, messages: int = 10_000, budget: int = BUDGET, cap_s: float = 40.0) -> dict[str, Any]:
    chat = synthetic.chat_messages(messages)
    calls = [i for i, message in enumerate(chat) if message["role"] == "assistant"]
    job = {"messages": chat, "calls": calls, "tools": [], "budget": budget - tools_tokens(synthetic.TOOLS)}
    ready, notes = peers.ready()
    took = [own(chat, budget, MemoryStore())]
    found = list[dict[str, Any]]()
    for name in ready:
        print(f"speed: {name}", file=sys.stderr, flush=True)
        found.append(other(name, job, cap_s))
    took.append(own(chat, budget, MemoryStore()))
    with tempfile.TemporaryDirectory() as folder:
        durable = own(chat, budget, foveal.open_store(Path(folder) / "store.db"))
    spent = statistics.mean(took)
    for row in found:
        if "total_s" in row:
            row["times_foveal"] = row["total_s"] / spent
    about = {"messages": messages, "budget": budget, "cap_s": cap_s, "left_out": notes}
    return {**about, "foveal": {"calls": len(calls), "memory_s": spent, "sqlite_s": durable}, "peers": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--cap", type=float, default=40.0, help="CPU seconds an engine is given")
    given = parser.parse_args()
    print(json.dumps(measure(messages=given.messages, cap_s=given.cap), indent=2))


if __name__ == "__main__":
    main()
