"""What is put beside the conversation of one session: fences that live, reminders that are due, in the engine's frame."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec

from foveal import frame
from foveal.core.entry import Beside, Block, Fence, Message, ToolCall
from foveal.core.project import View
from foveal.core.trace import Line
from foveal.core.view import MESSAGE_TOKENS
from foveal.events import Pressure
from foveal.inject.fences import Placer, Registry, live
from foveal.inject.reminders import (
    FRESH,
    OneShot,
    Situation,
    Trigger,
    Upload,
    evaluate,
    found,
    remembering,
    rulebook,
    update,
)
from foveal.inject.reminders.templates import Value
from foveal.ledger import EMPTY, Step
from foveal.ledger import update as noted
from foveal.ledger.extractors import todos
from foveal.policies import Policy
from foveal.policies.superseded import POLLING
from foveal.summary.state import decode
from foveal.surroundings import KINDS


class Injection(NamedTuple):
    """What stands beside one prompt, and a line of the trace for everything that was held back."""

    beside: Beside
    held_back: tuple[Line, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.beside.blocks)


NOTHING = Injection(Beside(()))


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the host knows of the next call and nobody else does."""

    steps_left: int | None = None
    facts: dict[str, Value] = {}


class Injector:
    """Follows one session and says what its prompts hold beside the conversation."""

    def __init__(self, policy: Policy, count: Callable[[str], int], triggers: Iterable[Trigger] = ()) -> None:
        self.registry = Registry((*KINDS, *policy.fences))
        self._policy, self._count = policy, count
        self._book = (
            rulebook(policy.reminders, language=policy.language, catalogues=policy.catalogues, triggers=triggers)
            if policy.remind
            else None
        )
        self._nonce = ""
        self._wrap = remembering(self._framed)
        self._placer = Placer(self.registry, count=count, wrap=self._wrap)
        self._trail, self._streak, self._ledger = FRESH, 0, EMPTY
        self._once: tuple[OneShot, ...] = ()
        self._news: dict[str, tuple[object, ...]] = {}
        """What came since the last call, by the field of a situation."""

    def follow(self, view: View) -> None:
        """Begin with a session that is there already."""
        self._ledger = msgspec.structs.replace(EMPTY, todos=decode(view.carried).ledger.todos)
        for atom in view.atoms:
            for item in atom.items:
                parts = tuple(shown.part for shown in item.shown if shown.part is not None)
                self.heard(item.seq, Message(item.role, parts, item.model))

    def heard(self, place: int, message: Message) -> None:
        """Take a message into account."""
        if self._book is None:
            return
        self._trail = update(self._trail, message, polling=POLLING)
        calls = sum(isinstance(part, ToolCall) for part in message.parts)
        self._streak = 0 if message.role == "user" else self._streak + calls
        self._ledger = noted(self._ledger, (Step("", message, place),), (todos,))

    def remind(self, name: str, text: str) -> None:
        """Say this once, with the next call."""
        self._once = (*self._once, OneShot(name, text))

    def tell(self, field: str, *values: object) -> None:
        """Something came that the next call should know: `uploads`, `mentioned_tools`, `new_instructions`, …"""
        self._news[field] = (*self._news.get(field, ()), *values)

    def fence(self, view: View, kind: str, text: str, *, key: str | None, attributes: Mapping[str, str]) -> Fence:
        return self.registry.fence(kind, text, attributes, call=view.calls + 1, turn=turn_of(view), key=key)

    def beside(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str]) -> Injection:
        """What the next prompt holds beside the conversation."""
        if not view.fences and self._book is None:
            return NOTHING
        self._nonce = self._nonce or frame.nonce(view.first.encode().ljust(16, b"."))
        call, turn = view.calls + 1, turn_of(view)
        alive, gone = live(view.fences, self.registry, call=call, turn=turn)
        view.fences = alive
        placed = self._placer.place(alive, budget_tokens=pressure.limit)
        if placed.over:
            raise placed.over.error()
        held = [fate.line() for fate in (*gone, *placed.fates) if fate.outcome not in ("shown", "cut")]
        # Each may be a message of its own: some formats join them to what stands before, others do not.
        fences = tuple(msgspec.structs.replace(one, tokens=one.tokens + MESSAGE_TOKENS) for one in placed.blocks)
        if self._book is None:
            return Injection(Beside(fences), tuple(held))
        before = view.beside.reminded if view.beside else {}
        said = evaluate(
            self._book, self._situation(view, pressure, host, offered), before, count=self._count, wrap=self._wrap
        )
        reminders = (
            Block(one.id, "reminder", "user", "tail", one.text, one.tokens + MESSAGE_TOKENS) for one in said.reminders
        )
        hidden = (line for line in said.lines() if line.shown == "hidden")
        return Injection(Beside((*fences, *reminders), said.shown), (*held, *hidden))

    def sent(self) -> None:
        """The call that they were for was prepared: what is new is new no more."""
        self._news, self._once = {}, ()

    def _situation(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str]) -> Situation:
        level = pressure.level
        return Situation(
            call=view.calls + 1,
            turn=turn_of(view),
            steps_left=host.steps_left,
            used_tokens=pressure.tokens,
            limit_tokens=pressure.limit,
            pressure=None if level == "none" else level,
            todos=self._ledger.todos,
            repeated=found(self._trail),
            streak=self._streak,
            offered_tools=offered,
            one_shots=self._once,
            facts=host.facts,
            **self._news,  # type: ignore[arg-type] # named after the fields that it fills
        )

    def _framed(self, kind: str, text: str, attributes: Mapping[str, str]) -> str:
        return frame.wrap(kind, text, nonce=self._nonce, attributes=attributes)


def turn_of(view: View) -> int:
    """The turn that the next call belongs to: a new one, if the last was answered and nobody has spoken since."""
    is_over = not view.atoms or view.atoms[-1].kind in ("assistant", "system")
    return view.turns + is_over


__all__ = ["Host", "Injection", "Injector", "Upload", "turn_of"]
