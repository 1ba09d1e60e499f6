"""Options of the commands that open a gateway, and the gateway that they describe."""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from foveal.agent.agent import Agent
from foveal.cli.arguments import open_place, positive
from foveal.cli.budget import with_budget
from foveal.gateway.bodies import MOST_BODY_MB
from foveal.gateway.conversations import MOST_OPEN
from foveal.session.policy import Policy
from foveal.session.policy_file import read_policy
from foveal.stores.place import DatabaseAddress, find_place
from foveal.values.errors import BadInput, MissingExtra

if TYPE_CHECKING:
    from foveal.gateway.app import Gateway

STORE = "~/.foveal/gateway.db"
_PACKAGES = ("httpx2", "starlette", "uvicorn")


def add_gateway(parser: ArgumentParser) -> None:
    """Add the options of a gateway."""
    parser.add_argument("--budget", metavar="N", type=positive, help="the most tokens that are sent for a call")
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="a policy in TOML or YAML; --budget overrides its budget"
    )
    parser.add_argument(
        "--store",
        metavar="PLACE",
        default=os.environ.get("FOVEAL_STORE") or STORE,
        help=f"the store for the sessions: a file, or postgresql://… (default: $FOVEAL_STORE, else {STORE})",
    )
    parser.add_argument(
        "--watch", action="store_true", help="forward everything unchanged, and say how much would have been sent"
    )
    parser.add_argument(
        "--max-body",
        metavar="MB",
        type=positive,
        default=MOST_BODY_MB,
        help=f"the most megabytes of a request; uploads of files have no limit here (default: {MOST_BODY_MB})",
    )
    parser.add_argument(
        "--most-open",
        metavar="N",
        type=positive,
        default=MOST_OPEN,
        help=f"the most conversations that are kept open; any other is opened again by its next call (default: {MOST_OPEN})",
    )
    parser.set_defaults(json=False)


def require_gateway() -> None:
    """Raise `MissingExtra` if the packages of the gateway are not installed."""
    if any(find_spec(name) is None for name in _PACKAGES):
        raise MissingExtra("The gateway", "gateway")


@contextmanager
def opened_gateway(
    args: Namespace,
    *,
    upstreams: Mapping[str, str],
    tell: Callable[[str], None],
    token: str = "",
    agents: Sequence[Agent] = (),
) -> Generator["Gateway"]:
    """Open the store and a gateway on it, until the block ends."""
    require_gateway()
    kind: type[Gateway] = import_module("foveal.gateway.app").Gateway
    policy = _policy(args)
    file = store_file(args)
    with open_place(file) as store:
        yield kind(
            store,
            policy,
            upstreams=upstreams,
            watch=args.watch,
            token=token,
            tell=tell,
            place=str(file),
            most_body_mb=args.max_body,
            most_open=args.most_open,
            agents=agents,
        )


def store_file(args: Namespace) -> Path | DatabaseAddress:
    """Return the place of the store; the default one's folder is made for its owner alone."""
    place = find_place(args.store)
    if not isinstance(place, Path):
        return place
    path = place.expanduser().absolute()
    if args.store == STORE:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise BadInput(f"the store {STORE} cannot be made ({why}); name one with --store") from None
    return path


def _policy(args: Namespace) -> Policy:
    policy = read_policy(args.policy) if args.policy else Policy()
    return with_budget(policy, args.budget) if args.budget else policy
