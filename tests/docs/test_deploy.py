"""The deployment examples are files that their tools would read, and their gateways start."""

import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from foveal.cli import main
from foveal.gateway.operations import HEALTH_PATH

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
COMPOSE, KUBERNETES = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SECRET = re.compile(r"(\w+)=\$\$\(cat /run/secrets/(\w+)\)")


def compose_gateway() -> tuple[list[str], set[str]]:
    """Return the words after `foveal` of the Compose example, and the variables that its command sets from secrets."""
    service = COMPOSE["services"]["gateway"]
    command = re.search(r"foveal (.*)'$", service["command"])
    assert command is not None
    secrets = SECRET.findall(service["command"])
    assert {name for _, name in secrets} == set(service["secrets"])
    return command[1].split(), {variable for variable, _ in secrets}


def kubernetes_gateway() -> tuple[list[str], set[str]]:
    """Return the words after `foveal` of the Kubernetes example, and the variables that it sets from secrets."""
    (container,) = KUBERNETES["spec"]["template"]["spec"]["containers"]
    program, *words = container["args"]
    assert program == "foveal"
    return words, {one["name"] for one in container["env"] if "secretKeyRef" in one.get("valueFrom", {})}


def test_the_examples_are_yaml_that_names_what_it_uses():
    """The Compose file names its services, volumes and secrets; the Deployment selects its own pods."""
    assert set(COMPOSE) == {"services", "volumes", "secrets"}
    for service in COMPOSE["services"].values():
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    assert KUBERNETES["spec"]["selector"]["matchLabels"] == KUBERNETES["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("example", [compose_gateway, kubernetes_gateway])
def test_the_gateway_of_an_example_starts(
    example: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """Its command is accepted with the variables that the example sets, up to the point where it would serve."""
    words, secrets = example()
    place = words.index("--port") + 1
    assert words[place] == "8080"
    words[place] = "0"  # a free one
    for variable in ("FOVEAL_GATEWAY_TOKEN", "PGPASSWORD"):
        monkeypatch.delenv(variable, raising=False)
    for variable in secrets:
        monkeypatch.setenv(variable, "of the secret")
    monkeypatch.setenv("FOVEAL_STORE", str(tmp_path / "agents.db"))
    monkeypatch.setattr("foveal.gateway.server.serve", lambda gateway, listener: None)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert main(words) == 0, capsys.readouterr().err
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "Every request needs the header x-foveal-token" in capsys.readouterr().out


def test_the_probes_ask_the_health_address():
    """Both examples ask the address that the gateway answers without a token, on the port that it listens on."""
    (container,) = KUBERNETES["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": HEALTH_PATH, "port": 8080}
    assert f"127.0.0.1:8080{HEALTH_PATH}'" in COMPOSE["services"]["gateway"]["healthcheck"]["test"][-1]
