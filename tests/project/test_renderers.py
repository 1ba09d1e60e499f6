"""A tool's own way to show its results to the model."""

from typing import Any

import pytest

import foveal
from foveal import RetentionRule, Session, retain, rules_of
from foveal.project.retention_layers import layers_from
from foveal.session.options import Clock, Host
from foveal.testing.builders import counted_ids
from foveal.values.errors import BadPolicy
from foveal.values.trace import TraceLine

TEXT = "\n".join(f"test_{n} ok" for n in range(400))


def count_lines(text: str) -> str:
    return f"{text.count('ok')} passed"


@retain(renderer=count_lines)
def run_tests() -> str:
    return TEXT


def shown(rules: Any, *, tool: str = "run_tests", **options: Any) -> TraceLine:
    """How a session with these rules shows a result of the tool."""
    renderers = options.pop("renderers", getattr(rules, "renderers", {}))
    session = Session(
        foveal.open_store(),
        "s",
        model="gpt-5",
        host=Host(retention=rules, renderers=renderers),
        clock=Clock(new_id=counted_ids()),
    )
    session.extend([foveal.user("Go."), foveal.assistant("", foveal.ToolCall("c", tool, "{}"))])
    session.append(foveal.result("c", TEXT, **options))
    session.prompt()
    return next(line for line in session.why().lines if line.kind == "tool")


def test_a_function_declares_how_its_results_are_shown() -> None:
    """The rules name the renderer by the tool, and have it with them."""
    rules = rules_of([run_tests])
    assert rules == {"run_tests": RetentionRule(renderer="run_tests")}
    assert rules.renderers == {"run_tests": count_lines}
    line = shown(rules)
    assert (line.shown, line.because) == ("trimmed", "shown by the renderer run_tests")
    assert line.tokens * 20 < line.raw_tokens


def test_functions_without_a_renderer_have_none() -> None:
    """Rules without renderers are what they were."""

    @retain("reference")
    def other() -> str:
        return ""

    assert rules_of([other, len]).renderers == {}


def test_two_tools_with_nameless_renderers_do_not_mix() -> None:
    """Names come from the tools, which have different ones."""

    @retain(renderer=lambda text: "one")
    def first() -> str:
        return ""

    @retain(renderer=lambda text: "two")
    def second() -> str:
        return ""

    rules = rules_of([first, second])
    assert [rules.renderers[rules[name].renderer or ""]("") for name in ("first", "second")] == ["one", "two"]


def test_the_log_keeps_the_name() -> None:
    """What is written down is plain data."""
    layers = foveal.Policy().layers(None, rules_of([run_tests]))
    assert layers_from(layers.canonical()).of("run_tests").renderer == "run_tests"


@pytest.mark.parametrize("rule", [RetentionRule("pin", renderer="r"), RetentionRule(floor="full", renderer="r")])
def test_what_must_stay_whole_is_not_rendered(rule: RetentionRule) -> None:
    """A pin is verbatim, whatever else is said."""
    line = shown({"run_tests": rule}, renderers={"r": count_lines})
    assert line.shown == "full"


def raising(text: str) -> str:
    raise KeyError(text[:6])


@pytest.mark.parametrize(("renderer", "said"), [(raising, "KeyError"), (lambda text: None, "NoneType"), (len, "int")])
def test_a_renderer_that_fails_leaves_the_rest_of_the_rule(renderer: Any, said: str) -> None:
    """The session goes on, and the trace says what happened."""
    line = shown({"run_tests": RetentionRule("reference", renderer="r")}, renderers={"r": renderer})
    assert line.shown == "reference"
    assert said in line.because


def test_a_rendering_that_is_longer_is_not_used() -> None:
    """What is longer than the original helps nobody."""
    assert shown({"run_tests": RetentionRule(renderer="r")}, renderers={"r": lambda text: text * 2}).shown == "full"


def test_a_renderer_that_is_no_function_is_refused() -> None:
    """A name belongs into the policy file, a function into the decorator."""
    with pytest.raises(BadPolicy, match="function from text to text"):
        retain(renderer="count_lines")  # type: ignore[arg-type]
