"""Sessions to look at, and a browser to look with."""

import pytest

from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.session.policy import BudgetTable, Policy
from foveal.values.entry import Message, Text, ToolCall, assistant, result, system, user
from foveal.viewer.builder import RunOptions, recorded_page
from foveal.viewer.page import page

from .chromium import chromium, find_chromium


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium")
    with chromium(path, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


def recording(*messages, name="made"):
    return Recording(name, "test:1", None, "[]", tuple(RecordedStep(message) for message in messages))


def run_options(limit, name=None):
    return RunOptions(name or f"{limit:,} tokens", Policy(budget=BudgetTable(limit=limit, reserve=0)))


def looking(calls=24, size=120):
    """A session of an agent that reads one file a call."""
    yield system("Be brief.")
    yield user("Look at everything.")
    for i in range(calls):
        yield assistant("", ToolCall(f"c{i}", "read_file", f'{{"path": "file_{i}.py"}}'))
        yield result(f"c{i}", "\n".join(f"line {n} of file {i}" for n in range(size)))
    yield assistant("That was all.")


HOSTILE = '<img src=x onerror="window.hurt=1"></script><script>window.hurt=2</script>{{data}}\u202egnp.exe'


def attacking():
    """A session whose every text attacks the page: tags, scripts, directions, a line of 5 MB and 10 000 parts."""
    yield system(HOSTILE)
    yield user(HOSTILE)
    yield assistant(HOSTILE, ToolCall(f"c{HOSTILE}", f"tool{HOSTILE}", f'{{"path": "{"</script>" * 3}"}}'))
    yield result(f"c{HOSTILE}", "x" * 5_000_000)
    yield Message("user", tuple(Text(f"{i} {HOSTILE}") for i in range(10_000)))
    yield assistant("Done.")
    yield user("half a character: \ud83d and \x1b[31m")
    yield assistant("Done again.")


@pytest.fixture(scope="session")
def folded():
    """A page's data of a session that was folded several times, under two budgets."""
    return recorded_page(recording(*looking()), [run_options(4_000), run_options(9_000)])


@pytest.fixture(scope="session")
def address(folded, tmp_path_factory):
    """The page of that session, as a file."""
    path = tmp_path_factory.mktemp("page") / "folded.html"
    path.write_bytes(page([folded]))
    return path.as_uri()
