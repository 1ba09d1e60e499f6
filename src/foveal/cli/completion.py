"""Print the completion of this command for a shell.

Write it to a file that the shell reads: see the examples. Commands and options are completed; all else are files.
"""

from argparse import Action, ArgumentParser, Namespace

from foveal.cli.arguments import add_json
from foveal.cli.commands import COMMANDS
from foveal.cli.output import Output
from foveal.cli.parser import make_parser, subcommands

SHELLS = ("bash", "zsh", "fish")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)
    add_json(parser)


def run(args: Namespace, out: Output) -> None:
    words = {name: _words(parser) for name, parser in subcommands(make_parser(())).items()}
    text = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](words)
    if out.is_json:
        out.document({"shell": args.shell, "script": text})
    else:
        out.raw(text)


def _words(parser: ArgumentParser) -> list[str]:
    """Return the options and the subcommands of a command."""
    actions: list[Action] = parser._actions  # pyright: ignore[reportPrivateUsage] - argparse has no other way
    options = [option for action in actions for option in action.option_strings]
    inner = subcommands(parser)
    choices = [
        str(one) for action in actions if not action.option_strings and not inner for one in action.choices or ()
    ]
    nested = [option for one in inner.values() for option in _words(one)]
    return list(dict.fromkeys([*inner, *choices, *options, *nested]))


def _bash(words: dict[str, list[str]]) -> str:
    arms = "".join(f'        {name}) words="{" ".join(found)}" ;;\n' for name, found in words.items())
    return f"""# Completion of foveal for bash.
_foveal() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words="{" ".join(words)} --help --version"
    if [ "$COMP_CWORD" -gt 1 ]; then
        case "${{COMP_WORDS[1]}}" in
{arms}        *) words="" ;;
        esac
    fi
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
}}
complete -o default -F _foveal foveal
"""


def _zsh(words: dict[str, list[str]]) -> str:
    names = "\n".join(
        f"        '{name}:{COMMANDS[name].summary.replace(chr(39), '').replace(':', ',')}'" for name in words
    )
    arms = "".join(f"        {name}) compadd -- {' '.join(found)} ;;\n" for name, found in words.items())
    return f"""#compdef foveal
# Completion of foveal for zsh.
_foveal() {{
    local -a commands=(
{names}
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case "$words[2]" in
{arms}    esac
    _files
}}
if [ "$funcstack[1]" = "_foveal" ]; then _foveal "$@"; else compdef _foveal foveal; fi
"""


def _fish(words: dict[str, list[str]]) -> str:
    lines = ["# Completion of foveal for fish."]
    for name, found in words.items():
        about = COMMANDS[name].summary.replace("'", "")
        lines.append(f"complete -c foveal -n __fish_use_subcommand -f -a {name} -d '{about}'")
        lines += [f"complete -c foveal -n '__fish_seen_subcommand_from {name}' {_fish_word(word)}" for word in found]
    return "\n".join(lines) + "\n"


def _fish_word(word: str) -> str:
    if word.startswith("--"):
        return f"-l {word[2:]}"
    return f"-s {word[1:]}" if word.startswith("-") else f"-a {word}"
