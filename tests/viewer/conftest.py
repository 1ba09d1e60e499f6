"""Sessions to look at, and a browser to look with."""

import pytest

from foveal.analysis.chart import Mark, ScatterChart
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.session.policy import BudgetTable, Policy
from foveal.values.entry import Message, Text, ToolCall, assistant, result, system, user
from foveal.viewer.builder import RunOptions, recorded_page
from foveal.viewer.document import PageReport, PageTable, overview_row
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


class MadeSource:
    """A source whose page is made by a function, or replayed with the options from messages; its row is that of the page."""

    def __init__(self, make, messages=None):
        self._make, self._messages = make, messages

    def page(self, options=None):
        if self._messages is None:
            return self._make()
        return recorded_page(recording(*self._messages()), [options or run_options(60_000)])

    def row(self, options=None):
        return overview_row(self.page(options))


def measured():
    """The results of a measurement: two policies on a chart, and their figures."""
    marks = (
        Mark(0.4, 0.9, "own", "foveal", is_ringed=True, y_whisker=(0.85, 0.95)),
        Mark(0.6, 0.7, "other", HOSTILE),
        Mark(1.9, 0.8, "best", "far", is_hollow=True),
    )
    chart = ScatterChart("at 8,000 tokens", "cost", "grounding", marks, ((0, 1),), most_x=1.2)
    table = PageTable("All of them", ("policy", "cost"), (("foveal", "0.4"), (HOSTILE, "0.6"), ("far", "1.9")))
    return PageReport("Measured", ("Keep the default.",), (chart,), (table,))


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
