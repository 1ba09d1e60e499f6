"""Commands of a chat: lines that begin with `/`. Many are commands of `foveal` for the session of the chat."""

import asyncio
import io
import json
import shlex
from argparse import Namespace
from collections.abc import Awaitable, Callable
from typing import NamedTuple, cast, get_args

from foveal.agent.near_names import did_you_mean
from foveal.agent.run_log import read_run
from foveal.agent.run_marks import ENDED
from foveal.agent.run_reports import newest_run
from foveal.analysis.inspect.stored_session import branch_of
from foveal.cli.chat_history import message_line, message_text, said_messages
from foveal.cli.chat_models import chosen_model, with_host
from foveal.cli.chat_names import without_files
from foveal.cli.chat_session import ChatSession, QueueMode
from foveal.cli.output import Output, utc_time
from foveal.cli.parser import parse
from foveal.session.session import Session
from foveal.stores import rows as log
from foveal.text.display import one_line
from foveal.values.entry import ATTACHED, Entry, Message, News, Rewind
from foveal.values.errors import BadInput, FovealError, NotFound

_OF_BRANCH = frozenset({"compact", "pin", "why"})
"""Commands about the conversation of the current branch; the others look at everything in the log."""


class ChatCommand(NamedTuple):
    """One command: its arguments, its help, and the function that does it with the words behind the name."""

    arguments: str
    summary: str
    do: Callable[[str], Awaitable[None]]
    is_for_rest: bool = False
    """Whether it can only be done while the agent is not at work: it writes the log."""


class ChatCommands:
    """The commands of one chat."""

    def __init__(self, chat: ChatSession, *, store_name: str | None = None) -> None:
        self._chat, self._store_name = chat, store_name
        self.named_model: str | None = None
        """The model that `/model` has named, as it was typed."""
        self.is_over = False
        """Whether somebody has said that the chat is over."""
        self.table: dict[str, ChatCommand] = {
            "help": ChatCommand("", "list the commands", self._help),
            "new": ChatCommand("", "begin another conversation", self._new, True),
            "sessions": ChatCommand("", "list the conversations of the store", self._sessions),
            "load": ChatCommand("SESSION", "go on with another conversation", self._load, True),
            "current": ChatCommand("", "tell the session, its messages, its tokens and its pressure", self._current),
            "resume": ChatCommand("", "go on with a run that was left, paused or failed", self._resume, True),
            "steer": ChatCommand("TEXT", "say something that is heard before the next step", self._steer),
            "queue": ChatCommand("one|all|steer", "when to hear messages typed while it works", self._queue),
            "undo": ChatCommand("", "take back the last message and everything after it", self._undo, True),
            "rewind": ChatCommand("[N|ENTRY]", "go back before message N, or to an entry", self._rewind, True),
            "branches": ChatCommand("", "list the branches that were left", self._branches),
            "compact": ChatCommand("[INSTRUCTIONS]", "fold older messages now", self._compact, True),
            "pin": ChatCommand("ENTRY", "show an entry in full from now on", self._pin, True),
            "unpin": ChatCommand("ENTRY", "let an entry be folded again", self._unpin, True),
            "why": ChatCommand("[--cost] [--entry ID] …", "explain the prompt, line by line", self._passed("why")),
            "search": ChatCommand("WORDS", "search everything that was ever seen", self._passed("search")),
            "recall": ChatCommand("REF", "print the original of a reference", self._passed("recall")),
            "cost": ChatCommand("", "tell the model calls and their cost", self._cost),
            "model": ChatCommand("[M]", "tell the model, or go on with another one", self._model, True),
            "tools": ChatCommand("", "list the tools", self._tools),
            "skills": ChatCommand("", "list the skills", self._skills),
            "export": ChatCommand("[FILE]", "write the session to a file", self._export),
            "clean": ChatCommand("[--apply]", "show or remove old workspaces", self._clean),
            "quit": ChatCommand("", "leave; a run under way is paused", self._quit),
        }

    async def hear(self, line: str) -> None:
        """Do the command that a line names, or say it to the agent. Mistakes are told; none ends the chat."""
        said = line.strip()
        try:
            if said.startswith("/"):
                await self._do(said)
            elif said:
                await self._chat.say(said)
        except FovealError as error:
            self._chat.tell(str(error), "bad")
        except OSError as error:
            self._chat.tell(f"{error.filename or 'a file'}: {error.strerror}", "bad")

    async def _do(self, said: str) -> None:
        name, _, rest = said[1:].partition(" ")
        found = self.table.get("quit" if name == "exit" else "new" if name == "clear" else name)
        if found is None:
            raise BadInput(f"there is no command /{name}. {did_you_mean(name, self.table)} See /help")
        if found.is_for_rest and self._chat.is_busy:
            raise BadInput(f"/{name} has to wait: the agent is at work. Esc interrupts it")
        await found.do(rest.strip())

    @property
    def _out(self) -> Output:
        return self._chat.terminal.out

    async def _help(self, rest: str) -> None:
        rows = [(f"/{name} {one.arguments}".rstrip(), one.summary) for name, one in self.table.items()]
        self._out.table(("", ""), rows, "ll")
        self._out.line(
            "@ mentions a tool, a skill or a sub-agent, # sends a file. Esc or Ctrl-C interrupts, Ctrl-D leaves."
        )

    async def _new(self, rest: str) -> None:
        chat = self._chat
        chat.use_new()
        chat.greet()

    async def _sessions(self, rest: str) -> None:
        cards = [one for one in await asyncio.to_thread(self._chat.runs.list) if not one.parent]
        rows = [(one.session, one.agent, one.told_status, utc_time(one.updated_ms / 1000)) for one in cards]
        self._out.table(("session", "agent", "last run", "last entry"), rows, "llll")

    async def _load(self, rest: str) -> None:
        chat = self._chat
        newest = next((newest_run(chat.store, card) for card in chat.store.cards(rest)), None)
        if newest is None or newest.parent:
            known = [one.session for one in await asyncio.to_thread(chat.runs.list) if not one.parent]
            raise NotFound(f"there is no conversation {rest!r}. {did_you_mean(rest, known)} See /sessions")
        chat.use(rest)
        chat.greet()

    async def _current(self, rest: str) -> None:
        chat = self._chat
        entries = branch_of(chat.store, chat.session) if chat.run else []
        messages = sum(isinstance(one.body, Message) for one in entries)
        self._out.line(f"session {chat.session}, {messages} messages, in {chat.folder.resolve()}")
        self._out.line(chat.status)
        if chat.pressure:
            filled = min(40, round(chat.pressure.share * 40))
            self._out.line(f"[{'#' * filled}{'.' * (40 - filled)}] a fold is due at {chat.pressure.limit:,} tokens")

    async def _resume(self, rest: str) -> None:
        await self._chat.resume()

    async def _steer(self, rest: str) -> None:
        if not rest:
            raise BadInput("say it on the same line: /steer TEXT")
        await self._chat.steer(rest)

    async def _queue(self, rest: str) -> None:
        if rest not in get_args(QueueMode):
            raise BadInput(f"/queue is {', '.join(get_args(QueueMode))}; it is {self._chat.queue_mode} now")
        self._chat.queue_by(cast("QueueMode", rest))

    async def _undo(self, rest: str) -> None:
        said = self._said()
        if not said:
            raise BadInput("nothing was said yet")
        await self._go_back(said[-1])

    async def _rewind(self, rest: str) -> None:
        said = self._said()
        if not rest:
            rows = [(str(number), one.id, message_line(one)) for number, one in enumerate(said, 1)]
            self._out.table(("message", "entry", "text"), rows, "rll")
        elif not rest.isdecimal():
            await self._rewind_to(self._entry(rest), "")
        elif 0 < int(rest) <= len(said):
            await self._go_back(said[int(rest) - 1])
        else:
            number = f"are {len(said):,} messages" if len(said) != 1 else "is 1 message"
            raise BadInput(f"there {number}; /rewind lists them")

    def _entry(self, prefix: str) -> str:
        """Return the id of the only entry whose id begins like this, on any branch."""
        found = self._chat.store.find(self._chat.session, prefix) if self._chat.run else []
        if len(found) != 1:
            many = "several entries begin" if found else "no entry begins"
            raise NotFound(
                f"{many} with {prefix!r}; /rewind lists your messages, /branches the branches that were left"
            )
        return found[0].id

    async def _go_back(self, entry: Entry) -> None:
        """Continue before a message of the user's, whose words are offered again."""
        await self._rewind_to(self._before(entry), message_line(entry))
        self._chat.terminal.suggest(without_files(message_text(entry)))

    def _before(self, entry: Entry) -> str:
        """Return the entry before a message, and before the files that came with it."""
        branch = branch_of(self._chat.store, self._chat.session)
        place = next(number for number, one in enumerate(branch) if one.id == entry.id)
        while place and (branch[place - 1].author == ATTACHED or isinstance(branch[place - 1].body, News)):
            place -= 1
        return branch[place].parent or ""

    async def _rewind_to(self, entry: str, words: str) -> None:
        chat = self._chat
        state = read_run(chat.store, chat.session)
        if state.run and state.status not in ENDED:
            await chat.runs.cancel(chat.session, "rewound")
            chat.questions = []

        def rewind() -> None:
            model = chat.agent.models[0].session_model
            with Session(chat.store, chat.session, model=model, policy=chat.agent.policy) as session:
                session.branches.rewind(entry, "by the user")

        await asyncio.to_thread(rewind)
        self._out.line(f"back before: {words}" if words else f"back at {entry}", "fold")

    async def _branches(self, rest: str) -> None:
        rows: list[tuple[str, str, str]] = []
        newest: Entry | None = None
        words = ""
        logged = self._chat.store.rows(self._chat.session) if self._chat.run else ()
        entries = [log.to_entry(row, self._chat.session) for row in logged]
        said = {one.id for one in said_messages(entries)}
        for entry in entries:
            if isinstance(entry.body, Rewind) and newest is not None:
                rows.append((newest.id, utc_time(newest.time_ms / 1000), words))
            newest, words = entry, message_line(entry) if entry.id in said else words
        if not rows:
            self._out.line("no branch was left; /undo and /rewind make one")
            return
        self._out.table(("entry", "left", "last message"), rows, "lll")
        self._out.line("/rewind ENTRY goes back to one")

    def _said(self) -> list[Entry]:
        """Return the messages of the user on the current branch."""
        chat = self._chat
        return said_messages(branch_of(chat.store, chat.session)) if chat.run else []

    async def _compact(self, rest: str) -> None:
        told = io.StringIO()
        words = ("--instructions", rest) if rest else ()
        await self._run("compact", self._chat.session, *words, out=Output(told, is_json=True))
        done = json.loads(told.getvalue())
        if not done["folded"]:
            tokens, limit = done["pressure"]["tokens"], done["pressure"]["limit"]
            told_size = f"the next prompt takes {tokens:,} tokens, and a fold is due above {limit:,}"
            self._chat.tell(f"nothing to fold: {told_size}; a summary would be no smaller", "fold")
            return
        before, after = done["before"], done["after"]
        saved = 1 - after / max(1, before)
        self._chat.tell(f"folded: {before:,} → {after:,} tokens of messages, {saved:.0%} less", "fold")
        if refused := done["refused"]:
            said = f"{refused['author']} was not taken ({refused['why']}): {refused['detail']}"
            self._chat.tell(f"The summary of {said} Code's own stands in its place.", "limit")
        self._chat.tell(f"Undo: /rewind {done['rewind_to']}")

    async def _pin(self, rest: str) -> None:
        if not rest:
            raise BadInput("/pin ENTRY; /why lists the entries")
        await self._passed("pin")(rest)

    async def _unpin(self, rest: str) -> None:
        if not rest:
            raise BadInput("/unpin ENTRY; /why lists the entries")
        await self._passed("pin")(f"{rest} --remove")

    def _passed(self, name: str) -> Callable[[str], Awaitable[None]]:
        """Return a command that is the one of `foveal` with this name, for the session of the chat."""

        async def do(rest: str) -> None:
            try:
                words = shlex.split(rest)
            except ValueError as error:
                raise BadInput(f"{error}: {rest}") from None
            await self._run(name, self._chat.session, *words)

        return do

    async def _run(self, *words: str, out: Output | None = None) -> None:
        """Run a command of `foveal` on the store of the chat."""
        if words[0] != "workspace" and not self._chat.run:
            raise BadInput("nothing was said yet")
        if words[0] in _OF_BRANCH and not self._said():
            raise BadInput("nothing has been said on this branch yet")
        store = ("--store", self._store_name) if self._store_name and words[0] != "workspace" else ()
        try:
            args: Namespace = parse([*words, *store])
        except SystemExit:  # --help has printed its text
            return
        await asyncio.to_thread(args.run, args, out or self._out)

    async def _cost(self, rest: str) -> None:
        chat = self._chat
        if chat.run:
            number = read_run(chat.store, chat.session).run
            costs = [await asyncio.to_thread(chat.runs.cost, f"{chat.session}#{one + 1}") for one in range(number)]
            rows = [(one.run, f"{one.calls:,}", _usd(one.total_usd)) for one in costs]
            self._out.table(("run", "model calls", "cost"), rows, "lrr")
        bill = f" at the prices of {chat.agent.models[0].model}; the scripted provider bills nothing"
        self._out.line(f"all: {_usd(chat.usd)}{bill if chat.is_scripted else ''}")

    async def _model(self, rest: str) -> None:
        chat, agent = self._chat, self._chat.agent
        if chat.is_scripted:
            if rest:
                raise BadInput("the scripted provider has one model; leave out --provider scripted to name another")
            chat.tell("scripted: a server on this machine, in the place of every model")
            return
        was = ""
        if rest:
            before, choice = agent.models[0], chosen_model(rest, agent.models[0])
            agent.open_model(choice)  # says which key is missing
            agent.models = (choice, *agent.models[1:])
            self.named_model, was = rest, f" (was {with_host(before)})"
            chat.pressure = None  # its limit was that of the model before
        first, *others = map(with_host, agent.models)
        chat.tell(", then ".join([f"{first}{was}", *others]))
        if rest:
            chat.refresh()

    async def _tools(self, rest: str) -> None:
        tools = self._chat.agent.toolset.values()
        behind = self._chat.agent.on_demand
        notes = {
            one.name: ", ".join(["asks first"] * one.is_guarded + ["on demand"] * (one.name in behind)) for one in tools
        }
        rows = [(one.name, notes[one.name], one_line(one.description)) for one in tools]
        agents = [(one.name, "sub-agent", one_line(one.description)) for one in self._chat.agent.agents.values()]
        self._out.table(("name", "", "description"), [*rows, *agents], "lll")

    async def _skills(self, rest: str) -> None:
        environment = self._chat.agent.environment
        skills = environment.skills.skills if environment and environment.skills else ()
        if not skills:
            self._out.line('no skills; an agent file names folders of them: skills = ["skills"]')
            return
        self._out.table(("skill", "description"), [(one.name, one_line(one.description)) for one in skills], "ll")

    async def _export(self, rest: str) -> None:
        file = rest or f"{self._chat.session.replace('/', '-')}.jsonl"
        await self._run("export", self._chat.session, "-o", file)

    async def _clean(self, rest: str) -> None:
        await self._run("workspace", "clean", *rest.split())

    async def _quit(self, rest: str) -> None:
        self.is_over = True


def _usd(usd: float | None) -> str:
    return "unknown" if usd is None else f"${usd:.4f}"
