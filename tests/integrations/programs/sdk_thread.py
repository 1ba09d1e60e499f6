"""A hand-written agent that keeps its list in a file, and goes on from there after a crash."""

import json
import sys
from pathlib import Path
from typing import Any

import openai

import foveal
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools: list[Any] = [{"type": "function", "function": {"name": "read_file", "parameters": parameters}}]
plain = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
client = foveal.wrap(plain, session="contract", budget=budget, store=folder / "foveal.db")

kept = folder / "list.json"
messages: list[Any] = json.loads(kept.read_text()) if kept.exists() else [{"role": "user", "content": TASK}]
while True:
    last = messages[-1]
    if last["role"] == "assistant" and not last.get("tool_calls"):
        break
    if last["role"] == "assistant":
        for call in last["tool_calls"]:
            text = killing_read_file(folder, **json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    else:
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
        messages.append(reply.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
    kept.write_text(json.dumps(messages))
sys.stdout.write(messages[-1]["content"])
client.close()
