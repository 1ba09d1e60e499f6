"""Small recorded sessions, made to measure policies on."""

from foveal.analysis.measurement.case import case_of
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.values.entry import ToolCall, assistant, result, system, user


def recorded(turns=20, words=200, name="session", uses=None):
    """A session in which turn `i` reads `file_i.py`; `uses[i]` is what the call of turn `i` takes over from before."""
    messages = [system("You are careful."), user("Find out why login_cookie_value is lost, please, and mend it.")]
    for i in range(turns):
        said = (uses or {}).get(i, f"src/file_{i}.py")
        messages.append(assistant("", ToolCall(f"call_{i}", "read", f'{{"path": "{said}"}}')))
        lines = "\n".join(f"line {n} of the file with number {i} says {'word ' * 8}" for n in range(words // 16))
        messages.append(result(f"call_{i}", f"def secret_{i}_name():\n{lines}"))
    return Recording(name, "test", None, "[]", tuple(RecordedStep(message) for message in messages))


def rereading(turns=60, name="session"):
    """A session that reads one file again and again."""
    messages = [system("You are careful."), user("Mend the login, please.")]
    text = "\n".join(f"line {n} of the file says {'word ' * 8}" for n in range(60))
    for i in range(turns):
        messages.append(assistant("", ToolCall(f"call_{i}", "read_file", '{"path": "src/login.py"}')))
        messages.append(result(f"call_{i}", text))
    return case_of(Recording(name, "test", None, "[]", tuple(map(RecordedStep, messages))), "tests", frozenset())


def case(turns=20, words=200, name="session", uses=None, common=frozenset()):
    return case_of(recorded(turns, words, name, uses), "tests", common)
