"""The deployment examples are files that their tools would read."""

import re
from pathlib import Path

import yaml

from foveal.cli.parser import parse

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")


def test_the_examples_are_yaml_and_their_commands_are_understood():
    """The compose file names its services, volumes and secrets; the command of each container is one that Foveal takes."""
    compose, kubernetes = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    assert set(compose) == {"services", "volumes", "secrets"}
    for service in compose["services"].values():
        assert set(service.get("secrets", [])) <= set(compose["secrets"])
    command = re.search(r"foveal (.*)'$", compose["services"]["gateway"]["command"])
    assert command is not None
    (container,) = kubernetes["spec"]["template"]["spec"]["containers"]
    for words in (command[1].split(), container["args"][1:]):
        assert parse(words).port == 8080
    assert kubernetes["spec"]["selector"]["matchLabels"] == kubernetes["spec"]["template"]["metadata"]["labels"]
