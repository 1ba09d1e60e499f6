"""Trials: a prompt is sent, calls of Foveal's own tools are answered from the session, and the next actions are kept."""

import time
import warnings
from typing import Any, Literal, TypeAlias

import msgspec

from foveal.analysis.agreement.actions import NextActions, next_actions
from foveal.analysis.agreement.estimate import ROUNDS, sum_usd, usage_usd
from foveal.analysis.agreement.sample import Askable, AskTerms, copied
from foveal.analysis.agreement.senders import NoReply, Pause, Sender, patiently, reason_for_none, with_limit
from foveal.analysis.replay.replay import recorded_clock
from foveal.context.injection import NextCall
from foveal.dialects import find_dialect
from foveal.session import own_tools
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.session import Session
from foveal.values.entry import Message, Text, ToolCall, Usage
from foveal.values.errors import BadInput, OverBudget

PromptKind: TypeAlias = Literal["whole", "folded"]
TRIALS = 2
"""Times that each prompt is sent: two answers to the same prompt show the model's own noise."""


class Trial(msgspec.Struct, frozen=True):
    """One sending of one prompt: the key of its answer."""

    digest: str
    """Of the sampled call."""
    kind: PromptKind
    number: int


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """The outcome of a trial: the next actions, or the reason why there are none."""

    trial: Trial
    session: str
    call: int
    actions: NextActions = NextActions()
    recalls: int = 0
    """Calls of Foveal's own tools before the next action."""
    input_tokens: int = 0
    """Tokens of the prompt, by the provider's count; of all rounds together."""
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    fault: str = ""
    """Empty for an answer."""
    detail: str = ""

    @property
    def is_final(self) -> bool:
        """Whether asking again would not help: it is an answer, a refusal, too long or cut off."""
        return self.fault not in ("raised", "rate_limited")


class Asker(msgspec.Struct, frozen=True):
    """Sends prompts under some terms. Any thread may use it."""

    terms: AskTerms
    sender: Sender
    is_provider: bool = True
    """Whether it is the provider's own address."""
    pause: Pause = time.sleep

    def ask(self, askable: Askable, trial: Trial) -> Answer:
        """Make a trial. Raise `BadInput` where every other one would fail as well: the key or the model is wrong."""
        call, usages = askable.pair.sampled, list[Usage | None]()
        found = self._folded(askable, trial, usages) if trial.kind == "folded" else self._whole(askable, usages)
        known = [usage for usage in usages if usage]
        answer = Answer(
            trial,
            call.session,
            call.call,
            input_tokens=sum(usage.input_tokens for usage in known),
            cached_tokens=sum(usage.cache_read_tokens for usage in known),
            output_tokens=sum(usage.output_tokens for usage in known),
            cost_usd=sum_usd(usage_usd(self.terms, usage) for usage in usages),
        )
        if isinstance(found, NoReply):
            return msgspec.structs.replace(answer, fault=found.fault, detail=found.detail)
        actions, recalls = found
        return msgspec.structs.replace(answer, actions=actions, recalls=recalls)

    def _whole(self, askable: Askable, usages: list[Usage | None]) -> tuple[NextActions, int] | NoReply:
        prompt = askable.pair.whole
        reply = self._send(prompt.request, usages)
        if isinstance(reply, NoReply):
            return reply
        message = self._read(reply)
        calls = [msgspec.structs.replace(c, name=prompt.renamed_tools.get(c.name, c.name)) for c in _calls(message)]
        return next_actions(calls, _words(message)), 0

    def _folded(self, askable: Askable, trial: Trial, usages: list[Usage | None]) -> tuple[NextActions, int] | NoReply:
        prompt, recalls = askable.pair.folded, 0
        with self._session(askable, trial) as session:
            while True:
                reply = self._send(prompt.request, usages)
                if isinstance(reply, NoReply):
                    return reply
                message, own = self._read(reply), own_tools.ours(prompt.setup.tools)
                session.append(reply)
                # Other calls come under the host's names, without the marks of the guard.
                others = session.serve() if _calls(message) else []
                recalled = [call for call in _calls(message) if call.name in own]
                recalls += len(recalled)
                if others or not recalled or len(usages) > ROUNDS:
                    return next_actions(others or recalled, _words(message)), recalls
                try:
                    prompt = session.prompt(askable.tools, next_call=NextCall(reply_tokens=self.terms.reply_tokens))
                except OverBudget as error:
                    return NoReply("too_long", f"After a recall: {error}")

    def _session(self, askable: Askable, trial: Trial) -> Session:
        """Open a session of its own for a trial, on a copy of the log."""
        name = askable.pair.sampled.session
        clock = recorded_clock(f"{trial.digest}/{trial.number}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)
            store = copied(askable.store, name)
            return Session(store, name, model=self.terms.spoken, policy=self.terms.policy, clock=clock)

    def _send(self, request: dict[str, Any], usages: list[Usage | None]) -> dict[str, Any] | NoReply:
        dialect = self.terms.dialect
        limited = with_limit(dialect, request, self.terms.reply_tokens, is_provider=self.is_provider)
        reply = patiently(self.sender, limited, pause=self.pause)
        if isinstance(reply, NoReply):
            if reply.is_for_all:
                raise BadInput(f"{self.terms.model} cannot be asked: {reply.detail}")
            return reply
        try:
            usages.append(find_dialect(dialect).reader.reply(reply).usage)
            return reason_for_none(dialect, reply) or reply
        except (BadInput, LookupError, TypeError, ValueError, AttributeError) as error:
            return NoReply("not_text", f"The reply cannot be read ({type(error).__name__}: {error}).")

    def _read(self, reply: dict[str, Any]) -> Message:
        return find_dialect(self.terms.dialect).reader.reply(reply).message


def _calls(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]


def _words(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
