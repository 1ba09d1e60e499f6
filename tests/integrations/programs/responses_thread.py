"""A hand-written agent over Responses that keeps its items in a file, and goes on from there after a crash."""

import json
import sys
from pathlib import Path
from typing import Any

import openai

import foveal
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
parameters = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools: list[Any] = [{"type": "function", "name": "read_file", "parameters": parameters, "strict": False}]
plain = openai.OpenAI(base_url=f"{url}/v1", api_key="any")
client = foveal.wrap(plain, session="contract", budget=budget, store=folder / "foveal.db")

kept = folder / "items.json"
items: list[Any] = json.loads(kept.read_text()) if kept.exists() else [{"role": "user", "content": TASK}]
while items[-1].get("type") != "message":
    if items[-1].get("type") == "function_call":
        text = killing_read_file(folder, **json.loads(items[-1]["arguments"]))
        items.append({"type": "function_call_output", "call_id": items[-1]["call_id"], "output": text})
    else:
        reply = client.responses.create(model="gpt-5", input=items, tools=tools, store=False)
        items += [item.model_dump(exclude_none=True) for item in reply.output]
    kept.write_text(json.dumps(items))
sys.stdout.write(items[-1]["content"][0]["text"])
client.close()
