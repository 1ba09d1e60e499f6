// @ts-check
/**
 * An agent in TypeScript or JavaScript, on the HTTP API of a Foveal gateway: a tool loop with `fetch` and no package.
 *
 *     foveal serve --budget 60000
 *     OPENAI_API_KEY=… node examples/typescript/agent.mjs "What is this project about?"
 *
 * Node 18 or newer runs it as it is; TypeScript checks it by the types in its comments (`tsc --checkJs --strict`). Started again with
 * the same question it goes on where it was. `--forget` deletes the session at the end.
 */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { basename } from "node:path";
import process from "node:process";

/** @typedef {{ id: string, name: string, arguments: string }} ToolCall */
/** @typedef {{ request: Record<string, unknown>, call: number, tokens: number, raw_tokens: number, limit: number }} Prompt */
/** @typedef {{ entry: string, kind: string, shown: string, tokens: number, because: string }} TraceLine */
/** @typedef {{ ref: string, kind: string, snippet: string }} Hit */

const GATEWAY = process.env.FOVEAL_URL ?? "http://127.0.0.1:4141";
const PROVIDER = process.env.OPENAI_BASE_URL ?? "https://api.openai.com/v1";
const KEY = `Bearer ${process.env.OPENAI_API_KEY ?? ""}`;
const MODEL = process.env.MODEL ?? "gpt-5";

const TOOLS = [
  {
    name: "read_file",
    description: "Read a file of the current folder.",
    parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
  },
];

/**
 * Send JSON and return the JSON of the answer.
 * @param {string} url
 * @param {string} method
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
async function send(url, method, body) {
  /** @type {Record<string, string>} */
  const headers = { authorization: KEY }; // the session is that of this key: no other one can read it
  if (body !== undefined) headers["content-type"] = "application/json";
  if (process.env.FOVEAL_GATEWAY_TOKEN && url.startsWith(GATEWAY)) {
    headers["x-foveal-token"] = process.env.FOVEAL_GATEWAY_TOKEN;
  }
  const reply = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await reply.text();
  if (!reply.ok) throw new Error(`${method} ${url}: ${reply.status} ${text}`);
  return JSON.parse(text);
}

/** A session of the gateway, with the verbs of the library. */
class Session {
  /** @param {string} name */
  constructor(name) {
    this.address = `${GATEWAY}/foveal/v1/sessions/${encodeURIComponent(name)}`;
    this.name = name;
  }

  /** @param {string} model */
  create(model) {
    return send(`${GATEWAY}/foveal/v1/sessions`, "POST", { name: this.name, model });
  }

  /**
   * Keep a message in any provider's form, or a reply as it came. With an id it is kept once, however often the program runs.
   * @param {unknown} item
   * @param {string} [id]
   */
  append(item, id) {
    return send(`${this.address}/append`, "POST", { item, id });
  }

  /** @returns {Promise<Prompt>} */
  prompt() {
    return send(`${this.address}/prompt`, "POST", { tools: TOOLS });
  }

  /** @returns {Promise<{ calls: ToolCall[] }>} */
  serve() {
    return send(`${this.address}/serve`, "POST", {});
  }

  /** @returns {Promise<{ trace: { lines: TraceLine[] } }>} */
  why() {
    return send(`${this.address}/why`, "GET");
  }

  /**
   * @param {string} words
   * @returns {Promise<{ hits: Hit[] }>}
   */
  search(words) {
    return send(`${this.address}/search?${new URLSearchParams({ words, limit: "3" })}`, "GET");
  }

  delete() {
    return send(this.address, "DELETE");
  }
}

/**
 * Run a tool; its failure is a result as well.
 * @param {ToolCall} call
 * @returns {Promise<string>}
 */
async function run(call) {
  try {
    const { path } = JSON.parse(call.arguments);
    console.log(`[reading ${path}]`);
    return await readFile(basename(path), "utf8");
  } catch (error) {
    return `error: ${error}`;
  }
}

/**
 * Call the model until it has answered.
 * @param {Session} session
 * @returns {Promise<string>}
 */
async function answer(session) {
  for (;;) {
    const { calls } = await session.serve(); // those of Foveal's own tools are answered already
    for (const call of calls) {
      await session.append({ role: "tool", tool_call_id: call.id, content: await run(call) });
    }
    const prompt = await session.prompt(); // fits, valid, cached as far as possible
    const reply = await send(`${PROVIDER}/chat/completions`, "POST", prompt.request);
    await session.append(reply); // kept as it came, usage included
    const message = reply.choices[0].message;
    if (!message.tool_calls?.length) return message.content;
  }
}

const words = process.argv.slice(2).filter((word) => !word.startsWith("--"));
const question = words[0] ?? "What is this project about?";
const session = new Session(`typescript-${createHash("sha256").update(question).digest("hex").slice(0, 12)}`);

await session.create(MODEL);
await session.append({ role: "system", content: "You answer questions about files. Read before you answer." }, "system");
await session.append({ role: "user", content: question }, "question");
console.log(await answer(session));

for (const line of (await session.why()).trace.lines) {
  console.log(`${line.entry.slice(0, 10).padEnd(10)}  ${line.kind.padEnd(9)}  ${line.shown}  ${line.tokens}`);
}
for (const hit of (await session.search(question)).hits) {
  console.log(`${hit.ref}: ${hit.snippet}`);
}
if (process.argv.includes("--forget")) {
  const { sessions } = await session.delete();
  console.log(`deleted ${sessions.length} session`);
}
