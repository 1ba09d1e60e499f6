"""Counters of a host's sessions, in the text format of Prometheus."""

import json
import re
from pathlib import Path

from foveal import Host, Policy, Session, ToolCall, Usage, assistant, result, user
from foveal.integrations.prometheus import HELP, SessionMetrics
from foveal.stores.memory import MemoryStore

DASHBOARD = Path(__file__).parents[2] / "docs" / "grafana.json"


def test_the_counters_add_up() -> None:
    """Calls, tokens sent and counted, folds: of two sessions together, each line in the format that is scraped."""
    metrics = SessionMetrics()
    sent = 0
    for name in ("a", "b"):
        host = Host(on_event=metrics)
        with Session(MemoryStore(), name, model="gpt-5", policy=Policy(max_context_tokens=4_000), host=host) as session:
            session.append(user("Read everything."))
            for n in range(20):
                prompt = session.prompt()
                sent += prompt.tokens
                call = ToolCall(f"c{n}", "read_file", "{}")
                session.extend([assistant("", call), Usage("gpt-5", prompt.tokens, 9, 100)])
                session.append(result(f"c{n}", "\n".join(f"value_{n}_{i} = {i * n}" for i in range(60))))
    text = metrics.text()
    values = {name: int(value) for name, value in re.findall(r"^(foveal_\w+) (\d+)$", text, re.M)}
    assert values["foveal_calls_total"] == 40
    assert values["foveal_sent_tokens_total"] == values["foveal_input_tokens_total"] == sent
    assert values["foveal_cached_tokens_total"] == 4_000
    assert values["foveal_output_tokens_total"] == 360
    assert values["foveal_folds_total"] > 1
    assert values["foveal_rebilled_tokens_total"] > 0
    for line in text.splitlines():
        assert re.fullmatch(r"# (HELP|TYPE) foveal_\w+_total .+|foveal_\w+_total \d+", line)


def test_the_dashboard_asks_only_for_metrics_that_there_are() -> None:
    """Every expression of the Grafana dashboard names counters of the gateway or of hosts."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    asked = {
        name for panel in panels for target in panel["targets"] for name in re.findall(r"foveal_\w+", target["expr"])
    }
    assert len(asked) > 6
    assert asked <= {f"foveal_{name}_total" for name in HELP}
