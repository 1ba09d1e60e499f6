"""The promises of every drop-in as tests: an agent of the real framework, against a scripted provider.

Subclass `AdapterContract` in a test file and say how an agent of your framework is run with your adapter; pytest does the rest:

    class TestMyFramework(AdapterContract):
        modes = ("plain", "async")

        def run(self, agent: ContractAgent, said: str, mode: str) -> str:
            made = my_framework.Agent(tools=[agent.read_file], base_url=agent.url, plugins=[MyAdapter(agent.store, agent.policy)])
            return made.run(said, thread=agent.thread)

The other contracts are for frameworks that can do more: `ChildContract` (sub-agents), `InterruptContract` (a human who edits
and rejects calls), `TimeTravelContract`, and `KillContract` for those that resume after a crash.
"""

import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from foveal.session.policy import Policy
from foveal.stores import open_store
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.testing.provider import Own, RawCall, Read, Refusal, ScriptedProvider, Step
from foveal.text.shorten.reference import as_text
from foveal.values.entry import Entry, Message, Rewind, ToolCall, ToolResult, Usage
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL

BUDGET = 16_000
"""Tokens of every request. A file has about 900, so that the eighteenth makes the first fold."""

STEPS = 60
"""Files that are read. Fewer are enough at a smaller budget: the recall comes after the first fold."""

DONE = "All files are read."
TASK = "Read all files, one after the other."
_KILLS = "kills"
"""The file that numbers the calls in which a process is killed."""

_RECALL_AT, _MIXED_AT = 0.6, 0.8
_OF_THE_RUN = re.compile(r"\.py\b|Step \d")
"""Words that only a session of the run holds."""

_AT_ONCE = {"retry-after-ms": "1", "retry-after": "0"}


def file_text(path: str) -> str:
    """Return the text of a file of the contract: some 900 tokens, of which the last line names it."""
    return "\n".join(f"{path}:{line} value {line * 37 % 101}" for line in range(100)) + f"\n{end_of(path)}"


def end_of(path: str) -> str:
    """Return the last line of a file, which only its own result holds."""
    return f"end of file <{path}>"


def reading_steps(steps: int) -> list[Step]:
    """Return the steps of a model that reads so many files, recalls one, searches while it reads, and meets a busy provider."""
    played = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(steps)]
    mixed = round(steps * _MIXED_AT)
    search = Own(SEARCH_TOOL, {"query": "value"})
    played[mixed] = Step("I search, and read.", do=(search, Read(f"f{mixed}.py")))
    played[2] = Step("Step 2.", do=(Read("f2.py"),), faults=(Refusal(429, "slow down", _AT_ONCE),))
    played.insert(round(steps * _RECALL_AT), Step("I look again.", do=(Own(RECALL_TOOL),)))
    return [*played, Step(DONE)]


@dataclass
class ContractAgent:
    """The facts that a framework's agent is made of."""

    provider: ScriptedProvider
    store: Store
    folder: Path
    """An empty folder, for the framework's own files."""
    thread: str = "contract"
    policy: Policy = field(default_factory=lambda: Policy(max_context_tokens=BUDGET))
    model: str = "gpt-5"
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values that the framework's side keeps between two runs of the same agent."""
    held: ExitStack = field(default_factory=ExitStack)
    """Things that are closed with the agent."""
    reads: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """The files that were read, each with the number of requests before it."""

    @property
    def url(self) -> str:
        """The address of the provider, without `/v1`."""
        return self.provider.url

    def read_file(self, path: str) -> str:
        """Read a file."""
        self.reads.append((path, len(self.provider.requests)))
        return file_text(path)

    def sessions(self) -> list[str]:
        """Return the names of all sessions of the store."""
        return [card.id for card in self.store.cards()]

    def entries(self, *sessions: str) -> Iterator[Entry]:
        """Yield the entries of these sessions, or of all of them."""
        for name in sessions or self.sessions():
            yield from (log.to_entry(row, name) for row in self.store.rows(name))

    def rewinds(self) -> int:
        """Return how often any session went back to an earlier entry."""
        return sum(isinstance(entry.body, Rewind) for entry in self.entries())

    def answered(self) -> list[str]:
        """Return the names of Foveal's own tools that were called and answered with words of the run."""
        parts = [part for entry in self.entries() if isinstance(entry.body, Message) for part in entry.body.parts]
        results = [part for part in parts if isinstance(part, ToolResult) and part.status == "ok"]
        fine = {part.call for part in results if _OF_THE_RUN.search(as_text(part.content))}
        calls = [part for part in parts if isinstance(part, ToolCall) and part.name in (RECALL_TOOL, SEARCH_TOOL)]
        return [call.name for call in calls if call.id in fine]

    def close(self) -> None:
        """End the framework's side and the provider. The store can still be read."""
        self.held.close()
        self.provider.stop()


def check_requests(agent: ContractAgent) -> None:
    """Assert that every request was valid, within the budget, and showed the newest results whole."""
    provider = agent.provider
    _check_sizes(provider, agent.policy.max_context_tokens or BUDGET)
    for path, number in agent.reads:
        raw = provider.requests[number].raw.decode()
        assert end_of(path) in raw.replace("\\u003c", "<").replace("\\u003e", ">"), f"request {number} lacks {path}"


def _check_sizes(provider: ScriptedProvider, budget: int) -> None:
    assert provider.refused == []
    assert max(request.tokens for request in provider.requests) <= budget


def check_log(agent: ContractAgent) -> None:
    """Assert that a long run is one session without a step back, with its recalls answered, each reply kept once, and all usage.

    Without the cached share of the usage, folds would be weighed wrongly.
    """
    assert (len(agent.sessions()), agent.rewinds()) == (1, 0)
    assert agent.answered() == [RECALL_TOOL, SEARCH_TOOL]
    bodies, bill = [entry.body for entry in agent.entries()], agent.provider.bill
    said = [body for body in bodies if isinstance(body, Usage)]
    replies = [body for body in bodies if isinstance(body, Message) and body.role == "assistant"]
    assert (len(replies), len(said)) == (bill.calls, bill.calls)
    assert sum(one.input_tokens for one in said) == bill.tokens
    assert sum(one.cache_read_tokens for one in said) == bill.cached > 0


class AdapterContract:
    """The promises of every adapter."""

    modes: ClassVar[tuple[str, ...]] = ("plain",)
    """The ways in which `run` can run an agent, such as plain, stream, async, async_stream."""
    model = "gpt-5"
    system = ""
    """Words of the agent's system prompt, which every request holds."""
    steps: ClassVar[int] = STEPS
    budget: ClassVar[int] = BUDGET

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        """Say something in the agent's thread, run the agent until it ends, and return its last words."""
        raise NotImplementedError

    def agent(self, folder: Path, *steps: Step) -> ContractAgent:
        """Return a new agent whose model plays these steps."""
        provider = ScriptedProvider()
        provider.start()
        provider.play(*steps)
        policy = Policy(max_context_tokens=self.budget)
        return ContractAgent(provider, MemoryStore(), folder, model=self.model, policy=policy)

    def test_every_request_of_a_long_run_fits(self, tmp_path: Path) -> None:
        """In every mode the agent reads all files: each request is valid and within the budget and shows the newest result,
        recall is offered and answered, alone and beside other calls, and the log has one session, no step back, and all usage."""
        for mode in self.modes:
            agent = self.agent(tmp_path, *reading_steps(self.steps))
            agent.thread = mode
            assert self.run(agent, TASK, mode) == DONE, mode
            assert len(agent.reads) == self.steps, mode
            check_requests(agent)
            check_log(agent)
            raws = [request.raw.decode() for request in agent.provider.requests]
            assert all(self.system in raw for raw in raws), f"a request lacks the system prompt in {mode}"
            assert RECALL_TOOL not in raws[0], f"recall is offered before anything is folded in {mode}"
            agent.close()

    def test_a_second_turn_goes_on_with_the_history(self, tmp_path: Path) -> None:
        """A second turn knows the first one, in the same session and without a step back."""
        steps = [Step("I read.", do=(Read("a.py"),)), Step("Read."), Step("I read.", do=(Read("b.py"),)), Step(DONE)]
        agent = self.agent(tmp_path, *steps)
        assert self.run(agent, "Read a.py.", self.modes[0]) == "Read."
        assert self.run(agent, "Now b.py.", self.modes[0]) == DONE
        check_requests(agent)
        assert end_of("a.py").encode() in agent.provider.last.raw
        assert (len(agent.sessions()), agent.rewinds()) == (1, 0)
        agent.close()


class ChildContract:
    """The promise of adapters for frameworks with sub-agents."""

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        """Run an agent with a tool `delegate(task: str)`, which runs another agent with `agent.read_file` on the task."""
        raise NotImplementedError

    def test_sub_agents_have_windows_of_their_own(self, tmp_path: Path) -> None:
        """A sub-agent's conversation is a session of its own, and neither of the two goes back or knows the other's words."""
        tasks = ("Count the lines of x.py.", "Count the lines of y.py.")
        steps = [Step(f"I ask {task}", do=(RawCall("delegate", {"task": task}),)) for task in tasks]
        agent = _of(self).agent(tmp_path, *steps, Step("I look myself.", do=(Read("a.py"),)), Step(DONE))
        scripts = agent.provider
        for task, path in zip(tasks, ("x.py", "y.py"), strict=True):
            scripts.play(Step("I read.", do=(Read(path),)), Step(f"{path} has 100 lines."), when=task)
        assert self.run_with_child(agent, TASK) == DONE
        check_requests(agent)
        assert (len(agent.sessions()), agent.rewinds()) == (3, 0)
        texts = [b"".join(row.payload for row in agent.store.rows(name)).decode() for name in agent.sessions()]
        assert [sum(end_of(path) in text for text in texts) for path in ("a.py", "x.py", "y.py")] == [1, 1, 1]
        agent.close()


class InterruptContract:
    """The promise of adapters for frameworks in which a human can change calls before they run."""

    def run_with_approval(self, agent: ContractAgent, said: str) -> str:
        """Run an agent that asks before each `read_file`: approve two, have the third read `edited.py`, reject the fourth."""
        raise NotImplementedError

    def test_interrupts_and_edits_need_no_step_back(self, tmp_path: Path) -> None:
        """Calls that a human approves, edits or rejects are followed without a rewind."""
        steps = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(4)]
        agent = _of(self).agent(tmp_path, *steps, Step(DONE))
        assert self.run_with_approval(agent, TASK) == DONE
        assert [path for path, _ in agent.reads] == ["f0.py", "f1.py", "edited.py"]
        check_requests(agent)
        assert (len(agent.sessions()), agent.rewinds()) == (1, 0)
        agent.close()


class TimeTravelContract:
    """The promise of adapters for frameworks that can go back in a thread."""

    def run_again_from_the_middle(self, agent: ContractAgent, said: str) -> str:
        """Run an agent to its end, go back to the state after its second result, and run it to its end again."""
        raise NotImplementedError

    def test_time_travel_is_one_rewind(self, tmp_path: Path) -> None:
        """A thread that goes on from an earlier state is a branch of the same session."""
        steps = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(4)]
        agent = _of(self).agent(tmp_path, *steps, Step(DONE))
        assert self.run_again_from_the_middle(agent, TASK) == DONE
        assert [path for path, _ in agent.reads] == [f"f{number}.py" for number in (0, 1, 2, 3, 2, 3)]
        check_requests(agent)
        assert (len(agent.sessions()), agent.rewinds()) == (1, 1)
        agent.close()


class KillContract:
    """The promise of adapters for frameworks that resume a thread: a killed process loses nothing."""

    program: ClassVar[Path]
    """A program that begins the thread `contract`, or resumes it, with the tool `killing_read_file`, and prints the last words.

    Its arguments are the address of the provider, a folder and the budget. The store is `foveal.db` in the folder.
    """
    steps: ClassVar[int] = STEPS
    budget: ClassVar[int] = BUDGET

    def test_a_process_that_is_killed_twice_goes_on(self, tmp_path: Path) -> None:
        """After kill -9 within two tools, the third process reads the rest, and only the two killed calls ran twice."""
        with ScriptedProvider() as provider:
            provider.play(*reading_steps(self.steps))
            (tmp_path / _KILLS).write_text(f"{self.steps // 3} {self.steps * 2 // 3 + 1}")
            arguments = [sys.executable, str(self.program), provider.url, str(tmp_path), str(self.budget)]
            runs = [
                subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=240)  # noqa: S603
                for _ in range(3)
            ]
            assert [run.returncode for run in runs] == [-signal.SIGKILL, -signal.SIGKILL, 0], runs[-1].stderr
            assert runs[-1].stdout.strip().endswith(DONE)
            with open_store(tmp_path / "foveal.db") as store:
                agent = ContractAgent(provider, store, tmp_path)
                _check_sizes(provider, self.budget)
                assert (len(agent.sessions()), agent.rewinds()) == (1, 0)
                assert agent.answered() == [RECALL_TOOL, SEARCH_TOOL]
            ran = Counter((tmp_path / "effects").read_text().split())
            assert sorted(ran.values()) == [1] * (self.steps - 2) + [2, 2]


def killing_read_file(folder: Path, path: str) -> str:
    """Read a file and note that it was read. The process is killed after a third and two thirds of the files, the first time."""
    effects = folder / "effects"
    with effects.open("a") as out:
        out.write(f"{path}\n")
    ran = Counter(effects.read_text().split())
    if ran[path] == 1 and str(len(ran)) in (folder / _KILLS).read_text().split():
        os.kill(os.getpid(), signal.SIGKILL)
    return file_text(path)


def _of(contract: object) -> AdapterContract:
    assert isinstance(contract, AdapterContract), f"{type(contract).__name__} is a contract beside AdapterContract"
    return contract
