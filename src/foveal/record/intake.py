"""Items that a host appends, as bodies of entries: messages and marks as they are, messages and replies of providers read."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec

from foveal import recall
from foveal.dialects import find_dialect
from foveal.dialects.port import Dialect, WireReply
from foveal.record.client_list import LISTS
from foveal.record.overflow import silent_overflow
from foveal.stores import rows as log
from foveal.stores.large_results import offload
from foveal.stores.port import Store
from foveal.text.redaction import Redactor, redacted
from foveal.values.call_ids import with_own_ids
from foveal.values.entry import Body, Message, News, Opaque, Pin, PromptContext, Setup, ToolCall
from foveal.values.errors import BadEntry, BadInput


class AskedModel(NamedTuple):
    """The model that replies come from, with its dialect and its window."""

    dialect: Dialect
    model: str
    window: int
    reports: tuple[tuple[int, int], ...] = ()
    """(Our count, the provider's count) of its newest calls."""
    renamed: Mapping[str, str] = MappingProxyType({})
    """The host's names of tools that were offered under another one, by the names that the model knows."""


_WITH_CONTENT = ("openai_chat", "openai_responses", "anthropic")
"""The dialects whose messages have a role and `content`, and may have nothing else."""

_OWN_KEYS = {
    "parts": ("gemini",),
    "call_id": ("openai_responses",),
    **dict.fromkeys(("tool_calls", "tool_call_id", "function_call"), ("openai_chat",)),
}
"""Keys of a message by which its dialect is known."""


def bodies(
    item: object,
    store: Store,
    session: str,
    asked: AskedModel,
    *,
    estimated: int | None,
    redact: Redactor | None = None,
) -> list[log.EncodedBody]:
    """Return the bodies of an item. `estimated` is our own count of the prompt that the item may be the reply to."""
    if isinstance(item, Message):
        clean = _redacted(item, redact)
        return [log.checked_message(_with_host_names(offload(store.artifacts_for(session), clean), asked.renamed))]
    if isinstance(item, WireReply):
        own = WireReply(_with_own_ids(item.message), item.usage)
        return reply_bodies(own, asked, estimated=estimated, redact=redact)
    if isinstance(item, Setup | PromptContext | News):
        raise BadEntry(f"a {type(item).__name__} is recorded by the session itself, with the prompt that it describes")
    if isinstance(item, Pin):
        check_pin(item, store, session)
    if isinstance(item, Body.__args__):
        return [log.checked_body(cast("Body", item))]
    plain = _plain(item)
    if plain is None:
        raise BadInput(f"a {type(item).__name__} is neither an entry nor a message or reply of a provider's SDK")
    if _is_wire_message(plain):
        read = (_redacted(_with_own_ids(message), redact) for message in _read_message(plain, asked))
        return [
            log.checked_message(_with_host_names(offload(store.artifacts_for(session), message), asked.renamed))
            for message in read
        ]
    return _read_reply(plain, asked, estimated, redact)


def _is_wire_message(plain: Mapping[str, Any]) -> bool:
    """Return whether this is one message of a request, and no reply: a reply says how it ended."""
    is_item = str(plain.get("type", "")).endswith("call_output")
    return is_item or ("role" in plain and not {"stop_reason", "usage"} & plain.keys())


def _read_message(plain: Mapping[str, Any], asked: AskedModel) -> tuple[Message, ...]:
    """Return a message as any of the four formats writes it: the model's own is tried first, and all that read it whole."""
    problems: list[str] = []
    partly: tuple[Message, ...] = ()
    named = next((names for key, names in _OWN_KEYS.items() if key in plain), _WITH_CONTENT)
    for name in sorted(named, key=lambda name: name != asked.dialect.name):
        try:
            request = find_dialect(name).reader.request({LISTS[name]: [plain], "model": asked.model})
        except BadInput as error:
            problems.append(str(error))
            continue
        found = (*request.system, *request.messages)
        if found and not any(isinstance(part, Opaque) for message in found for part in message.parts):
            return found
        partly = partly or found
    if partly:
        return partly
    said = problems[0] if problems else "it holds nothing"
    raise BadInput(f"this message is not of the format {' or '.join(named)}: {said}")


def check_pin(pin: Pin, store: Store, session: str) -> None:
    """Raise `BadEntry` for a pin without a target, or of a passage that its entry does not hold."""
    if bool(pin.entry) == bool(pin.tool):
        raise BadEntry("a pin names an entry or a tool, one of the two")
    if pin.text and pin.text not in recall.read(store, session, f"{pin.entry}..{pin.entry}"):
        raise BadEntry(f"the passage to pin, {pin.text[:40]!r}, does not stand in entry {pin.entry}")


def _redacted(message: Message, redact: Redactor | None) -> Message:
    """Return the message without its secrets, if somebody looks for them."""
    return message if redact is None else redacted(message, redact)


def _read_reply(
    plain: Mapping[str, Any], asked: AskedModel, estimated: int | None, redact: Redactor | None
) -> list[log.EncodedBody]:
    """Return the bodies of a provider's reply: the message, its usage, and the overflow that the usage shows."""
    try:
        message, usage = asked.dialect.reader.reply(plain)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        what = f"this is not a reply of the {asked.dialect.name} dialect ({type(error).__name__}: {error})"
        raise BadInput(f"{what}; was it made with another model's SDK?") from error
    return reply_bodies(WireReply(_with_own_ids(message), usage), asked, estimated=estimated, redact=redact)


def reply_bodies(
    reply: WireReply, asked: AskedModel, *, estimated: int | None, redact: Redactor | None = None
) -> list[log.EncodedBody]:
    """Return the bodies of a reply that was read. `estimated` is our own count of the prompt that it answers."""
    # Providers answer with a dated name; signatures are compared by the model that was asked.
    message = msgspec.structs.replace(_redacted(reply.message, redact), model=asked.model)
    kept = log.checked_message(_with_host_names(message, asked.renamed))
    if reply.usage is None:
        return [kept]
    usage = msgspec.structs.replace(reply.usage, model=asked.model, estimated=estimated)
    cut = silent_overflow(usage, asked.window, asked.reports)
    return [kept, log.encoded(usage), *((log.encoded(cut),) if cut else ())]


def _with_own_ids(message: Message) -> Message:
    """Return the message with an id of its own for each call, so that a host can answer each."""
    return msgspec.structs.replace(message, parts=with_own_ids(message.parts))


def _with_host_names(message: Message, renamed: Mapping[str, str]) -> Message:
    """Return the message with its calls under the host's names: a model calls a tool by the name that it was offered under."""
    if not renamed or message.role != "assistant":
        return message
    parts = tuple(
        msgspec.structs.replace(part, name=renamed[part.name])
        if isinstance(part, ToolCall) and part.name in renamed
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def _plain(reply: object) -> Mapping[str, Any] | None:
    """Return a reply as a mapping; None for an object that is none and cannot be dumped as one."""
    if isinstance(reply, Mapping):
        return cast("Mapping[str, Any]", reply)
    dump: Callable[..., Mapping[str, Any]] | None = getattr(reply, "model_dump", None)
    if dump is None:
        return None
    try:
        # Fields that the provider did not send stay unset, and fields that its SDK does not know yet raise no warning.
        return dump(exclude_unset=True, warnings=False)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:  # a field holds what JSON cannot
        raise BadInput(
            f"this {type(reply).__name__} cannot be read ({type(error).__name__}: {error}); append its JSON as a dict"
        ) from error
