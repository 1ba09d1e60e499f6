"""The injector: one session's side context, from nothing to fences, tools and news."""

import pytest

from foveal import BadInput, Session, user
from foveal.context.environment import Environment
from foveal.context.injection import NOTHING, NextCall
from foveal.context.injector import Injector
from foveal.context.instructions import Instructions
from foveal.context.options import ContextOptions
from foveal.context.toolbox import SEARCH, toolbox
from foveal.session.options import Host
from foveal.stores.memory import MemoryStore
from foveal.values.entry import Fence

PLOT = {"name": "plot", "description": "Draw a chart.", "parameters": {"type": "object", "properties": {}}}


def injector(options=ContextOptions(), environment=None, *, allowed=None):  # noqa: B008 - a frozen value
    return Injector(options, environment, len, allowed=allowed, began_ms=lambda: 0)


def session(**options):
    opened = Session(MemoryStore(), "s", model="gpt-5", host=Host(**options))
    opened.append(user("Use @plot."))
    return opened


def test_without_options_and_environment_there_is_nothing():
    """The tools are the host's very list, no fence is due, and the injection is empty."""
    plain, view, tools = injector(), session().view, [PLOT]
    assert plain.tools(tools, 1_000) is tools
    assert list(plain.due_marks(view)) == []
    assert plain.injection(view, session().compaction.pressure(), NextCall(), offered=frozenset()) is NOTHING


def test_mentions_are_known_without_following_the_session():
    """A session without an environment still tells which names its newest request mentions, all of them unknown."""
    assert [unknown.written for unknown in injector().mentioned(session().view).unknown] == ["@plot"]


def test_texts_of_sources_become_fences_once(tmp_path):
    """Instructions are due in the first prompt, and again only when they have changed."""
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    opened = session(environment=Environment(instructions=Instructions.load(tmp_path)))
    opened.prompt()
    assert [fence.kind for fence in opened.view.facts.fences] == ["instructions"]
    given = Environment(instructions=Instructions.load(tmp_path))
    assert list(injector(environment=given).due_marks(opened.view)) == []
    (tmp_path / "AGENTS.md").write_text("Be brief. Be kind.")
    (due,) = injector(environment=given).due_marks(opened.view)
    assert isinstance(due, Fence)
    assert due.text == "Instructions from AGENTS.md:\n\nBe brief. Be kind."


def test_a_child_is_offered_the_tools_it_may_use():
    """Of a toolbox it gets the tools that are allowed, and the search for more."""
    box = Environment(toolbox=toolbox([PLOT], on_demand=[PLOT | {"name": "mail"}]))
    names = [tool["function"]["name"] for tool in injector(environment=box, allowed=frozenset()).tools([], 10_000)]
    assert names == [SEARCH]


def test_a_reminder_needs_the_policy_to_read_it():
    """Reminders that are off say so, instead of keeping a text that no prompt shows."""
    with pytest.raises(BadInput, match="reminders are off"):
        session().context.remind("Hurry.")
