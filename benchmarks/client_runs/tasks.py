"""The tasks: a small repository with a fault in it, and the steps that the scripted model takes, for whatever tools there are."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from foveal.testing.provider import Delegate, Edit, Own, Read, Refusal, Shell, Step, TooLong, Turn
from foveal.testing.provider.script import Operation, StepFault

DONE = "That was the last step of the task."
"""Last words of every script: a client that shows them has played all of it."""

FIRST_PART = "That was the first part of the task."

PARTS = 100
_THINKS = (
    "The next step follows from the last one."  # Anthropic wants a thought before each call of a model that thinks
)
_FAULT_AT = 4


@dataclass(frozen=True)
class ClientTask:
    """A task: the user's words, the steps of the model, and how it is run."""

    name: str
    prompt: str
    steps: tuple[Step, ...]
    agents: tuple[tuple[str, tuple[Step, ...]], ...] = ()
    """Words that each sub-agent's task holds, and its steps."""
    resumed: str = ""
    """The user's words for a second run, which goes on with the session."""
    kill_at: int | None = None
    """The step while which the gateway is killed, and started again."""
    is_long: bool = False
    mends: bool = False
    """Whether the fault in the repository must be mended at the end."""
    lenient: tuple[str, ...] = ()
    """The clients whose requests break a rule of their provider without our doing."""
    clients: tuple[str, ...] = ()
    """The clients that can do it; all, if empty."""


def make_workspace(folder: Path) -> None:
    """Make a repository with files of some thousand tokens in all, and one test that fails."""
    for below in ("app", "tests", "logs"):
        (folder / below).mkdir(parents=True)
    for name, size in (("orders", 25), ("pricing", 25), ("stock", 20), ("mail", 15), ("invoices", 30)):
        (folder / "app" / f"{name}.py").write_text(_module(name, size) + (_PRICES if name == "pricing" else ""))
    for number in range(PARTS):
        (folder / "app" / f"part_{number:03d}.py").write_text(_module(f"part{number:03d}", 11))
    for number in range(8):
        (folder / "app" / f"large_{number}.py").write_text(_module(f"large{number}", 45))
    (folder / "app" / "__init__.py").write_text("")
    (folder / "README.md").write_text("# Shop\n\nOrders, prices and stock. The tests: `python3 tests/run.py`.\n")
    (folder / "tests" / "run.py").write_text(_TESTS)
    lines = (
        f"09:{i // 60 % 60:02d}:{i % 60:02d} worker-{i % 4} /orders/{i * 37 % 9_999} {500 if i % 97 == 0 else 200}"
        for i in range(120)
    )
    (folder / "logs" / "server.log").write_text("\n".join(lines) + "\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t.example"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "The shop"]):
        subprocess.run([*git, *words], check=True)


def is_mended(folder: Path) -> bool:
    """Return whether the edit of the task was really made."""
    return "return price * (1 - DISCOUNTS[tier])" in (folder / "app" / "pricing.py").read_text()


def _module(name: str, size: int) -> str:
    parts = [f'"""{name}: a part of the shop."""\n\nimport math\n']
    for i in range(size):
        limit = 1_000 + i * 17
        parts.append(
            f'\n\ndef {name}_step_{i}(value, rate={i}.5):\n    """Apply rule {name[:2].upper()}-{i:03d} of {name}."""\n'
            f"    total = value * rate + {i * 7 % 13}\n    if total > {limit}:\n"
            f'        raise ValueError("{name}: {limit} exceeded in step {i}")\n    return math.floor(total)\n'
        )
    return "".join(parts)


_PRICES = """

DISCOUNTS = {"gold": 0.2, "silver": 0.1, "bronze": 0.05}


def discounted(price, tier):
    return price * DISCOUNTS[tier]
"""
_TESTS = """import sys

sys.path.insert(0, ".")
from app.pricing import discounted

for number in range(60):
    print(f"test_case_{number:03d} ... ok")
is_right = discounted(100, "gold") == 80
print("test_discounted ...", "ok" if is_right else f"FAILED: expected 80, got {discounted(100, 'gold')}")
sys.exit(not is_right)
"""


def _steps(each: Iterable[tuple[Operation, ...]], last: str = DONE) -> tuple[Step, ...]:
    done = tuple(Step(f"Step {number}.", _THINKS, one) for number, one in enumerate(each, 1))
    return (*done, Step(last, _THINKS))


def _parts(numbers: Iterable[int]) -> list[tuple[Operation, ...]]:
    return [(Read(f"app/part_{number:03d}.py"),) for number in numbers]


_SHORT = ClientTask(
    "15 calls",
    "The gold discount is computed wrongly. Find out why, mend it, and run the tests.",
    _steps(
        (
            (Read("README.md"),),
            (Shell("ls app tests logs | head -20"),),
            (Read("app/pricing.py"),),
            (Read("app/orders.py"),),
            (Read("app/stock.py"),),
            (Shell("grep -rn DISCOUNTS app"),),
            (Read("app/invoices.py"),),
            (Shell("cat logs/server.log"),),
            (Shell("python3 tests/run.py"),),
            (Own(),),
            (Edit("app/pricing.py", "    return price * DISCOUNTS[tier]", "    return price * (1 - DISCOUNTS[tier])"),),
            (Shell("python3 tests/run.py"),),
            (Read("app/mail.py"),),
            (Own(), Shell("git status --short")),
            (Shell("git diff"),),
        )
    ),
    mends=True,
)

_LONG = ClientTask(
    "100 calls",
    "Read all the parts of the shop, one after the other, and say when you are done.",
    _steps([(Own(),) if number % 20 == 19 else _parts([number])[0] for number in range(PARTS)]),
    is_long=True,
)

_AGENTS = ClientTask(
    "sub-agents",
    "Have the two halves of the shop counted by two agents, at the same time.",
    (
        Step(
            "Two agents.",
            _THINKS,
            (Delegate("Count the rules of the first half."), Delegate("Count the rules of the second half.")),
        ),
        # Codex goes on at once; all others wait for their agents.
        Step("I look around.", _THINKS, (Shell("sleep 4; ls app | head -30"),)),
        *_steps(_parts(range(60, 66))),
    ),
    agents=(
        ("Count the rules of the first half.", _steps(_parts(range(14)), "The first half has 154 rules.")),
        ("Count the rules of the second half.", _steps(_parts(range(20, 34)), "The second half has 154 rules.")),
    ),
    clients=("claude", "codex", "opencode", "gemini"),
)

_RESUMED = ClientTask(
    "resumed",
    "Read the first ten parts of the shop.",
    (*_steps(_parts(range(10)), FIRST_PART), *_steps(_parts(range(10, 20)))),
    resumed="Go on with the next ten.",
    lenient=("gemini",),  # 0.61 tells each result twice after a resume
)

_KILLED = tuple(
    ClientTask(
        name,
        "Read the large parts of the shop.",
        tuple(
            replace(step, faults=(fault,)) if number == _FAULT_AT else step
            for number, step in enumerate(_steps([(Read(f"app/large_{i}.py"),) for i in range(8)]))
        ),
        kill_at=_FAULT_AT,
    )
    for name, fault in (
        ("killed while waiting", Turn(delay_s=30.0)),
        ("killed in a stream", Turn(stall_after=5)),
    )
)


def _faulty(name: str, *faults: StepFault, clients: tuple[str, ...] = ()) -> ClientTask:
    steps = [
        replace(step, faults=faults) if number == _FAULT_AT else step
        for number, step in enumerate(_steps([(Read(f"app/large_{i}.py"),) for i in range(6)]))
    ]
    return ClientTask(name, "Read the large parts of the shop.", tuple(steps), clients=clients)


_LIMITED = Refusal(429, "slow down", {"retry-after": "2"})
_OVERLOADED = Refusal(529, "Overloaded")

_FAULTS = (
    _faulty("429, retry-after", _LIMITED, _LIMITED),
    _faulty("500", Refusal(500, "Internal"), Refusal(500, "Internal")),
    _faulty("529", _OVERLOADED, _OVERLOADED),
    _faulty("other 400", Refusal(400, "something odd")),
    _faulty("overflow", TooLong(200_000)),
    _faulty("413", Refusal(413, "Request exceeds the maximum size")),
    _faulty("failed: overflow", Turn(fails=TooLong(272_000)), clients=("codex",)),
    _faulty("failed: overloaded", Turn(fails=_OVERLOADED)),
    _faulty("cut stream", Turn(cut_after=4)),
    _faulty("12 s of silence", Turn(stall_after=2, stall_s=12.0)),
    _faulty("12 s of pings", Turn(stall_after=2, stall_s=12.0, ping_s=3.0)),
)

TASKS: dict[str, ClientTask] = {one.name: one for one in (_SHORT, _LONG, _AGENTS, _RESUMED, *_KILLED, *_FAULTS)}
"""All tasks by their names."""

FAULTS = frozenset(one.name for one in _FAULTS)
