"""An agent on OpenAI's Chat API: a tool loop with streaming, that can be cancelled and started again at any time.

    pip install '.[openai]'
    OPENAI_API_KEY=… python examples/openai_agent.py "What is this project about?"
    python -m foveal.testing.provider examples/openai_agent.py        # without a key, against a scripted model

Started again with the same question it goes on where it was, or says that it is done; with another question the conversation
continues. Any server that speaks the Chat API will do: set OPENAI_BASE_URL.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import openai

import foveal

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of the current folder.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
]


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask an agent that can read the files of this folder.")
    parser.add_argument("question", nargs="?", default="What is this project about?")
    parser.add_argument("--store", default="agent.db")
    parser.add_argument("--session", default="openai-agent")
    parser.add_argument("--model", default="gpt-5")
    parser.add_argument("--budget", type=int, default=80_000, help="tokens of a prompt")
    args = parser.parse_args()

    policy = foveal.Policy(max_context_tokens=args.budget)
    with foveal.open_store(args.store) as store, openai.OpenAI() as client:
        # The `with` gives the session back when the program ends, whatever happens: another process may go on with it.
        with foveal.Session(store, args.session, model=args.model, policy=policy) as session:
            # An entry with an id of its own is kept once, however often the program runs.
            session.append(foveal.system("You answer questions about files. Read before you answer."), id="system")
            session.append(foveal.user(args.question), id=f"question-{digest(args.question)}")
            try:
                run(session, client)
            except KeyboardInterrupt:
                print("\ncancelled; run it again to go on", file=sys.stderr)
                return 130
    return 0


def run(session: foveal.Session, client: openai.OpenAI) -> None:
    """Call the model until it has answered."""
    newest = session.view.atoms[-1]
    if (
        newest.kind == "assistant" and newest.items[0].repair
    ):  # cut off in the run before: the words that came are shown
        session.append(foveal.user("Go on."))
    elif newest.kind == "assistant":  # the newest entry is an answer
        print("That is answered:", session.recall(newest.last))
        return
    while session.view.atoms[-1].kind != "assistant":
        # `serve` answers calls to Foveal's own tools (recall, search) and returns the others, among them those of a run
        # that was cancelled before it had their results.
        for call in session.serve():
            session.append(foveal.result(call.id, run_tool(call)))
        prompt = session.prompt(TOOLS)
        try:
            stream(session, client, prompt)
        except openai.BadRequestError as error:  # too long for the model after all? Then fold, and ask once more.
            stream(session, client, session.compaction.recover(error, TOOLS))


def stream(session: foveal.Session, client: openai.OpenAI, prompt: foveal.Prompt) -> None:
    """Print the reply as it comes, and keep it: whole, or as far as it came."""
    heard: list[str] = []
    try:
        with client.chat.completions.stream(**prompt.request, stream_options={"include_usage": True}) as events:
            for event in events:
                if event.type == "content.delta" and event.delta:
                    heard.append(event.delta)
                    print(event.delta, end="", flush=True)
            session.append(events.get_final_completion())  # text, tool calls and usage
            if heard:
                print()
    except BaseException:  # Ctrl-C, a connection that broke
        if heard:  # stays in the log for people; the next prompt leaves it out, so that it is valid
            session.append(foveal.Message("assistant", (foveal.Text("".join(heard)),), stop="aborted"))
        raise


def run_tool(call: foveal.ToolCall) -> str:
    """Return the file, or why it cannot be had: the model reads both."""
    try:
        path = Path(json.loads(call.arguments)["path"]).resolve()
        if not path.is_relative_to(Path.cwd()):
            return f"{path} is outside of this folder"
        print(f"[reading {path.name}]")
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError, KeyError) as error:
        return f"this did not work: {error}"


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
