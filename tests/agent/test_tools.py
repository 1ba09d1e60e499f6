"""Tools made of functions: schema, checks before execution, and every way of failing as a result with a status."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, Literal

import msgspec
import pytest

import foveal
from foveal.agent import AskUser, Tool, ToolContext, ToolOutput, tool
from foveal.agent.tool_calls import run_call
from foveal.agent.tools import BadArguments, as_tools
from foveal.values.retention import RetentionRule


class Scope:
    """The run of a call, as far as tools use it."""

    session, run = "s", "s#1"
    todos: Sequence[Mapping[str, Any]] = ()

    def __init__(self) -> None:
        self.store = foveal.open_store()
        self.told: list[tuple[str, str]] = []

    def report(self, call, text):
        self.told.append((call, text))


def outcome(made: Tool, arguments: str, scope: Scope | None = None) -> Any:
    """The result of one call: status, first text, and the value for the program."""
    ctx = ToolContext(scope or Scope(), key="k1", call="c1", tool=made.name)
    ended = asyncio.run(run_call(made, foveal.ToolCall("c1", made.name, arguments), ctx))
    part: Any = ended.message.parts[0]
    first = part.content[0]
    return part.status, first.text if isinstance(first, foveal.Text) else first, ended.data


@tool(retain="summary")
def look(path: Annotated[str, msgspec.Meta(description="where")], limit: int = 3, mode: Literal["a", "b"] = "a") -> str:
    """Look at a file."""
    return f"{path}:{limit}:{mode}"


def test_the_schema_follows_from_the_signature():
    """Names, types, defaults, descriptions and required parameters are those of the function."""
    function = look.definition["function"]
    assert function["description"] == "Look at a file."
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "limit": {"type": "integer", "default": 3},
            "mode": {"enum": ["a", "b"], "default": "a"},
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert look.definition["retention"] == RetentionRule(mode="summary")


def test_the_context_is_no_argument_of_the_model():
    """A parameter of type `ToolContext` is filled in, with the key of the call, and is not in the schema."""

    @tool
    async def keyed(ctx: ToolContext, n: int) -> str:
        ctx.progress("half")
        return f"{ctx.key} {n}"

    scope = Scope()
    assert list(keyed.parameters["properties"]) == ["n"]
    assert outcome(keyed, '{"n": 1}', scope)[:2] == ("ok", "k1 1")
    assert scope.told == [("c1", "half")]


@pytest.mark.parametrize("arguments", ['{"path": 1}', '{"pat": "x"}', "{", "[]", '{"path": "a", "mode": "c"}'])
def test_arguments_are_checked_before_the_tool_runs(arguments):
    """Arguments that do not match the schema are answered with the reason and the schema; the function is not called."""
    ran = []

    @tool
    def seen(path: str, mode: Literal["a", "b"] = "a") -> str:
        ran.append(path)
        return path

    status, text, _ = outcome(seen, arguments)
    assert (status, ran) == ("error", [])
    assert text.startswith("seen was not run: ")
    assert '"required":["path"]' in text


def test_numbers_in_quotes_are_taken():
    """Models write numbers as texts now and then; that is no reason to ask again."""
    assert outcome(look, '{"path": "a", "limit": "7"}')[1] == "a:7:a"


def test_an_exception_is_a_result_with_the_status_error():
    """Whatever a tool raises reaches the model as an error, never as a success, and without keys."""

    @tool
    def broken() -> str:
        raise OSError("no route for sk-abcdefghijklmnop")

    assert outcome(broken, "{}")[:2] == ("error", "OSError: no route for ***")


def test_a_tool_that_hangs_is_given_up():
    """After its time, a call has a result, also of a function in a thread that never returns."""
    release = threading.Event()

    @tool(timeout_s=0.01)
    def hang() -> str:
        release.wait()
        return "late"

    impatient = msgspec.structs.replace(hang, grace_s=0.01)
    assert outcome(impatient, "{}")[:2] == ("error", "[hang was given up after 0.01 s]")
    release.set()


def test_a_value_that_is_no_text_is_shown_as_json():
    """The model reads JSON, and the program gets the value."""

    @tool
    def table() -> object:
        return {"rows": [1, 2]}

    assert outcome(table, "{}") == ("ok", '{"rows":[1,2]}', {"rows": [1, 2]})


def test_an_output_says_more_than_a_text():
    """Status, summary and the value for the program come with a `ToolOutput`."""

    @tool
    def half() -> ToolOutput:
        return ToolOutput("half of it", "interrupted", "halves", data=7)

    ctx = ToolContext(Scope(), key="k", call="c1", tool="half")
    ended = asyncio.run(run_call(half, foveal.ToolCall("c1", "half", ""), ctx))
    part: Any = ended.message.parts[0]
    assert (part.status, part.summary, ended.data) == ("interrupted", "halves", 7)


def test_the_pieces_of_a_generator_become_an_artifact():
    """An output of any length is kept piece by piece, and never as a whole in memory."""

    @tool
    def rows():
        for n in range(3):
            yield f"row {n}\n"

    status, stored, _ = outcome(rows, "{}")
    assert status == "ok"
    assert (stored.size_bytes, stored.head) == (18, "row 0\nrow 1\nrow 2\n")


def test_a_question_to_the_user_is_no_error():
    """`AskUser` passes through: the run waits for the answer."""

    @tool
    def ask() -> str:
        raise AskUser("really?")

    with pytest.raises(AskUser):
        outcome(ask, "{}")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retry": "maybe"}, "'again' or 'never'"),
        ({"timeout_s": 0}, "above 0"),
        ({"name": "a b"}, "cannot name a tool"),
    ],
)
def test_bad_options_are_errors(options, words):
    """A wrong option is told when the tool is made."""
    with pytest.raises(foveal.BadInput, match=words):
        tool(**options)(lambda: "x")


def test_a_tool_takes_named_arguments_only():
    """Arguments without names cannot be described to a model."""

    def many(*paths: str) -> str:
        return "x"

    with pytest.raises(foveal.BadInput, match="has a name of its own"):
        tool(many)


def test_a_type_that_nobody_knows_is_told():
    """When the tool is made, with its name."""

    def odd(a: "Nowhere") -> str:  # noqa: F821 # pyright: ignore
        return "x"

    with pytest.raises(foveal.BadInput, match="name 'Nowhere' is not defined"):
        tool(odd)


def test_two_tools_of_one_name_are_an_error():
    """A name is offered once."""
    with pytest.raises(foveal.BadInput, match="two tools are named 'look'"):
        as_tools([look, look])


def test_plain_functions_become_tools():
    """An agent takes functions as they are; `@foveal.retain` on them holds."""

    @foveal.retain("reference")
    def plain(a: int) -> str:
        """Say."""
        return str(a)

    made = as_tools([plain])["plain"]
    assert made.retain == RetentionRule(mode="reference")
    with pytest.raises(BadArguments):
        made.check("{}")


def test_a_plain_function_around_an_asynchronous_one_is_awaited():
    """A decorator that knows nothing of asyncio returns a coroutine: the tool runs, and its result is that of the coroutine."""

    def traced(function: Any) -> Any:
        @wraps(function)
        def inner(**given: Any) -> Any:
            return function(**given)

        return inner

    @tool
    @traced
    async def pay(n: int) -> str:
        return f"paid {n}"

    assert outcome(pay, '{"n": 3}')[:2] == ("ok", "paid 3")


def test_the_pieces_of_an_asynchronous_generator_become_an_artifact():
    """They are kept in their order, also those that do not fit into memory, as the pieces of a plain generator are."""

    @tool
    async def rows():
        yield "a" * (1 << 20)
        yield b"b"
        yield "c"

    scope = Scope()
    status, stored, _ = outcome(rows, "{}", scope)
    assert (status, stored.size_bytes) == ("ok", (1 << 20) + 2)
    assert b"".join(scope.store.artifacts.read(stored.sha256))[-3:] == b"abc"


def test_an_asynchronous_generator_that_fails_is_an_error():
    """What it has given before is no result."""

    @tool
    async def rows():
        yield "a"
        raise OSError("cut off")

    assert outcome(rows, "{}")[:2] == ("error", "OSError: cut off")


@pytest.mark.parametrize("made", [list, tuple])
def test_content_parts_are_shown_as_they_are(made):
    """An image is an image, and not its bytes as a text; a list of texts is a value like others."""
    image = foveal.Image("image/png", b"\x89PNG")

    @tool
    def screenshot() -> object:
        """Screenshot."""
        return made(("two windows", image, foveal.Text("and a dialogue")))

    @tool
    def names() -> object:
        """Names."""
        return made(("a", "b"))

    ctx = ToolContext(Scope(), key="k1", call="c1", tool="screenshot")
    part: Any = asyncio.run(run_call(screenshot, foveal.ToolCall("c1", "screenshot", ""), ctx)).message.parts[0]
    assert part.content == (foveal.Text("two windows"), image, foveal.Text("and a dialogue"))
    assert outcome(names, "")[1] == '["a","b"]'
