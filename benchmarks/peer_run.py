"""One engine, in an environment of its own: what would it have sent for each model call of a session?

Run by `peers.py` with the interpreter of the engine's environment; imports nothing but that engine and the tokenizer. Sessions
come in, each with the name of one of the package's engines, and prompts go out, as lines of JSON. Only the engine's own work is
timed: messages are converted to its types before the clock starts. Engines that keep state between calls are given it back as
their framework would; engines that look at the whole history each time get the whole history each time. All count with the same
tokenizer and ask the same stub for a summary.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any

from engines.port import Chat, Engine, Job

ENGINES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "langchain clear tool uses": ("langchain", "LangChainClear", {}),
    "langchain summarisation": ("langchain", "LangChainSummary", {}),
    "deepagents summarisation": ("deepagents", "DeepAgents", {}),
    "pydantic-ai-harness clear": ("pydantic", "PydanticAI", {"tiered": False}),
    "pydantic-ai-harness tiered": ("pydantic", "PydanticAI", {"tiered": True}),
    "haystack prune": ("haystack", "Haystack", {"compactor": "ToolResultPruningCompactor"}),
    "haystack sliding window": ("haystack", "Haystack", {"compactor": "SlidingWindowCompactor"}),
    "openhands condenser": ("openhands", "OpenHands", {}),
    "headroom compress": ("headroom", "Headroom", {}),
    "litellm trim": ("litellm", "Trim", {}),
}
"""Module, class and options."""


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogatepass")
    sys.stdout = sys.stderr  # whatever an engine prints is not an answer
    for line in sys.stdin.buffer:
        given = json.loads(line)
        module, name, options = ENGINES[given["engine"]]
        try:
            make = partial(getattr(import_module(f"engines.{module}"), name), **options)
            for answer in answers(make, Job(given)):
                out.write(json.dumps(answer) + "\n")
        except Exception as error:  # an engine may raise anything; its error is its result for the session
            out.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:300]}) + "\n")
        out.flush()


def answers(make: Callable[[Job], Engine], job: Job) -> Iterable[dict[str, Any]]:
    engine, table = make(job), dict[str, int]()
    for place in job.calls:
        engine.arrange(place)
        asked, start = job.asked, time.process_time()
        engine.step(place)
        took = time.process_time() - start
        shown, new = list[int](), list[Chat]()
        for one in engine.shown(place):
            if isinstance(one, int):
                shown.append(one)
                continue
            key = json.dumps(one)
            if key not in table:
                table[key] = len(job.messages) + len(table)
                new.append(one)
            shown.append(table[key])
        yield {"shown": shown, "new": new, "cpu_s": took, "offered": engine.covered, "summaries": job.asked - asked}


if __name__ == "__main__":
    main()
