"""The check of `foveal wrap`: client, provider, key and store, and one request through the gateway if that is wished."""

import subprocess
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from foveal.analysis.replay.report import counted
from foveal.cli.arguments import command_line
from foveal.cli.gateway_options import opened_gateway, store_file
from foveal.cli.output import Output
from foveal.gateway.clients import Client, ClientUser, Detour, client_environment, find_detour

if TYPE_CHECKING:
    from foveal.gateway.app import Gateway

SEND = "send"
"""The word behind --check that allows a request."""

PROMPT = "Reply with the word OK."
_ANSWERS_S = 10.0
_DONE_S = 180.0
_MOST_TOLD = 300


class CheckFinding(NamedTuple):
    """One line of the check."""

    about: str
    text: str
    is_good: bool = True


def check(args: Namespace, client: Client, program: str, user: ClientUser, out: Output) -> int:
    """Print the findings, and return the exit code: 1 if something is in the way."""
    findings = [CheckFinding("client", program)]
    detour = find_detour(client, user)
    findings += _reached(client, user)
    findings.append(_key(client, user))
    lines: list[str] = []
    with opened_gateway(args, upstreams=detour.upstreams, tell=lines.append) as gateway:
        findings.append(CheckFinding("store", str(store_file(args))))
        if args.check == SEND:
            findings += _sent(args, client, user, program=program, detour=detour, gateway=gateway)
    findings += [CheckFinding("gateway", line, is_good=False) for line in dict.fromkeys(lines)]
    for one in findings:
        out.line(f"{'ok' if one.is_good else '!!'}  {one.about + ':':10}{one.text}")
    if args.check != SEND:
        again = f"{command_line()} wrap {client.command} --check {SEND}"
        out.line(
            f"Nothing was sent to a model. {again} lets {client.command} make one short request through the gateway."
        )
    return 0 if all(one.is_good for one in findings) else 1


def _key(client: Client, user: ClientUser) -> CheckFinding:
    if found := client.credentials(user):
        return CheckFinding("key", found)
    if client.logins:  # on some systems it is in a place of the system's own
        return CheckFinding("key", f"none seen; if {client.command} asks for one, log in or set ${client.keys[0]}")
    return CheckFinding("key", f"none; set ${client.keys[0]}: a login does not go through the gateway", is_good=False)


def _reached(client: Client, user: ClientUser) -> Iterator[CheckFinding]:
    """Yield for each upstream whether it answers at all. No key is sent."""
    http: Any = import_module("httpx2")
    for provider, address in client.addresses(user).items():
        shown = http.URL(address).copy_with(userinfo=b"", query=None)
        try:
            status = http.head(address, timeout=_ANSWERS_S).status_code
            yield CheckFinding("upstream", f"{provider} at {shown} answers (HTTP {status} without a key)")
        except http.HTTPError as error:
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            text = f"{provider} at {shown} does not answer ({why}); check the network, a proxy, and the address"
            yield CheckFinding("upstream", text, is_good=False)


def _sent(
    args: Namespace, client: Client, user: ClientUser, *, program: str, detour: Detour, gateway: "Gateway"
) -> Iterator[CheckFinding]:
    """Run the client once, and yield the findings of the gateway."""
    served = import_module("foveal.gateway.server").served
    with tempfile.TemporaryDirectory(prefix="foveal-") as folder, served(gateway) as address:
        launch = client.launch(user, detour.by(address), Path(folder))
        command = [program, *launch.arguments, *client.once, PROMPT, *args.others]
        try:
            ran = subprocess.run(  # noqa: S603 - the user's own
                command,
                env=client_environment(user, launch),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_DONE_S,
                check=False,
            )
            code, said = ran.returncode, ran.stderr.strip() or ran.stdout.strip()
        except subprocess.TimeoutExpired:
            code, said = 1, f"it was not done after {_DONE_S:.0f} seconds"
    figures = gateway.conversations.figures
    if figures.calls:
        size = f"{figures.asked_tokens:,} tokens asked for, {figures.sent_tokens:,} sent"
        yield CheckFinding("request", f"{counted(figures.calls, 'call')} managed, {size}")
    elif figures.unmanaged:
        yield CheckFinding("request", f"passed on as it came: {gateway.conversations.passed_because}", is_good=False)
    else:
        text = f"no request of {client.command} was answered through the gateway"
        why = (
            ""
            if code
            else "; it may be set up for another address (a settings file, Bedrock, Vertex, another provider)"
        )
        yield CheckFinding("request", text + why, is_good=False)
    if code:
        yield CheckFinding(client.command, f"exit code {code}: {said[-_MOST_TOLD:]}", is_good=False)
