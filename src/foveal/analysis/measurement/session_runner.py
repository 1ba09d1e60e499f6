"""A policy of Foveal as a runner: one session that is fed the recording and asked for every prompt."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from foveal.analysis.measurement.case import MODEL, Case, Chat, Sent
from foveal.analysis.measurement.grounding import text_seen
from foveal.analysis.replay.replay import recorded_clock
from foveal.recall import tools as recall_tools
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.errors import OverBudget, Unrepresentable
from foveal.values.prompt import Prompt


def run_policy(case: Case, policy: Policy) -> Iterator[Sent]:
    """Yield the prompt of every call of the case under this policy."""
    texts = [text_seen(step.message) for step in case.recording.steps]
    places: dict[str, int] = {}
    with Session(
        MemoryStore(),
        case.id,
        model=Model(MODEL, "openai_chat"),
        policy=policy,
        clock=recorded_clock(case.id),
    ) as session:
        for place, step in enumerate(case.recording.steps):
            if step.message.role == "assistant":
                yield _sent(session, case, places, texts)
            places[session.append(step.message).id] = place


def _sent(session: Session, case: Case, places: dict[str, int], texts: Sequence[str]) -> Sent:
    try:
        prompt = session.prompt(case.tools)
    except (OverBudget, Unrepresentable) as error:
        return Sent(refused=f"{type(error).__name__}: {error}")
    request = prompt.request
    tools: Sequence[Chat] = request.get("tools") or ()
    # Without the recall tools a model cannot follow a reference.
    can_recall = any(tool["function"]["name"] in recall_tools.NAMES for tool in tools)
    return Sent(request["messages"], tools, partial(_offered, prompt, places, texts) if can_recall else tuple[str])


def _offered(prompt: Prompt, places: dict[str, int], texts: Sequence[str]) -> Iterable[str]:
    """Yield the recorded messages behind every reference of the prompt."""
    for atom in prompt.atoms:
        if atom.gap:
            first = places[atom.gap.first]
            yield from texts[first : first + atom.gap.entries]
        for item in atom.items:
            if any(shown.level not in ("full", "hidden") for shown in item.shown):
                yield texts[places[item.id]]
