"""Clients that do to their list of messages whatever clients do, played against a session that follows them."""

import random
from collections.abc import Callable, Sequence
from itertools import count

from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.testing.builders import counted_ids, open_session
from foveal.values.entry import Message, ToolCall, ToolResult, assistant, result, system, user


class ListClient:
    """A client that does to its list whatever clients do."""

    def __init__(self, seed: int) -> None:
        self.random, self.numbers = random.Random(seed), count()  # noqa: S311 - the same moves in every run
        self.list = self.grown([], 3)
        self.earlier = [list(self.list)]
        self.system = "Be brief."

    def act(self) -> str:
        """Make one move, and return its name."""
        moves: dict[str, Callable[[], None]] = {
            "grow": self._grow,
            "retry": lambda: None,
            "regenerate": self._regenerate,
            "edit": self._edit,
            "compact": self._compact,
            "branch": self._branch,
            "system": self._instruct,
        }
        move = self.random.choice(["grow", "grow", *moves])
        moves[move]()
        self.earlier.append(list(self.list))
        return move

    def grown(self, listed: list[Message], turns: int) -> list[Message]:
        """Return the list with so many turns more."""
        for _ in range(turns):
            number = next(self.numbers)
            last = listed[-1] if listed else None
            if last is None or (last.role == "assistant" and not any(isinstance(one, ToolCall) for one in last.parts)):
                listed.append(user(f"Request {number}."))
            elif self.random.random() < 0.7:
                calls = [f"c{number}_{i}" for i in range(self.random.choice((1, 1, 2)))]
                said = self.random.choice(("", f"Step {number}."))
                listed.append(assistant(said, *(ToolCall(one, "read", f'{{"n": {number}}}') for one in calls)))
                listed += [result(one, f"output {one} " + "x " * self.random.randint(1, 30)) for one in calls]
            else:
                listed.append(assistant(f"Answer {number}."))
        return listed

    def _grow(self) -> None:
        self.list = self.grown(list(self.list), self.random.randint(1, 3))

    def _regenerate(self) -> None:
        replies = [i for i, one in enumerate(self.list) if one.role == "assistant"]
        if replies:
            self.list = [*self.list[: replies[-1]], assistant(f"Another {next(self.numbers)}.")]

    def _edit(self) -> None:
        places = [i for i, one in enumerate(self.list[:-1]) if one.role == "tool"]
        if places:
            place = self.random.choice(places)
            part = self.list[place].parts[0]
            self.list = list(self.list)
            self.list[place] = result(part.call if isinstance(part, ToolResult) else "", "[cleared]")
            self.list = self.grown(self.list, self.random.randint(0, 1))

    def _compact(self) -> None:
        cuts = [i for i, one in enumerate(self.list) if i > 2 and one.role in ("user", "assistant")]
        if cuts:
            said = user(f"Summary {next(self.numbers)}.")
            self.list = [self.list[0], said, *self.list[self.random.choice(cuts) :]]

    def _branch(self) -> None:
        self.list = list(self.random.choice(self.earlier))

    def told(self) -> Sequence[Message]:
        """Return the list as it is told now: without its newest message now and then, which the host appends by itself."""
        return self.list[:-1] if len(self.list) > 1 and self.random.random() < 0.3 else self.list

    def _instruct(self) -> None:
        self.system = f"Be brief {next(self.numbers)}."


def follow_client(seed: int, moves: int = 12, store: Store | None = None) -> list[str]:
    """Play one client against a session, and return what went wrong: an unpressed prompt that does not say the client's list."""
    store = MemoryStore() if store is None else store
    client, wrong, ids = ListClient(seed), list[str](), counted_ids(str(seed))
    session = open_session(store, new_id=ids)
    for number in range(moves):
        move = client.act()
        if client.random.random() < 0.15:
            session.close()
            session = open_session(store, new_id=ids)
        told = client.told()
        followed = session.follow(told, system=client.system)
        session.extend(client.list[len(told) :])  # which the log may have on a branch that was left
        plain = open_session()
        plain.extend([system(client.system), *client.list])
        if session.prompt().request != plain.prompt().request:
            wrong.append(f"seed {seed}, move {number}: {move}, {followed.outcome}")
            break
        if session.follow(client.list, system=client.system).outcome != "same":
            wrong.append(f"seed {seed}, move {number}: {move} is not the same again")
            break
    session.close()
    return wrong
