"""The model setup of a session: model, dialect, token counter, budget and policy."""

import os
import warnings
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from foveal.dialects import Dialect, find_dialect
from foveal.dialects.admission import Admission
from foveal.dialects.port import RequestOptions, ToolSpec
from foveal.dialects.tools import sent_tools, tools_json
from foveal.models import catalogue as prices
from foveal.models import counters
from foveal.project.arrival import NO_RENDERERS, Renderers, arrival_rule
from foveal.project.measure import Measure
from foveal.project.projection import Projection
from foveal.project.retention_layers import Layers
from foveal.project.view import PROJECTION, View
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.text.guard import Guard
from foveal.values.budget import TARGET_SHARE, Budget, MessageLimits
from foveal.values.entry import Image, Overflow, Setup
from foveal.values.errors import BadInput, BadPolicy
from foveal.values.fold_cost import Prices
from foveal.values.pins import NO_PINS, Pins
from foveal.values.retention import RetentionRule
from foveal.values.trace import PROMPT_TOKENS

REPLY_TOKENS = 4_096
"""Tokens of a reply, for requests that must name a maximum where the budget reserves nothing."""


FORGOTTEN_S = 3_600
"""Seconds after which no provider without a documented lifetime was seen to have a prompt in its cache."""

TOOL_TOKENS = 4
"""Tokens that a format may add to a tool beyond the counted chat form: Responses says of each whether it is strict."""


FRAME = 2
"""Raised whenever the guard makes another text of the same one: snapshots of an older one are not read."""

SCENARIO = "FOVEAL_SCENARIO"
"""The environment variable that picks one of a policy's scenarios."""


class UnknownModelWarning(UserWarning):
    """The model is not in the price table; its window is an assumption."""


class ModelSetup(msgspec.Struct, frozen=True):
    model: str
    dialect: Dialect
    counter: counters.ModelCounter
    budget: Budget
    policy: Policy
    facts: prices.ModelFacts
    layers: Layers = Layers()
    renderers: Renderers = NO_RENDERERS
    reply_tokens: int | None = None
    """The most tokens of the next reply, as the host said."""
    nonce: str = ""
    """The nonce of the engine's own tags, of a session that is open."""

    def replying(self, tokens: int | None) -> "ModelSetup":
        """Return the setup for a reply of at most so many tokens. Raise `BadInput` if that leaves nothing for the prompt."""
        if tokens is not None and tokens <= 0:
            raise BadInput(f"reply_tokens is {tokens}; it must be a positive number")
        if tokens is not None and self.facts.known and tokens >= self.facts.window:
            raise BadInput(
                f"reply_tokens is {tokens:,}, which leaves nothing of the window of {self.model}, {self.facts.window:,} "
                "tokens, for the prompt; ask for a shorter reply"
            )
        return msgspec.structs.replace(self, reply_tokens=tokens)

    @property
    def call_budget(self) -> Budget:
        """The budget of the next call: the policy's, lowered where prompt and reply would not fit into the window together."""
        if self.reply_tokens is None or not self.facts.known:  # the window of an unknown model is an assumption
            return self.budget
        return self.budget.sending_at_most(self.facts.window - self.reply_tokens)

    def projection(self, pins: Pins = NO_PINS) -> Projection:
        dialect, model = self.dialect, self.model
        measure = Measure(self.counter.counter.count, self._image_tokens)
        rules = sha256(self.layers.canonical().encode()).hexdigest()[:16] if self.layers.layers else ""
        guard = self.guard
        key = f"{PROJECTION}|{model}|{dialect.name}|{self.counter.counter.name}|{rules}|{FRAME}.{guard.key}"
        on_arrival = arrival_rule(self.layers, measure.count, self.renderers, guard)
        admission = Admission(dialect, model)
        return Projection(
            key, measure, admission.omits, pins, on_arrival, guard, dialect.signs, admission.fits, self.nonce
        )

    @property
    def guard(self) -> Guard:
        """The guard that this policy asks for."""
        return Guard(self.policy.guard, self.policy.believed_tags)

    def safe_tool(self, spec: ToolSpec) -> ToolSpec:
        """Return a tool of the host's with its descriptions neutralised: the server that offers it may be a stranger."""
        guard = self.guard
        hosted = None if spec.hosted is None else guard.definition(spec.hosted)
        described, parameters = guard.text(spec.description), guard.definition(spec.parameters)
        return msgspec.structs.replace(spec, description=described, parameters=parameters, hosted=hosted)

    def setup(self, tools: tuple[ToolSpec, ...]) -> Setup:
        text, sent = tools_json(tools), tools_json(sent_tools(tools, self.dialect))
        tokens = self.counter.counter.count(sent) + TOOL_TOKENS * len(tools) if tools else 0
        name, policy, limit = self.counter.counter.name, self.policy.canonical(), self.call_budget.sendable
        retention = self.layers.canonical()
        return Setup(self.model, self.dialect.name, name, policy, text, tokens, limit, retention, self.reply_tokens)

    def limits(self, view: View, setup: Setup, taken: int = 0) -> MessageLimits:
        """Return the limits of the messages in tokens of our own counter, with `taken` tokens of side context."""
        learned = self.learned_limit(view)
        budget = self.call_budget.below(learned.limit) if learned else self.call_budget
        fixed = setup.tools_tokens + PROMPT_TOKENS + taken
        return budget.for_messages(self.factor(view), fixed, view.system_tokens)

    def economy_limits(self, view: View, limits: MessageLimits) -> MessageLimits | None:
        """Return the limits by which a fold that pays for itself is made before one is due; None if the policy wants none."""
        tokens = self.policy.economy_tokens
        due = limits.due.tokens if tokens is None else view.system_tokens + int(tokens / self.factor(view))
        if due >= limits.due.tokens:
            return None
        aim = view.system_tokens + int((due - view.system_tokens) * TARGET_SHARE)
        return limits._replace(
            due=msgspec.structs.replace(limits.due, tokens=due), aim=msgspec.structs.replace(limits.aim, tokens=aim)
        )

    def factor(self, view: View) -> float:
        """Return the ratio of the provider's count to ours, as its usage reports tell."""
        # Never below one: usage that leaves something out (a proxy, a cache) must not raise what we count as the limit.
        return max(1.0, counters.factor_of(view.facts.usage, self.counter.factor))

    def learned_limit(self, view: View) -> Overflow | None:
        """Return the limit that was learned of the model, if it holds: a cut that usage tells does not lower the policy's own."""
        learned = view.facts.ceilings.get(self.model)
        has_own = self.policy.max_context_tokens is not None or self.policy.budget.limit is not None
        return None if learned is None or (learned.is_cut and has_own) else learned

    def notes(self, view: View) -> tuple[str, ...]:
        """Return the reasons why a prompt may be smaller than the policy allows."""
        learned, factor = self.learned_limit(view), self.factor(view)
        most = self.budget.below(learned.limit).sendable if learned else self.budget.sendable
        found: list[str] = []
        if most < self.budget.sendable:
            found.append(
                f"{most:,} tokens may be sent instead of {self.budget.sendable:,}: {learned.because if learned else ''}"
            )
        if factor > self.counter.factor and view.facts.usage:
            found.append(
                f"the provider counted {factor:.2f} times as many tokens as we do, so that {int(most / factor):,} of ours fit"
            )
        return tuple(found)

    @property
    def prices(self) -> Prices:
        """Prices of the provider for cached tokens and for others."""
        rules = prices.cache_rules(self.facts.provider, self.facts.id)
        plain = self.facts.price_input or 1.0
        read = self.facts.price_cache_read if self.facts.price_cache_read is not None else plain * rules.read_multiplier
        write = self.facts.price_cache_write or plain * rules.write_multiplier
        return Prices(read, write)

    def is_cold(self, view: View, now_ms: int) -> bool:
        """Tell whether the provider's cache has lost the last prompt: its lifetime has passed since the last reply."""
        ttl_s = prices.cache_rules(self.facts.provider, self.facts.id).ttl_s or FORGOTTEN_S
        return view.facts.calls > 0 and now_ms - view.facts.called_ms > ttl_s * 1_000

    def ask(self, tools: tuple[ToolSpec, ...], cache_key: str, reply_tokens: int | None = None) -> RequestOptions:
        reply = reply_tokens or self.budget.reserve or min(REPLY_TOKENS, self.facts.max_output or REPLY_TOKENS)
        key = cache_key if self.facts.provider == "openai" else None
        return RequestOptions(self.model, sent_tools(tools, self.dialect), reply, key)

    def _image_tokens(self, image: Image) -> int:
        size = (image.width, image.height) if image.width and image.height else counters.image_size(image.data or b"")
        width, height = size or (None, None)
        return counters.image_tokens(self.counter.family, width, height)


def setup_for(
    model: Model,
    policy: Policy,
    *,
    declared: Mapping[str, RetentionRule] | None = None,
    layers: Layers | None = None,
    renderers: Renderers = NO_RENDERERS,
) -> ModelSetup:
    """Look up everything that follows from a model and a policy. Warns where the model is not known.

    `declared` is the retention that tools were defined with; `layers` is all of retention, for a prompt of the past.
    """
    facts = prices.find(model.id, policy.models)
    if not facts.known:
        warnings.warn(f"{model.id}: {' '.join(facts.notes)}", UnknownModelWarning, stacklevel=3)
    dialect = find_dialect(model.dialect or facts.dialect)
    counter = model.counter or counters.counter_for(model.id)
    budget = budget_of(policy, facts)
    known = _layers(policy, declared or {}, budget) if layers is None else layers
    return ModelSetup(model.id, dialect, counter, budget, policy, facts, known, renderers)


def budget_of(policy: Policy, facts: prices.ModelFacts) -> Budget:
    """Return the budget that a policy gives to prompts for a model."""
    budget = policy.budget_for(facts.window)
    if not facts.known:
        return budget
    # Some models take less than their window, however little the reply needs.
    return budget.below(min(facts.max_input, facts.window) + budget.reserve)


def with_retention(setup: ModelSetup, declared: Mapping[str, RetentionRule]) -> ModelSetup:
    """Return the setup with the retention that tools were defined with."""
    return msgspec.structs.replace(setup, layers=_layers(setup.policy, declared, setup.budget))


def _layers(policy: Policy, declared: Mapping[str, RetentionRule], budget: Budget) -> Layers:
    try:
        return policy.layers(os.environ.get(SCENARIO), declared, sendable=budget.sendable)
    except BadPolicy as error:
        raise BadPolicy(f"${SCENARIO}: {error}") from None
