"""A hand-written agent over Messages that keeps its list in a file, and goes on from there after a crash."""

import json
import sys
from pathlib import Path
from typing import Any

import anthropic

import foveal
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools: list[Any] = [{"name": "read_file", "input_schema": schema}]
plain = anthropic.Anthropic(base_url=url, api_key="any")
client = foveal.wrap(plain, session="contract", budget=budget, store=folder / "foveal.db")

kept = folder / "list.json"
messages: list[Any] = json.loads(kept.read_text()) if kept.exists() else [{"role": "user", "content": TASK}]
while True:
    last = messages[-1]
    calls = [block for block in last["content"] if block["type"] == "tool_use"] if last["role"] == "assistant" else []
    if last["role"] == "assistant" and not calls:
        break
    if calls:
        texts = [(call["id"], killing_read_file(folder, **call["input"])) for call in calls]
        results = [{"type": "tool_result", "tool_use_id": call, "content": text} for call, text in texts]
        messages.append({"role": "user", "content": results})
    else:
        reply = client.messages.create(model="claude-opus-4-8", max_tokens=1_000, messages=messages, tools=tools)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
    kept.write_text(json.dumps(messages))
sys.stdout.write(messages[-1]["content"][0]["text"])
client.close()
