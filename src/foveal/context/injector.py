"""What is put beside the conversation of one session: fences that live, reminders that are due, in the engine's frame."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

import msgspec

from foveal.context.environment import KINDS, STARTED
from foveal.context.fences import (
    NO_FORMATTERS,
    FenceKind,
    FenceOutcome,
    Formatters,
    Placed,
    Placer,
    Registry,
    Turns,
    live,
)
from foveal.context.options import ContextOptions
from foveal.context.port import NOTHING, Host, Injection
from foveal.context.reminders import (
    FRESH,
    MOST_TOKENS,
    Frame,
    OneShot,
    Reminded,
    Situation,
    Trigger,
    evaluate,
    found,
    rulebook,
    update,
)
from foveal.fit.stages.superseded import POLLING
from foveal.project.view import View
from foveal.summary.ledger import EMPTY, LedgerStep
from foveal.summary.ledger import update as noted
from foveal.summary.ledger.extractors import todos
from foveal.summary.state import decode
from foveal.text import guard as frame
from foveal.values.blocks import context_mark
from foveal.values.entry import Block, Fence, Message, ReminderLine, ToolCall
from foveal.values.errors import BadInput, BadPolicy
from foveal.values.events import Pressure
from foveal.values.shown import JOINT, MESSAGE_TOKENS
from foveal.values.trace import TraceLine, block_lines


class Injector:
    """Follows one session and says what its prompts hold beside the conversation."""

    def __init__(
        self,
        options: ContextOptions,
        count: Callable[[str], int],
        triggers: Iterable[Trigger] = (),
        *,
        formatters: Formatters = NO_FORMATTERS,
    ) -> None:
        kinds = (*KINDS, *options.fences, STARTED)
        for kind in kinds:
            _check(kind)
        self.registry = Registry(kinds, formatters)
        self._about = {kind.name: _about(kind) for kind in kinds}
        self._mandatory = frozenset(kind.name for kind in kinds if kind.must_keep)
        self._lasting = frozenset(kind.name for kind in kinds if kind.lifetime == "session")
        self._count = count
        self._book = (
            rulebook(options.reminders, language=options.language, catalogues=options.catalogues, triggers=triggers)
            if options.remind
            else None
        )
        self._nonce = ""
        self._frames: dict[str, tuple[str, str]] = {}
        self._placer = Placer(self.registry, count=count, wrap=self._framed)
        self._fences: tuple[Placed | None, _Fences] = None, _Fences((), (), 0, 0)
        self._trail, self._streak, self._ledger = FRESH, 0, EMPTY
        self.active_skill: str | None = None
        self._news: dict[str, tuple[object, ...]] = {}
        """What came since the last call, by the field of a situation."""
        self._told: dict[str, tuple[object, ...]] = {}
        """What the call that is under way was told: a prompt that is asked for again says it again."""

    def follow(self, view: View) -> None:
        """Begin with a session that is there already."""
        self._trail, self._streak = FRESH, 0
        self._ledger = msgspec.structs.replace(EMPTY, todos=decode(view.facts.summary.state).ledger.todos)
        for atom in view.atoms if self._book else ():
            for item in atom.items:
                parts = tuple(shown.part for shown in item.shown if shown.part is not None)
                self.heard(item.seq, Message(item.role, parts, item.model))

    def heard(self, place: int, message: Message) -> None:
        """Take a message into account."""
        if message.role == "assistant":
            self._told = {}
        if self._book is None:
            return
        self._trail = update(self._trail, message, polling=POLLING)
        calls = sum(isinstance(part, ToolCall) for part in message.parts)
        self._streak = 0 if message.role == "user" else self._streak + calls
        self._ledger = noted(self._ledger, (LedgerStep("", message, place),), (todos,))

    def remind(self, name: str, text: str) -> None:
        """Say this once, with the next call."""
        if self._book is None:
            raise BadInput("reminders are off, so that nobody would read this; set remind = true in the policy")
        one = OneShot(name, text)
        taken = {once.id for once in self._all_news().get("one_shots", ()) if isinstance(once, OneShot) and once != one}
        number = next(n for n in range(1, len(taken) + 2) if _numbered(name, n) not in taken)
        self.tell("one_shots", OneShot(_numbered(name, number), text))

    def tell(self, field: str, *values: object) -> None:
        """Something came that the next call should know: `uploads`, `mentioned_tools`, `new_instructions`, …"""
        self._news[field] = (*self._news.get(field, ()), *values)

    def fence(self, view: View, kind: str, text: str, *, key: str | None, attributes: Mapping[str, str]) -> Fence:
        """Content of a kind. What has no frame is refused now, and not by every prompt from here on."""
        frame.wrap("fence", ".", nonce="", attributes=_tags(attributes))
        return self.registry.fence(kind, text, attributes, call=view.facts.calls + 1, turn=turn_of(view), key=key)

    def beside(
        self, view: View, pressure: Pressure, host: Host, offered: frozenset[str], *, room: float = 1.0
    ) -> Injection:
        """What the next prompt holds beside the conversation; what may be cut takes no more than this share of the room."""
        if not view.facts.fences and self._book is None:
            return NOTHING
        self._nonce = self._nonce or frame.session_nonce(view.facts.first)
        fences, gone, expired = self._placed(view, pressure, room)
        blocks, lines, tokens = fences.blocks, (*fences.lines, *gone), fences.tokens
        if self._book:
            pressure = msgspec.structs.replace(pressure, tokens=pressure.tokens + tokens)
            said = evaluate(
                self._book,
                self._situation(view, pressure, host, offered),
                view.facts.reminded,
                count=view.projection.measure.count,
                frame=self._frame,
                most_tokens=MOST_TOKENS if room else 0,
            )
            reminders = _block(said)
            blocks, tokens = (*blocks, *reminders), tokens + said.tokens
            lines += (*block_lines(reminders), *[one.line() for one in said.suppressed])
        return Injection(context_mark(view.facts.context, blocks), lines, tokens, fences.mandatory, expired)

    def sent(self) -> None:
        """The call that they were for was prepared: what is new is new until it is answered."""
        self._told, self._news = self._all_news(), {}

    def _all_news(self) -> dict[str, tuple[object, ...]]:
        fields = (*self._told, *self._news)
        return {
            field: tuple(dict.fromkeys((*self._told.get(field, ()), *self._news.get(field, ())))) for field in fields
        }

    def _placed(
        self, view: View, pressure: Pressure, room: float
    ) -> tuple["_Fences", list[TraceLine], tuple[Fence, ...]]:
        """Return the fences of this call, lines for those that are not in it, and those of them that have expired."""
        passing = [fence for fence in view.facts.fences if fence.kind not in self._lasting]
        alive, lines, expired = self._alive(view) if passing else (view.facts.fences, list[TraceLine](), ())
        if not alive:
            return _Fences((), (), 0, 0), lines, expired
        placed = self._placer.place(alive, budget_tokens=pressure.limit)
        if placed.over:
            raise placed.over.error()
        if room < 1:
            least = sum(block.tokens for block in placed.blocks if self._is_mandatory(block))
            budget = least + int((pressure.limit - least) * room)
            placed = self._placer.place(alive, budget_tokens=budget)
        if self._fences[0] is not placed:
            self._fences = placed, self._told_of(placed)
        return _homed(view, self._fences[1]), lines, expired

    def _alive(self, view: View) -> tuple[tuple[Fence, ...], list[TraceLine], tuple[Fence, ...]]:
        """Return the fences that are still shown, lines for the others, and those of the others that have expired."""
        known = tuple(fence for fence in view.facts.fences if fence.kind in self._about)
        alive, gone = live(known, self.registry, call=view.facts.calls + 1, turn=turn_of(view))
        lines = [fate.line() for fate in gone]
        if len(known) < len(view.facts.fences):
            strange = (fence for fence in view.facts.fences if fence.kind not in self._about)
            lines += (FenceOutcome(fence.name, "left_out", "the policy has no such kind").line() for fence in strange)
        return alive, lines, tuple(set(known).difference(alive)) if gone else ()

    def _is_mandatory(self, block: Block) -> bool:
        return block.name.partition(":")[0] in self._mandatory

    def _told_of(self, placed: Placed) -> "_Fences":
        """The blocks, each with what it takes as a message of its own (some formats join them, others do not)."""
        fates = {(fate.fence, fate.tokens): fate for fate in placed.fates if fate.tokens}
        lines = [self._line(fates[one.name, one.tokens]) for one in placed.blocks]
        blocks = tuple(
            msgspec.structs.replace(one, tokens=line.tokens, because=line.because, raw_tokens=line.raw_tokens)
            for one, line in zip(placed.blocks, lines, strict=True)
        )
        held = [fate.line() for fate in placed.fates if not fate.tokens]
        mandatory = sum(block.tokens for block in blocks if self._is_mandatory(block))
        return _Fences(blocks, (*lines, *held), sum(block.tokens for block in blocks), mandatory)

    def _line(self, fate: FenceOutcome) -> TraceLine:
        line, about = fate.line(), self._about[fate.fence.partition(":")[0]]
        return msgspec.structs.replace(
            line,
            because=f"{about}; {line.because}" if line.because else about,
            tokens=line.tokens + MESSAGE_TOKENS,
            raw_tokens=line.raw_tokens + MESSAGE_TOKENS,
        )

    def _situation(self, view: View, pressure: Pressure, host: Host, offered: frozenset[str]) -> Situation:
        level = pressure.level
        return Situation(
            call=view.facts.calls + 1,
            turn=turn_of(view),
            steps_left=host.steps_left,
            used_tokens=pressure.tokens,
            limit_tokens=pressure.limit,
            pressure=None if level == "none" else level,
            todos=self._ledger.todos,
            repeated=found(self._trail),
            streak=self._streak,
            active_skill=self.active_skill,
            offered_tools=offered,
            facts=host.facts,
            **self._all_news(),  # type: ignore[arg-type] # named after the fields that it fills
        )

    def _framed(self, kind: str, text: str, attributes: Mapping[str, str]) -> str:
        if attributes:
            return frame.wrap(_tag(kind), text, nonce=self._nonce, attributes=_tags(attributes))
        opening, closing = self._tags_of(kind)
        return f"{opening}{frame.neutralise(text)}{closing}"

    def _tags_of(self, kind: str) -> tuple[str, str]:
        """The tags around every text of a kind that has no attributes."""
        if kind not in self._frames:  # dearer than most of the texts
            opening, _, closing = frame.wrap(_tag(kind), "…", nonce=self._nonce).partition("…")
            self._frames[kind] = opening, closing
        return self._frames[kind]

    @cached_property
    def _frame(self) -> Frame:
        """The frame of reminders, with what it takes as a message of its own (some formats join those, others do not)."""
        opening, closing = self._tags_of("reminder")
        return Frame(opening, closing, self._count(opening) + self._count(closing) + JOINT.tokens + MESSAGE_TOKENS)


def turn_of(view: View) -> int:
    """The turn that the next call belongs to: a new one, if the last was answered and nobody has asked anything since."""
    request = view.place(view.facts.last_user)
    for at in range(len(view.atoms) - 1, -1, -1):
        if at == request:
            return view.facts.turns
        if view.atoms[at].kind != "user":  # a file, or a result that came late, is no request
            return view.facts.turns + (view.atoms[at].kind in ("assistant", "system"))
    return view.facts.turns + 1


class _Fences(NamedTuple):
    """The fences of one call."""

    blocks: tuple[Block, ...]
    lines: tuple[TraceLine, ...]
    tokens: int
    mandatory: int


def _homed(view: View, fences: _Fences) -> _Fences:
    """Where there is no request or result to stand beside, the tail is the place."""
    if view.facts.last_user:
        return fences
    absent = {"before_request", "after_request"}
    if not any(atom.kind == "tools" for atom in view.atoms):
        absent.add("after_result")
    if not any(block.placement in absent for block in fences.blocks):
        return fences
    blocks = (
        msgspec.structs.replace(block, placement="tail") if block.placement in absent else block
        for block in fences.blocks
    )
    return fences._replace(blocks=tuple(blocks))


def _check(kind: FenceKind) -> None:
    """What the frame and the prompt can hold of a kind that a policy names."""
    try:
        frame.fence_kind(_tag(kind.name))
    except BadInput as error:
        raise BadPolicy(f"fences.{kind.name}: {error}") from None
    if kind.placement == "after_system" and kind.role != "system":
        raise BadPolicy(
            f"fences.{kind.name} stands after the system prompt, which is the host's own word; "
            'say role = "system" if its content may be that, or place it elsewhere'
        )


def _about(kind: FenceKind) -> str:
    """What the trace says of every fence of a kind."""
    match kind.lifetime:
        case Turns(turns):
            lasts = f"{turns:,} turns"
        case "session":
            lasts = "the session"
        case passing:
            lasts = f"this {passing}"
    share = f", at most {kind.share:.0%} of the budget" if kind.share < 1 else ""
    return f"{kind.placement}, as {kind.role}, for {lasts}{share}"


def _block(said: Reminded) -> tuple[Block, ...]:
    """All reminders of a call as one block; none, if nothing is said."""
    if not said.reminders:
        return ()
    parts = tuple([ReminderLine(one.id, one.tokens, one.because) for one in said.reminders])
    return (Block("reminders", "reminder", "user", "tail", said.text, said.tokens, said=parts),)


def _tag(name: str) -> str:
    """The name as it stands in a tag."""
    return name.replace("_", "-")


def _tags(attributes: Mapping[str, str]) -> Mapping[str, str]:
    return {_tag(name): value for name, value in attributes.items()} if attributes else attributes


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"
