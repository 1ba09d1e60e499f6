"""The table of commands: a summary and examples of each, for help that need not load them."""

from typing import NamedTuple


class CommandHelp(NamedTuple):
    """The help of a command: the first line of its module, and lines to type."""

    summary: str
    examples: tuple[str, ...]


COMMANDS: dict[str, CommandHelp] = {
    "demo": CommandHelp(
        "Replay the bundled session and show what Foveal makes of it.", ("foveal demo", "foveal demo --budget 32000")
    ),
    "chat": CommandHelp(
        "Talk to an agent: its words as they come, its calls and questions, and a line with tokens, pressure and cost.",
        (
            "foveal chat",
            "foveal chat --agent mender.toml --session fix-login --store agent.db",
            "foveal chat --model openai:llama@http://localhost:11434/v1",
            "foveal chat --provider scripted",
        ),
    ),
    "run": CommandHelp(
        "Run an agent on a task: it works until it has an answer.",
        (
            "foveal run 'What is this project about?'",
            "foveal run --agent mender.toml --store agent.db 'Mend the failing test.'",
            "foveal run --provider scripted 'Show me that it works.'",
        ),
    ),
    "runs": CommandHelp(
        "List the runs of agents in a store; show one, wait for it, cancel or pause it, tell its tree, cost and audit trail.",
        (
            "foveal runs --store agent.db",
            "foveal runs show default-1f0c#1 --store agent.db",
            "foveal runs cancel default-1f0c --reason 'not needed any more' --store agent.db",
            "foveal runs work --agent mender.toml --store postgresql://agents@db/agents",
            "foveal runs audit default-1f0c --json --store agent.db",
        ),
    ),
    "resume": CommandHelp(
        "Go on with a run that rests, has failed, or was left behind by a process that died.",
        (
            "foveal resume default-1f0c --store agent.db",
            "foveal resume default-1f0c --decision allow --store agent.db",
            "foveal resume default-1f0c 'the second one' --agent mender.toml --store agent.db",
        ),
    ),
    "wrap": CommandHelp(
        "Start an agent whose requests go through Foveal, and say at the end how much was sent.",
        (
            "foveal wrap claude --watch",
            "foveal wrap claude --budget 60000",
            "foveal wrap codex --budget 60000 -- exec 'mend the tests'",
        ),
    ),
    "serve": CommandHelp(
        "Serve a gateway between agents and their providers, until it is told to end.",
        (
            "foveal serve --watch",
            "foveal serve --port 8080 --budget 60000",
            "foveal serve --upstream openai=http://localhost:11434 --budget 30000",
            "foveal serve --agent mender.toml",
        ),
    ),
    "replay": CommandHelp(
        "Replay recorded sessions: what would Foveal have sent for each model call, and at what price?",
        (
            "foveal replay session.jsonl --budget 32000",
            "foveal replay ~/.claude/projects/*/*.jsonl --budget 64000 --html report.html",
            "foveal replay --recent 10 --budget 64000",
            "zcat sessions.jsonl.gz | foveal replay - --budget 32000",
        ),
    ),
    "why": CommandHelp(
        "Explain a prompt: one line an entry, shown how, by which policy, because of what, at how many tokens.",
        (
            "foveal why fix-login --store agent.db",
            "foveal why fix-login --call 12 --entry k3v9x2m1qa --store agent.db",
            "foveal why fix-login --cost --store agent.db",
        ),
    ),
    "view": CommandHelp(
        "Show sessions in the browser: every prompt, call by call, and how sharply each message was shown in it.",
        (
            "foveal view",
            "foveal view fix-login --store agent.db",
            "foveal view session.jsonl --budget 32000 --compare 64000",
            "foveal view session.jsonl --budget 32000 --html session.html",
        ),
    ),
    "events": CommandHelp(
        "Print the events of a session: folds, the provider's counts, recalls, limits that were learned.",
        ("foveal events fix-login --store agent.db", "foveal events fix-login --follow --json --store agent.db"),
    ),
    "show": CommandHelp(
        "Print a prompt as it was (or would be) sent, for reading.",
        ("foveal show fix-login --call 12 --store agent.db",),
    ),
    "recall": CommandHelp(
        "Print the original behind a reference: whole, or some lines, characters or matches of it.",
        (
            "foveal recall fix-login k3v9x2m1qa --store agent.db",
            "foveal recall fix-login k3v9x2m1qa --lines 120-180 --store agent.db",
            "foveal recall fix-login k3v9x2m1qa --pattern 'undefined symbol' --store agent.db",
        ),
    ),
    "search": CommandHelp(
        "Search everything that a session ever saw, and print the best places with their references.",
        (
            "foveal search fix-login session cookie --store agent.db",
            "foveal search fix-login --like 'why was it slow' --store agent.db",
        ),
    ),
    "mcp": CommandHelp(
        "Serve search and recall over some sessions to an MCP client, over standard input and output.",
        ("foveal mcp --session fix-login --store agent.db",),
    ),
    "memory": CommandHelp(
        "List the notes and the sessions of a scope, or forget a note.",
        ("foveal memory project-x --store agent.db", "foveal memory project-x --forget deadline --store agent.db"),
    ),
    "pin": CommandHelp(
        "Pin an entry of a stored session: every prompt shows it in full from now on, and no stage folds it.",
        (
            "foveal pin fix-login k3v9x2m1qa --reason 'the failing test' --store agent.db",
            "foveal pin fix-login k3v9x2m1qa --remove --store agent.db",
        ),
    ),
    "compact": CommandHelp(
        "Fold a stored session now: older messages are covered by a summary, down to half of their tokens.",
        (
            "foveal compact fix-login --dry-run --store agent.db",
            "foveal compact fix-login --summariser openai:gpt-5-mini --store agent.db",
        ),
    ),
    "rewind": CommandHelp(
        "Go back to an earlier entry of a stored session; without one, list its messages and the branches that were left.",
        ("foveal rewind fix-login --store agent.db", "foveal rewind fix-login k3v9x2m1qa --store agent.db"),
    ),
    "policy": CommandHelp(
        "Show the policy that holds: budget, stages, compaction, recall, and each tool's retention with the layer it comes from.",
        ("foveal policy show --policy policy.toml", "foveal policy show bash --policy policy.toml --scenario ci"),
    ),
    "skills": CommandHelp(
        "List the skills below some folders, show one, or install the packages that one needs.",
        ("foveal skills skills", "foveal skills show pdf", "foveal skills install plots --workspace work --allow"),
    ),
    "workspace": CommandHelp(
        "List the workspaces of sessions, or remove those that have not been used for long.",
        ("foveal workspace list", "foveal workspace clean --older-than 7d --apply"),
    ),
    "tune": CommandHelp(
        "Find the policy for your own sessions: replay them under several, choose by cost and by what the agent needed, write "
        "a file.",
        ("foveal tune session.jsonl --budget 32000 --out policy.toml",),
    ),
    "bench": CommandHelp(
        "Ask a real model with whole and with folded prompts of your own sessions, and compare its next actions.",
        (
            "foveal bench session.jsonl --ask gpt-5-mini --budget 32000",
            "foveal bench session.jsonl --ask claude-haiku-4-5 --budget 32000 --calls 100 --output answers.jsonl --yes",
            "foveal bench session.jsonl --ask qwen3 --endpoint http://localhost:11434/v1 --budget 16000",
        ),
    ),
    "models": CommandHelp(
        "List the models whose windows and prices are known.", ("foveal models claude", "foveal models gpt-5 --json")
    ),
    "sessions": CommandHelp(
        "List the sessions of a store: all of them, or by tag, by time, or by words that were said in them.",
        (
            "foveal sessions --store agent.db",
            "foveal sessions --tag release --since 7d --search 'session cookie' --store agent.db",
            "foveal sessions --branches --store agent.db",
        ),
    ),
    "label": CommandHelp(
        "Give a session a title or tags, or take them away.",
        (
            "foveal label fix-login --title 'The login fails on Mondays' --tag release --store agent.db",
            "foveal label fix-login --untag release --no-title --store agent.db",
        ),
    ),
    "export": CommandHelp(
        "Write a session to a file that another store can import: its entries, verified, and its artifacts.",
        ("foveal export fix-login -o fix-login.jsonl --store agent.db",),
    ),
    "import": CommandHelp(
        "Add a session that `foveal export` wrote to a store, verified before anything is kept.",
        (
            "foveal import fix-login.jsonl --store other.db",
            "foveal export fix-login --store agent.db | foveal import - --store other.db",
        ),
    ),
    "delete": CommandHelp(
        "Delete sessions, with their children, artifacts and search indexes.",
        ("foveal delete fix-login --store agent.db", "foveal delete fix-login --yes --store agent.db"),
    ),
    "expire": CommandHelp(
        "Delete the sessions that nobody has written for a while.",
        ("foveal expire --older-than 30d --store agent.db", "foveal expire --older-than 30d --yes --store agent.db"),
    ),
    "backup": CommandHelp(
        "Copy a store to a new file while it is in use, with its artifacts, and verify the copy.",
        ("foveal backup copy.db --store agent.db",),
    ),
    "doctor": CommandHelp(
        "Look for damage in a store; save what is whole into a new one.",
        ("foveal doctor agent.db", "foveal doctor agent.db --salvage new.db"),
    ),
    "store": CommandHelp(
        "Keep house in a store: move it, copy it, examine it, measure it, give its space back.",
        (
            "foveal store migrate agent.db postgresql://agent@db.example/agents",
            "foveal store backup postgresql://agent@db.example/agents copy.db",
            "foveal store doctor postgresql://agent@db.example/agents",
            "foveal store stats agent.db",
            "foveal store vacuum agent.db",
        ),
    ),
    "completion": CommandHelp(
        "Print the completion of this command for a shell.",
        (
            "foveal completion bash > ~/.local/share/bash-completion/completions/foveal",
            "foveal completion zsh > ~/.zfunc/_foveal",
            "foveal completion fish > ~/.config/fish/completions/foveal.fish",
        ),
    ),
}
