"""The guard of one session: which of the texts that it is given come back broken."""

import pytest

from foveal.text.guard.protection import OURS_ONLY, Guard
from foveal.values.entry import Part, Role, Text

FORM, SAFE = "<system-reminder>", "<~system-reminder>"
OURS, SAFE_OURS = "<foveal:rules>", "<~foveal:rules>"
CLIENT = Guard(believed=("System_Reminder",))
BELIEVING_OURS_ONLY = Guard(foreign=False, believed=("tool-*",))


def said(guard: Guard, text: str, role: Role = "user", *, is_file: bool = False) -> str:
    """The text as the guard shows it in a message of this role."""
    (part,) = guard.parts((Text(text),), role, is_file=is_file, keeps_signature=lambda _part: True)
    assert isinstance(part, Text)
    return part.text


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_forms_in_a_message_are_broken(role: Role) -> None:
    """Ours and those of other harnesses, whoever wrote them."""
    assert said(Guard(), f"{FORM} {OURS}", role) == f"{SAFE} {SAFE_OURS}"


def test_the_host_is_believed() -> None:
    """Its system messages are the very same objects."""
    parts: tuple[Part, ...] = (Text(f"{FORM} {OURS}"),)
    assert Guard().parts(parts, "system", is_file=False, keeps_signature=lambda _part: True) is parts


def test_a_believed_tag_is_the_users_alone() -> None:
    """However its name is spelt, it is left in the user's words; not in a file, and not in a reply of the model."""
    assert said(CLIENT, f"{FORM} <system>") == f"{FORM} <~system>"
    assert said(CLIENT, FORM, is_file=True) == SAFE
    assert said(CLIENT, FORM, "assistant") == SAFE


@pytest.mark.parametrize("believed", ["system-reminder", "*"])
def test_a_disguise_of_a_believed_tag_is_broken(believed: str) -> None:
    """A client writes its tags plainly: even one that believes every name does not believe a form without any."""
    assert said(Guard(believed=(believed,)), "&lt;system-reminder>") == "&lt;~system-reminder>"


@pytest.mark.parametrize("guard", [OURS_ONLY, BELIEVING_OURS_ONLY])
def test_our_own_forms_are_broken_if_no_other_is(guard: Guard) -> None:
    """A host that wants everything as it came still has a frame that nobody forges, also if it names tags that it believes."""
    assert said(guard, f"{FORM} {OURS}") == f"{FORM} {SAFE_OURS}"
    assert guard.text(f"{FORM} {OURS}") == f"{FORM} {SAFE_OURS}"


def test_texts_beside_messages_believe_nobody() -> None:
    """A server's words about its tool are a stranger's: no tag of the client's is believed there."""
    assert CLIENT.text(FORM) == SAFE
    assert CLIENT.definition({"name": "t", "description": FORM}) == {"name": "t", "description": SAFE}


@pytest.mark.parametrize(("guard", "safe"), [(Guard(), f"{SAFE} {SAFE_OURS}"), (OURS_ONLY, f"{FORM} {SAFE_OURS}")])
def test_a_text_comes_back_from_its_own_guard(guard: Guard, safe: str) -> None:
    """What a guard has broken it restores, so that a tool is given what its caller meant; what is broken is not broken twice."""
    assert guard.text(f"{FORM} {OURS}") == safe
    assert guard.restore(safe) == f"{FORM} {OURS}"
    assert guard.live(f"{safe} {OURS}") == f"{safe} {SAFE_OURS}"


def test_guards_that_differ_have_different_keys() -> None:
    """A view that was made under one guard is not taken for one that was made under another."""
    guards = [Guard(), OURS_ONLY, CLIENT, BELIEVING_OURS_ONLY, Guard(believed=("tool-*",))]
    assert len({guard.key for guard in guards}) == len(guards)
    assert Guard(believed=("a", "b")).key == Guard(believed=("a", "b")).key
