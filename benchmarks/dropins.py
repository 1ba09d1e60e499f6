"""Drop-ins in real frameworks: calls, tokens and the input bill of an agent that reads 60 files, with and without Foveal.

    make dropins                                          # all of them, each framework in an environment of its own
    python benchmarks/dropins.py --here --only openai_sdk --out /tmp/try.md        # with the packages that are installed

The provider is scripted: no network beyond the packages, and no key. The exit code is 1 if a request with Foveal was invalid or
above the budget, or a test failed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from foveal.testing.adapter_contract import BUDGET, STEPS, reading_steps
from foveal.testing.provider import Read, ScriptedProvider, Step

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "dropins.md"
PROGRAMS = Path(__file__).parent / "dropin_runs" / "programs.py"


class DropIn(NamedTuple):
    """A framework, its packages, and its own ways to keep a history small."""

    file: str
    """The adapter; empty where only tests are run."""
    packages: tuple[str, ...]
    own: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    """Tests that only this environment can run."""
    is_pinned: bool = True
    """Whether the packages agree with those of `dev`."""


WHOLE = os.environ | {"FOVEAL_DROPINS": "1"}
PYTEST = ("pytest", "pytest-timeout")
SUMMARIES = ("SummarizationMiddleware", "SummarizationMiddleware, default")
TESTS = "tests/integrations"
DROPINS = {
    "openai_sdk": DropIn("wrap.py", ("openai",)),
    "anthropic_sdk": DropIn("wrap.py", ("anthropic",)),
    "langchain": DropIn(
        "langchain.py",
        ("langchain", "langchain-openai"),
        (*SUMMARIES, "ContextEditingMiddleware"),
    ),
    "deepagents": DropIn(
        "",
        ("deepagents>=0.7.32,<0.8", "langchain-openai", *PYTEST),
        tests=(f"{TESTS}/test_deepagents.py",),
        is_pinned=False,
    ),
    "pydantic_ai": DropIn(
        "pydantic_ai.py",
        ("pydantic-ai-slim[openai]", "dbos>=3.3,<4", *PYTEST),
        tests=(f"{TESTS}/test_pydantic_ai_dbos.py",),
    ),
    "openai_agents": DropIn("openai_agents.py", ("openai-agents",), ("ToolOutputTrimmer",)),
    "agent_framework": DropIn(
        "agent_framework.py",
        ("agent-framework-core", "agent-framework-openai"),
        ("ContextWindowCompactionStrategy",),
    ),
    "litellm": DropIn(
        "litellm.py",
        ("litellm[proxy]>=1.106,<1.107", *PYTEST),
        tests=(f"{TESTS}/test_litellm.py", "tests/docs/test_blocks.py", "-k", "litellm", "-W", "ignore"),
        is_pinned=False,
    ),
}


class DropInRun(NamedTuple):
    """The figures of one run."""

    name: str
    way: str
    calls: int
    asides: int
    tokens: int
    largest: int
    above: int
    bill: float
    invalid: int


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    runs, pythons = list[DropInRun](), dict(one.split("=", 1) for one in args.python)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            if name not in pythons:
                pythons[name] = sys.executable if args.here else _environment(Path(folder) / name, DROPINS[name])
            for way in ("plain", "foveal", *DROPINS[name].own) if DROPINS[name].file else ():
                runs.append(_run(pythons[name], name, way))
                print(runs[-1], flush=True)
        args.out.write_text(_page(runs, is_apart=not (args.here or args.python)), encoding="utf-8")
        failed = [name for name in args.only if not _passes(pythons[name], DROPINS[name].tests)]
    wrong = [run for run in runs if run.way == "foveal" and (run.invalid or run.largest > BUDGET)]
    for run in wrong:
        print(f"invalid or above {BUDGET:,} tokens: {run}")
    for name in failed:
        print(f"the tests of {name} failed")
    return 1 if wrong or failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(DROPINS), default=list(DROPINS), help="these frameworks")
    parser.add_argument("--here", action="store_true", help="use this environment, and make none")
    parser.add_argument("--python", nargs="+", default=[], metavar="NAME=PATH", help="use these for these frameworks")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser


def _environment(folder: Path, made_for: DropIn) -> str:
    """Make an environment with Foveal and the packages of a framework, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    pinned = ["-c", str(ROOT / "constraints.txt")] if made_for.is_pinned else []
    asked = [*pinned, "-e", str(ROOT), *made_for.packages]
    subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *asked], check=True)
    return python


def _passes(python: str, tests: Sequence[str]) -> bool:
    command = [python, "-m", "pytest", "-q", *tests]
    return not tests or subprocess.run(command, check=False, cwd=ROOT, env=WHOLE).returncode == 0


def _run(python: str, name: str, way: str) -> DropInRun:
    """Run one agent against a provider of its own."""
    plain = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(STEPS)]
    with ScriptedProvider() as provider:
        provider.play(*(reading_steps(STEPS) if way == "foveal" else [*plain, Step("All files are read.")]))
        subprocess.run([python, str(PROGRAMS), name, way, provider.url], check=True, timeout=900)
        bill, sizes = provider.bill, [request.tokens for request in provider.requests]
        asides = sum(not request.body.get("tools") for request in provider.requests)
        above = sum(size > BUDGET for size in sizes)
        return DropInRun(
            name, way, bill.calls, asides, bill.tokens, max(sizes), above, bill.cost(), len(provider.refused)
        )


INTRODUCTION = """# Drop-ins in real frameworks

Written by `make dropins`, {where}. An agent of each
framework reads {steps} files of some 900 tokens, one after the other, against the scripted provider. With Foveal the budget is
{budget:,} tokens, and the model also recalls one file and searches once.

- **tokens**, **bill**: of all input, summary requests included, by the scripted provider's count (o200k) and cache (a cached
  token for a tenth, nothing expires), and against the plain run. Output is not billed.
- **asides**: requests that offer no tools, which are those for summaries. **above**: requests above {budget:,} tokens.
- **lines**: of the adapter's file; the code that all of them share is not counted.

The frameworks' own ways have one setting each, which was not tuned. LangChain's middleware acts above {trigger:,} tokens by
its own approximate count, and keeps 8 messages, or 3 results. The provider answers requests for summaries with a few words,
where a real summary has hundreds of tokens, so that its rows are cheaper here than in use. With its default
(`trim_tokens_to_summarize=4000`), SummarizationMiddleware finds nothing to summarise in a run with one request of the user,
and asks no model: the history is then dropped and not summarised. ToolOutputTrimmer of OpenAI Agents spares the results since
the last request of the user, which are all of them here. ContextWindowCompactionStrategy of Agent Framework is told a window
of {budget:,} tokens; its count is approximate, and it changes old messages with each call, which the cache pays for.
pydantic-ai has compaction at the provider alone. **This is a table of prices. It says nothing about what the model can still
know**; for Foveal, that is in [bench](bench.md).

| framework | way | calls | asides | tokens | against plain | bill | against plain | largest | above | invalid | lines |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"""


def _page(runs: Sequence[DropInRun], *, is_apart: bool) -> str:
    where = (
        "each framework in an environment of its own"
        if is_apart
        else "with `--here` or `--python`: in environments that were there"
    )
    lines = [INTRODUCTION.format(where=where, steps=STEPS, budget=BUDGET, trigger=BUDGET - 3_000)]
    plain = {run.name: run for run in runs if run.way == "plain"}
    for run in runs:
        base = plain[run.name]
        source = ROOT / "src" / "foveal" / "integrations" / DROPINS[run.name].file
        written = str(len(source.read_text(encoding="utf-8").splitlines())) if run.way == "foveal" else "–"
        shares = [
            f"{run.tokens:,}",
            f"{run.tokens / base.tokens:.2f}",
            f"{run.bill:,.0f}",
            f"{run.bill / base.bill:.2f}",
        ]
        figures = [run.calls, run.asides, *shares, f"{run.largest:,}", run.above, run.invalid, written]
        lines.append(f"| {' | '.join(map(str, (run.name, run.way, *figures)))} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
