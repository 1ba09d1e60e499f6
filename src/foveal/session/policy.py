"""The policy of a session: its budget, and the stages that keep it. A policy is data, for files and logs."""

from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from foveal.context.fences import FenceKind, Turns
from foveal.context.options import ContextOptions
from foveal.context.reminders import ReminderRule
from foveal.fit.stages.clear import Clear
from foveal.fit.stages.compact import Compact
from foveal.fit.stages.expired import Expired
from foveal.fit.stages.history import History
from foveal.fit.stages.images import Images
from foveal.fit.stages.outline import Outline
from foveal.fit.stages.shorten import Shorten
from foveal.fit.stages.summarise import Summarise
from foveal.fit.stages.superseded import Superseded
from foveal.fit.stages.thinking import ThinkingWindow
from foveal.project.retention_layers import Layer, Layers, Scenario, Toolkit, layers_of
from foveal.stores.checks import check_scope
from foveal.summary.relevance.weights import Weights
from foveal.values.budget import Budget, one_knob, sent_limit
from foveal.values.errors import BadInput, BadPolicy
from foveal.values.events import Thresholds
from foveal.values.retention import RetentionRule

Economy: TypeAlias = Literal["whole", "balanced", "lean"]
"""How much of a conversation is carried where the window would hold more of it."""

ECONOMY_TOKENS: Mapping[Economy, int | None] = {"whole": None, "balanced": 80_000, "lean": 40_000}
"""Tokens of conversation above which a fold is made where it pays for itself. The bill grows with them, and less is lost: in
replays of sessions above 100k tokens, with 200k to fill, 0.48 of the bill and 0.96 of the far clues at 64k, 0.56 and 0.98 at 80k,
0.62 and 0.99 at 96k."""

BuiltIn: TypeAlias = Superseded | Expired | ThinkingWindow | Images | History | Shorten | Outline | Clear | Summarise

RETIRED_STAGES: Mapping[str, Mapping[str, Any]] = {
    "repeats": {"fold": "superseded", "edited": False},
    "oldest": {"fold": "summarise", "share": 0.05},
}
"""Stages of earlier versions, which policy files and logs may still name, and the nearest stage of today."""

DEFAULT_STAGES: tuple[BuiltIn, ...] = (
    # Results that were read again, and those said to expire, go first: nothing is lost with them.
    Superseded(edited=False),
    Expired(),
    # Of the oldest results, the lines that will be needed are worth more than the head and tail of each; a result that is not cut
    # before it is covered can be chosen from. With the two stages below before it, far grounding at 32k was 0.05 lower.
    Summarise(),
    # The rest is recent: it is cut only where the view would soon be over its limit again.
    Superseded(last_resort=True),
    # One huge result, even the newest, does not take the place of everything before it.
    Shorten(over=0.25, to=0.2, keep=0.0, last_resort=True),
    Clear(last_resort=True),
    # A huge newest turn: the newest is cut as well, gently first.
    Shorten(over=0.06, to=0.05, keep=0.0, last_resort=True),
    Shorten(keep=0.0, last_resort=True),
    Clear(keep=0.0, last_resort=True),
    Summarise(share=0.05, keep=0.0, last_resort=True),
)


class BudgetTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `[budget]` table: whatever is left out is derived from the model's window."""

    limit: int | None = None
    target: int | float | None = None
    reserve: int | None = None
    trigger: int | float | None = None
    max_bytes: int | None = None
    max_images: int | None = None


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A budget, the stages that keep it, and facts about models that the built-in table does not know."""

    max_context_tokens: int | None = None
    """The one knob: everything else of the budget is derived from it."""
    budget: BudgetTable = BudgetTable()
    economy: Economy | None = None
    """Whether a fold that pays for itself is made before the limit forces one: never, above 80,000 tokens of conversation, or
    above 40,000. None is balanced where the policy names no limit of its own, and whole where it does."""
    stages: tuple[BuiltIn, ...] = DEFAULT_STAGES
    compact: Compact = Compact()
    arrival: float = 1.0
    """Results above this share of the sendable tokens are shortened to it before their first prompt, where no cache has been
    paid for yet. It is the lowest layer of retention: whatever is said of a tool is laid over it."""
    models: dict[str, dict[str, Any]] = {}
    recall: bool = True
    """Whether the model is offered the recall tools while something is shown below full."""
    guard: bool = True
    """Whether tags of other harnesses and tokens of chat templates are made harmless in text of users, tools and files. Text
    that could be taken for the engine's own words is made harmless in any case."""
    believed_tags: tuple[str, ...] = ()
    """Names or patterns of tags that the host's own client writes, such as `system-reminder`: they are left as they are in
    texts of the user, and nowhere else."""
    fences: tuple[FenceKind, ...] = ()
    """Kinds of content that the host may put beside the conversation."""
    remind: bool = False
    """Whether reminders are evaluated for each call: the built-in ones, with `reminders` laid over them."""
    reminders: tuple[ReminderRule, ...] = ()
    clock: str | None = None
    """The time zone in which the model is told when the session began, such as `UTC` or `Europe/Berlin`; without one it is not
    told. It is said once, after everything else that stays, and never changes."""
    foresight: float = 0.05
    """Largest share of the budget for what was said before on the subject of a new request and is folded; 0 looks for nothing."""
    memory: str | None = None
    """The scope of the session, such as a project or a person: sessions of one scope remember each other, and those of others
    never. None remembers nothing."""
    language: str = "en"
    catalogues: dict[str, dict[str, str]] = {}
    """Texts of reminders in further languages."""
    pressure: Thresholds = Thresholds()
    """From which share of the limit the prompt counts as full."""
    tools: dict[str, RetentionRule] = {}
    """Retention by tool name or pattern."""
    toolkits: dict[str, Toolkit] = {}
    scenarios: dict[str, Scenario] = {}
    """Retention that holds only where the environment picks it."""

    def __post_init__(self) -> None:
        if self.max_context_tokens is not None and self.max_context_tokens <= 0:
            raise BadPolicy(f"max_context_tokens is {self.max_context_tokens}; it is a number of tokens above 0")
        if not 0 < self.arrival <= 1:
            raise BadPolicy(f"arrival is {self.arrival}; it is a share of what may be sent, above 0 and up to 1")
        if not 0 <= self.foresight < 1:
            raise BadPolicy(f"foresight is {self.foresight}; it is a share of what may be sent, at least 0 and below 1")

        try:
            check_scope(self.memory)
        except BadInput as error:
            raise BadPolicy(f"memory: {error}") from None

    def layers(
        self,
        scenario: str | None = None,
        declared: Mapping[str, RetentionRule] | None = None,
        *,
        sendable: int | None = None,
    ) -> Layers:
        """Return all layers of retention, with the rules that the tools' own definitions declare."""
        said = layers_of(Scenario(self.tools, self.toolkits), self.scenarios, scenario, declared or {})
        if sendable is None or self.arrival >= 1:
            return said
        rule = RetentionRule(mode="summary", limit_tokens=max(1, int(sendable * self.arrival)))
        return Layers((Layer("arrival", "*", rule), *said.layers))

    @property
    def economy_tokens(self) -> int | None:
        """Tokens of conversation above which a fold is made where it pays for itself; None if only the limit asks for one."""
        has_own = (
            self.max_context_tokens is not None or self.budget.limit is not None or self.budget.trigger is not None
        )
        return ECONOMY_TOKENS[self.economy or ("whole" if has_own else "balanced")]

    def budget_for(self, window: int) -> Budget:
        """Return the budget for a model with this window."""
        given = {
            key: value for key in BudgetTable.__struct_fields__ if (value := getattr(self.budget, key)) is not None
        }
        if self.max_context_tokens is not None and "limit" in given:
            raise BadPolicy("max_context_tokens and budget.limit are both set; keep one of them")
        whole = self.max_context_tokens if self.max_context_tokens is not None else window
        context = given.pop("limit", whole)
        base = one_knob(context)
        reserve = given.pop("reserve", base.reserve)
        base = sent_limit(context - reserve, reserve)
        return msgspec.structs.replace(base, **given) if given else base

    @property
    def context(self) -> ContextOptions:
        """The part that side context is made by."""
        return ContextOptions(**{name: getattr(self, name) for name in ContextOptions.__struct_fields__})

    @property
    def summarise(self) -> Summarise:
        """The stage whose summaries prose is put into."""
        return next((stage for stage in self.stages if isinstance(stage, Summarise)), Summarise())

    def canonical(self) -> str:
        """Return the policy as JSON, the same for equal policies. Weights are named by their hash."""
        return msgspec.json.encode(self, enc_hook=_in_log, order="deterministic").decode()


def _in_log(value: object) -> str:
    """Return the name of a value that is no data: weights by their hash, a host's own stage by its type."""
    return repr(value) if isinstance(value, Weights) else f"{type(value).__module__}.{type(value).__qualname__}"


def logged_weights(name: str) -> Weights:
    """Weights as a log names them. A policy that is no file's names no other file."""
    if weights := Weights.logged(name):
        return weights
    raise BadPolicy(
        f"weights {name[:80]!r} are named, and only a policy file can name a file of them; put Weights here"
    )


def policy_from(
    table: Mapping[str, Any], source: str = "policy", *, weights: Callable[[str], Weights] = logged_weights
) -> Policy:
    """Return a policy from plain data. An unknown key is an error that names the nearest known one.

    `weights` finds the weights that a stage names.
    """

    def revived(kind: type, value: object) -> object:
        return weights(value) if kind is Weights and isinstance(value, str) else value

    try:
        return msgspec.convert(_without_retired(table), Policy, dec_hook=revived)
    except (msgspec.ValidationError, BadPolicy) as error:
        said = next(_wrong_rules(table), str(error))
        raise BadPolicy(f"{source}: {said}{_hint(said)}") from None


def logged_policy(text: str) -> tuple[Policy, tuple[str, ...]]:
    """Return the policy that a log records, and the names of its stages that are code of the host and not known here.

    Those are left out: past folds are in the log, whoever proposed them.
    """
    table = msgspec.json.decode(text)
    known = {str(kind.__struct_config__.tag) for kind in get_args(BuiltIn)} | RETIRED_STAGES.keys()
    absent = [stage for stage in table.get("stages", ()) if _tag_of(stage) not in known]
    if absent:
        table = {**table, "stages": [stage for stage in table["stages"] if stage not in absent]}
    return policy_from(table, "the stored policy"), tuple(_tag_of(stage) or str(stage)[:80] for stage in absent)


def _tag_of(stage: object) -> str:
    return str(cast("Mapping[str, Any]", stage).get("fold", "")) if isinstance(stage, Mapping) else ""


def _without_retired(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table with each retired stage replaced by the nearest stage of today, its options kept."""
    stages = table.get("stages")
    if not isinstance(stages, list | tuple):
        return dict(table)
    return {**table, "stages": [_without_retired_stage(stage) for stage in cast("list[object]", stages)]}


def _without_retired_stage(stage: object) -> object:
    if not isinstance(stage, Mapping):
        return stage
    options = cast("Mapping[str, Any]", stage)
    found = RETIRED_STAGES.get(str(options.get("fold")))
    return {**options, **found} if found else options


def _wrong_rules(table: Mapping[str, Any], under: str = "") -> Iterator[str]:
    """Yield the errors of single rules, with their keys: the error of a whole policy does not name the tool."""
    for key, kind in (("tools", RetentionRule), ("toolkits", Toolkit), ("scenarios", Scenario)):
        for name, rule in _named(table, key):
            place = f"{under}{key}.{name}"
            if kind is Scenario and isinstance(rule, Mapping):
                yield from _wrong_rules(cast("Mapping[str, Any]", rule), f"{place}.")
            try:
                msgspec.convert(rule, kind)
            except (msgspec.ValidationError, BadPolicy) as error:
                yield f"{place}: {error}"


def _named(table: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    found = table.get(key)
    return list(cast("Mapping[str, Any]", found).items()) if isinstance(found, Mapping) else []


def _hint(message: str) -> str:
    if "unknown field" not in message:
        return ""
    tables: tuple[type[msgspec.Struct], ...] = (Policy, BudgetTable, Compact, Toolkit, Scenario)
    inside: tuple[type[msgspec.Struct], ...] = (FenceKind, Turns, ReminderRule, Thresholds, *get_args(BuiltIn))
    known = {field for kind in (*tables, *inside) for field in kind.__struct_fields__}
    wrong = message.split("`")[1]
    near = get_close_matches(wrong, known, n=1)
    return f". Did you mean `{near[0]}`?" if near else f". Known keys: {', '.join(sorted(known))}"
