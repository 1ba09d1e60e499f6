"""List the skills below some folders, show one, or install the packages that one needs.

`foveal skills install NAME` shows the packages; only with --allow does it install them, into an environment of its own below
the workspace. Packages without hashes need --unlocked as well.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

import msgspec

from foveal.agent.skill_install import install, install_plan
from foveal.cli.arguments import add_json
from foveal.cli.output import Output
from foveal.context.skills import Skills
from foveal.values.errors import BadInput

ROOTS = "FOVEAL_SKILLS"
_HERE = "skills"


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words",
        nargs="*",
        metavar="ROOT",
        help="folders to look in; or `show NAME` for one skill, `install NAME` for its packages",
    )
    parser.add_argument(
        "--root",
        action="append",
        metavar="ROOT",
        help=f"where to look, may be given again (default: ${ROOTS}, parted by {os.pathsep!r}, else ./{_HERE})",
    )
    parser.add_argument("--workspace", metavar="W", help="below which an environment is made, for install")
    parser.add_argument("--allow", action="store_true", help="install what is shown without it")
    parser.add_argument("--unlocked", action="store_true", help="also packages that are not locked by hashes")
    add_json(parser)


def run(args: Namespace, out: Output) -> int | None:
    match args.words:
        case ["show", name]:
            return _show(_found(args.root), name, out)
        case ["install", name]:
            return _install(args, name, out)
        case ["show" | "install" as verb, *_]:
            raise BadInput(f"`foveal skills {verb}` takes the name of one skill; a folder of that name is ./{verb}")
        case roots:
            return _list(_found([*roots, *(args.root or ())]), out)


def _found(given: Sequence[str] | None) -> Skills:
    named = os.environ.get(ROOTS, "").split(os.pathsep)
    return Skills.scan(given or [root for root in named if root] or [_HERE])


def _list(skills: Skills, out: Output) -> int:
    if out.is_json:
        out.document(skills)
    elif skills.skills:
        rows = [(one.name, one.version, one.path, one.description) for one in skills.skills]
        out.table(("skill", "version", "path", "description"), rows, "llll")
    else:
        out.line("no skills")
    if not out.is_json:
        for problem in skills.problems:
            out.line(f"not used: {problem}", "bad")
    return 1 if skills.problems else 0


def _show(skills: Skills, name: str, out: Output) -> None:
    skill, body = skills.get(name), skills.body(name)
    if out.is_json:
        out.document({"skill": skill, "body": body})
        return
    out.line(f"{skill.name}: {skill.description}", "strong")
    facts = (
        ("path", f"{skill.root}/{skill.path}"),
        ("version", skill.version),
        ("license", skill.license),
        ("files that suggest it", ", ".join(skill.files)),
        ("says that it uses", ", ".join(skill.allowed_tools)),
        ("packages", ", ".join(skill.dependencies)),
        ("links that lead nowhere", ", ".join(body.broken)),
    )
    for title, text in facts:
        if text:
            out.line(f"{title}: {text}")
    for resource in body.resources:
        out.line(f"file: {resource.path}, {resource.size_bytes:,} bytes{'' if resource.is_linked else ', not linked'}")
    out.line()
    out.line(body.text)


def _install(args: Namespace, name: str, out: Output) -> None:
    if not args.workspace:
        raise BadInput("say where: `foveal skills install NAME --workspace W` makes an environment below W")
    plan = install_plan(_found(args.root).get(name), args.workspace)
    told = install(plan, allow=args.allow, unlocked=args.unlocked)
    is_done = args.allow and bool(plan.packages)
    if out.is_json:
        out.document(msgspec.to_builtins(plan) | {"is_installed": is_done})
        return
    out.line(told)
    if plan.packages and not args.allow:
        out.line("Say --allow to install them." if plan.is_locked else "Say --allow --unlocked to install them.")
