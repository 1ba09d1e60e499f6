"""Tools of an agent: a function, the schema of its arguments, and the way in which it is run.

    @tool(retain="summary", retry="never", timeout_s=30)
    async def deploy(ctx: ToolContext, target: str, dry: bool = True) -> str:
        '''Deploy the service to a target.'''

The schema follows from the signature; a parameter of type `ToolContext` is not part of it. Arguments are checked against
it before the function is called. `Annotated[str, msgspec.Meta(description="…", max_length=40)]` says more about a parameter.
"""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_type_hints, overload

import msgspec

from foveal.context.tool_retention import rules_of
from foveal.project.retention_layers import rule_from
from foveal.stores.large_results import keep_stream
from foveal.stores.port import Store
from foveal.text.tool_names import is_usable
from foveal.values.entry import File, Image, Status, Stored, Text
from foveal.values.errors import BadInput
from foveal.values.retention import Mode, RetentionRule
from foveal.writers.faults import describe

T = TypeVar("T")

Retry: TypeAlias = Literal["again", "never"]
"""After a crash in the middle of a call: run it again with the same key, or tell the model that it was interrupted."""

CacheScope: TypeAlias = Literal["turn", "session"]
"""The same call again, with the same arguments, gets the result of the first: until the user speaks again, or for good."""

TIMEOUT_S = 120.0
"""Seconds that a tool may take unless it says otherwise: the longest that a person was seen to wait without asking."""

GRACE_S = 2.0
"""Seconds that a tool has to end after it was given up: enough to close connections and to remove temporary files, and not so
long that a person who cancels a run says it again."""

_MOST_SCHEMA_CHARS = 600


class BadArguments(Exception):
    """Arguments of a call that its tool cannot take. The model is told why, and may call again."""


APPROVAL = ":approval"
"""End of the id of a question whether a call may be made."""


_AGAIN = "?"


def question_id(asker: str, times: int) -> str:
    """Return the id of the next question of a call that has asked so many times, on any branch of the conversation."""
    return f"{asker}{_AGAIN}{times + 1}" if times else asker


def asker_of(question: str) -> str:
    """Return the key in the id of a question, without how often it was asked. A key ends with `.` and the place of its call."""
    asker, mark, times = question.rpartition(_AGAIN)
    return asker if mark and times.isdecimal() else question


class UserQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to the user that a run waits for: an approval of a call, or a question of a tool."""

    id: str
    """Key of the call that asks, or of the call that is to be approved, with `APPROVAL`; and how often that has asked, from the
    second time on: an answer to the first question is none to the second."""
    kind: Literal["approval", "question"]
    text: str
    options: tuple[str, ...] = ()
    tool: str = ""
    arguments: str = ""
    run: str = ""
    """The run that asks: the one that is asked, or a sub-agent's below it."""
    inner: str = ""
    """Id of the question in a sub-agent's run, if it is asked for one."""
    until_ms: int | None = None
    """Time at which the question is answered without the user; None for one that waits for ever."""
    otherwise: str | None = None
    """The answer that a tool's question then gets; an approval is denied, and so is a question without one."""


class UserAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The user's answer to a question: a text, or a decision about a call."""

    text: str = ""
    decision: Literal["", "allow", "deny", "edit", "always"] = ""
    arguments: dict[str, Any] | None = None
    """Arguments in place of the model's, for `edit`."""
    question: str = ""
    """Id of the question; empty for the only one that is open."""
    source: Literal["user", "timeout", "sub_agent"] = "user"
    """Whether somebody gave it, nobody did in time, or it was given in the run of the sub-agent that asks."""


def plain_text(text: T) -> T:
    """Return a text of a class of its own, which no log can keep, as a plain one; any other value as it is."""
    return cast("T", str.__str__(text)) if isinstance(text, str) else text


class AskUser(Exception):
    """Raised by a tool that needs an answer. The run waits for it, for days if need be, and the tool is then called again.

    The options are suggestions: any text may be the answer. After `timeout_s`, by default that of the agent's limits, the tool
    gets the answer `otherwise`, or a denial.
    """

    def __init__(
        self,
        text: str,
        options: Iterable[str] = (),
        question: UserQuestion | None = None,
        *,
        timeout_s: float | None = None,
        otherwise: str | None = None,
    ) -> None:
        super().__init__(text)
        self.text, self.options, self.question = plain_text(text), tuple(map(plain_text, options)), question
        self.timeout_s, self.otherwise = timeout_s, plain_text(otherwise)


class ToolOutput(msgspec.Struct, frozen=True):
    """The result of a tool that says more than a text."""

    content: str | tuple[str | Text | Image | File | Stored, ...]
    """The observation that the model is shown."""
    status: Status = "ok"
    summary: str = ""
    """One line about the result, shown with its reference when it is folded."""
    retain: RetentionRule | None = None
    """Retention of this one result, above the tool's own."""
    data: Any = None
    """A value for the program, in the event `ToolReturned`. No model sees it, and no log keeps it."""


class CallScope(Protocol):
    """The part of a run that its tools may use."""

    @property
    def store(self) -> Store: ...

    @property
    def session(self) -> str: ...

    @property
    def run(self) -> str: ...

    @property
    def todos(self) -> Sequence[Mapping[str, Any]]: ...

    def report(self, call: str, text: str) -> None:
        """Tell the listeners of the run how far a call is."""
        ...


class ToolContext:
    """One call of a tool, as the tool sees it."""

    def __init__(self, scope: CallScope, *, key: str, call: str, tool: str, answer: UserAnswer | None = None) -> None:
        self._scope = scope
        self.key = key
        """The same whenever this call is run again: a tool that takes it as an idempotency key has its effect once."""
        self.call, self.tool = call, tool
        self.answer = answer
        """The user's answer, after the tool raised `AskUser`."""
        self.session, self.run = scope.session, scope.run
        self.has_begun = False
        """Whether the tool was called; for whoever runs it."""
        self.is_left = False
        """Whether the time is over that the tool has had to end after it was given up; for whoever runs it."""
        self._is_given_up = False

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled or paused, or the time of the call is up: a function in a thread looks here and returns,
        within the time of grace (`GRACE_S`) if its result is to be kept."""
        return self._is_given_up

    def give_up(self) -> None:
        """Tell the tool that nobody waits for this call any more; for whoever runs the tool."""
        self._is_given_up = True

    @property
    def todos(self) -> Sequence[Mapping[str, Any]]:
        """The todos that the model has written last in this session."""
        return self._scope.todos

    def progress(self, text: str) -> None:
        """Tell the listeners of the run how far the call is. From any thread."""
        self._scope.report(self.call, text)

    def keep(self, chunks: Iterable[bytes]) -> Stored:
        """Keep an output of any length as an artifact, a chunk at a time; return it as the tool's result."""
        return keep_stream(self._scope.store, chunks)


Invoke: TypeAlias = Callable[[Mapping[str, Any], ToolContext], Awaitable[object]]
"""Runs a tool with arguments that were checked."""

CheckArguments: TypeAlias = Callable[[str], Mapping[str, Any]]
"""Returns the arguments of a JSON text. Raises `BadArguments` with the reason if they do not match the schema."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that an agent may call. `@tool` makes one of a function; other sources of tools fill in the fields."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments."""
    check: CheckArguments
    invoke: Invoke
    retain: RetentionRule | None = None
    retry: Retry = "again"
    timeout_s: float | None = TIMEOUT_S
    """None for a call that may take as long as it likes."""
    grace_s: float | None = GRACE_S
    """Seconds for which a call that was given up is waited for; then it is left behind. None: until it ends."""
    is_serial: bool = False
    """Whether calls of this tool wait for those before them in the reply, and those after wait for them."""
    may_repeat: bool = False
    """Whether the same call again and again is no sign of a loop: a tool that polls."""
    is_guarded: bool = False
    """Whether a person must allow each call, unless a rule of the agent says otherwise."""
    cache: CacheScope | None = None
    """Scope in which the same call again is not run, and gets the result of the first one that succeeded."""
    raises: tuple[type[Exception], ...] = ()
    """Errors that are no result: the run fails with them, and runs the call again when it is resumed."""

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as `Session.prompt` takes it."""
        function = {"name": self.name, "description": self.description, "parameters": self.parameters}
        kept = {"retention": self.retain} if self.retain is not None else {}
        return {"type": "function", "function": function, **kept}


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    *,
    name: str = ...,
    retain: RetentionRule | Mapping[str, Any] | Mode | None = ...,
    retry: Retry = ...,
    timeout_s: float | None = ...,
    serial: bool = ...,
    may_repeat: bool = ...,
    guarded: bool = ...,
    cache: CacheScope | None = ...,
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str = "",
    retain: RetentionRule | Mapping[str, Any] | Mode | None = None,
    retry: Retry = "again",
    timeout_s: float | None = TIMEOUT_S,
    serial: bool = False,
    may_repeat: bool = False,
    guarded: bool = False,
    cache: CacheScope | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a tool of a function, plain or asynchronous. Its docstring is the description that the model reads."""
    if retry not in ("again", "never"):
        raise BadInput(f"retry is {retry!r}; it is 'again' or 'never'")
    if cache not in (None, "turn", "session"):
        raise BadInput(f"cache is {cache!r}; it is 'turn', 'session' or None")
    if timeout_s is not None and not timeout_s > 0:
        raise BadInput(f"timeout_s is {timeout_s!r}; it is a number of seconds above 0, or None for no end")

    def make(function: Callable[..., object]) -> Tool:
        called = name or function.__name__
        if not is_usable(called):
            raise BadInput(f"{called!r} cannot name a tool: letters, digits, '_' and '-', 64 at the most")
        arguments, context_name = _arguments_of(function, called)
        is_async = inspect.iscoroutinefunction(function)

        async def invoke(given: Mapping[str, Any], ctx: ToolContext) -> object:
            named = {**given, context_name: ctx} if context_name else dict(given)
            if is_async:
                return await cast("Callable[..., Awaitable[object]]", function)(**named)
            return await in_thread(partial(function, **named), is_waited_for=True)

        return Tool(
            name=called,
            description=inspect.getdoc(function) or "",
            parameters=_schema_of(arguments),
            check=_checker(arguments, called),
            invoke=invoke,
            retain=_rule(retain, called) or rules_of([function]).get(function.__name__),
            retry=retry,
            timeout_s=timeout_s,
            is_serial=serial,
            may_repeat=may_repeat,
            is_guarded=guarded,
            cache=cache,
        )

    return make if function is None else make(function)


def as_tools(given: Iterable["Tool | Callable[..., object]"]) -> Mapping[str, Tool]:
    """Return tools by name; plain functions become tools. `BadInput` for two of one name."""
    found: dict[str, Tool] = {}
    for one in given:
        made = one if isinstance(one, Tool) else tool(one)
        if made.name in found:
            raise BadInput(f"two tools are named {made.name!r}; give one of them another name: @tool(name=…)")
        found[made.name] = made
    return MappingProxyType(found)


async def in_thread(work: Callable[[], T], *, is_waited_for: bool = False) -> T:
    """Run a plain function in a thread of its own, which a caller that is cancelled leaves behind: at once, or, if it
    `is_waited_for`, when it is cancelled a second time.

    No pool: a function that hangs would hold a place of it for ever, and the interpreter would wait for it at its end.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not done.done():
            set_outcome(outcome)

    def run() -> None:
        try:
            told = partial(settle, done.set_result, work())
        except BaseException as error:
            # A future cannot hold StopIteration, and an event loop ends with SystemExit and KeyboardInterrupt.
            is_usual = isinstance(error, Exception) and not isinstance(error, StopIteration)
            raised = error if is_usual else RuntimeError(f"the tool raised {describe(error)}")
            told = partial(settle, done.set_exception, raised)
        with suppress(RuntimeError):  # nobody waits any more: the loop is closed
            loop.call_soon_threadsafe(told)

    threading.Thread(target=copy_context().run, args=(run,), name="foveal-tool", daemon=True).start()
    if is_waited_for:
        with suppress(asyncio.CancelledError):
            await asyncio.wait((done,))
    return await done


def _rule(said: RetentionRule | Mapping[str, Any] | str | None, name: str) -> RetentionRule | None:
    if said is None or isinstance(said, RetentionRule):
        return said
    return rule_from({"mode": said} if isinstance(said, str) else said, f"the retention of the tool {name!r}")


def _arguments_of(function: Callable[..., object], name: str) -> tuple[type[msgspec.Struct], str]:
    """Return the arguments of a function as a struct, and the name of the parameter that takes the context."""
    try:
        hints, context_name = get_type_hints(function, include_extras=True), ""
    except NameError as error:
        raise BadInput(
            f"the tool {name!r}: {error}; the types of a tool's parameters are names of its module"
        ) from None
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadInput(f"the tool {name!r} takes {parameter}: every argument of a tool has a name of its own")
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext:
            context_name = parameter.name
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            fields.append((parameter.name, hint, _default(parameter.default)))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True), context_name


def _default(value: object) -> object:
    return msgspec.field(default_factory=lambda: type(value)(value)) if isinstance(value, list | dict | set) else value  # pyright: ignore


def _schema_of(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the schema of a struct as one object, with the definitions that it refers to."""
    try:
        whole = msgspec.json.schema(arguments)
    except TypeError as error:
        raise BadInput(f"the tool {arguments.__name__!r} has a parameter that JSON cannot hold: {error}") from None
    definitions: dict[str, Any] = whole.pop("$defs", {})
    schema = dict(definitions.pop(arguments.__name__, whole))
    schema.pop("title", None)
    return {**schema, **({"$defs": definitions} if definitions else {})}


def _checker(arguments: type[msgspec.Struct], name: str) -> CheckArguments:
    names = arguments.__struct_fields__
    decoder = msgspec.json.Decoder(arguments, strict=False)

    def check(text: str) -> Mapping[str, Any]:
        try:
            given = decoder.decode(text if text.strip() else "{}")
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            shape = msgspec.json.encode(_schema_of(arguments)).decode()[:_MOST_SCHEMA_CHARS]
            raise BadArguments(f"{name} was not run: {error}. Its arguments are {shape}") from None
        return {one: getattr(given, one) for one in names}

    return check
