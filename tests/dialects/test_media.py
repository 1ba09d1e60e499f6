"""Images and files that a provider would refuse: one line in their place, with the reason, and the session goes on."""

import struct

import pytest

from foveal.dialects import find_dialect
from foveal.dialects.media import fit_media
from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player
from foveal.testing.strategies import tiny_png
from foveal.values.entry import File, Image, Message, Text, ToolCall, assistant, result, user

DIALECTS = sorted(MODELS)


def png_of(width: int, height: int, size: int = 0) -> bytes:
    """A PNG whose header says this size, as long as asked for; nobody needs its pixels here."""
    small = tiny_png()
    return small[:16] + struct.pack(">II", width, height) + small[24:45] + b"\0" * size + small[-12:]


NOBODYS: dict[str, Image | File] = {
    "bmp": Image("image/bmp", b"BM" + b"\0" * 60),
    "svg": Image("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg'/>"),
    "no bytes": Image("image/png"),
    "empty": Image("image/png", b""),
    "undecodable": Image("image/jpeg", b"not a picture"),
    "cut off": Image("image/png", tiny_png(64, 64)[:60]),
    "bomb": Image("image/png", png_of(60_000, 60_000)),
    "20 MB": Image("image/png", png_of(100, 100, 20_000_000)),
    "local": Image("image/png", url="file:///etc/passwd"),
    "svg at an address": Image("image/svg+xml", url="https://example.org/a.svg"),
    "no data URL": Image("image/png", url="data:text/html,hi"),
    "zip": File("application/zip", "a.zip", b"PK\x03\x04"),
    "untyped": File("", "x", b"?"),
    "no file": File("application/pdf", "a.pdf"),
    "no pdf": File("application/pdf", "a.pdf", b"hello"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", NOBODYS)
def test_media_that_nobody_takes_are_one_line_with_the_reason(dialect: str, kind: str) -> None:
    """In a request and in a result alike: the prompt is valid, shows a line, and the trace says why; so does the next prompt."""
    bad = NOBODYS[kind]
    called = assistant("", ToolCall("c1", "shot", "{}"), model=MODELS[dialect])
    player = Player(dialect=dialect)
    player.play([user("Look:", bad), Asks(), called, result("c1", "taken", bad), Asks()])
    player.play([assistant("Fine."), user("Go on."), Asks()])
    assert player.refusals == []
    shown, returned = player.entries[0], player.entries[2]
    for prompt, entries in zip(player.prompts, ([shown], [shown, returned], [shown, returned]), strict=True):
        assert oracles.problems(prompt) == []
        lines = {line.entry: line for line in prompt.trace.lines}
        for entry in entries:
            assert lines[entry].policy == "dialect"
            assert lines[entry].because
        texts = [text for text in oracles.strings(prompt.request) if "not sent: " in text]
        assert len(texts) == len(entries)
        assert all("\n" not in text.removeprefix("taken\n") for text in texts)
    assert oracles.recount(player.prompts[-1]) <= player.prompts[-1].tokens


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_with_refused_media_is_the_same_when_it_is_opened_again(dialect: str) -> None:
    """The line follows from the log alone, whether the view comes from a snapshot or from the entries."""
    player = Player(dialect=dialect)
    player.play([*(user(bad) for bad in NOBODYS.values()), user("Look."), Asks()])
    player.reopen()
    player.ask()
    assert oracles.body(player.prompts[0]) == oracles.body(player.prompts[1])
    assert player.prompts[0].trace == player.prompts[1].trace


@pytest.mark.parametrize("dialect", DIALECTS)
def test_media_that_are_not_sent_are_no_reason_to_offer_recall(dialect: str) -> None:
    """Recall returns texts; offering it for an image would only move the prefix."""
    player = Player(dialect=dialect).play([user("Look:", NOBODYS["bmp"]), Asks()])
    assert player.prompts[-1].setup.tools == "[]"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_image_in_a_reply_is_a_line_where_replies_are_text(dialect: str) -> None:
    """An image that another model made is named, and the words around it are sent."""
    said = Message("assistant", (Text("Here."), Image("image/png", tiny_png())), MODELS[dialect])
    player = Player(dialect=dialect).play([user("Draw."), said, Asks()])
    sent = "\n".join(oracles.strings(player.prompts[-1].request))
    assert oracles.problems(player.prompts[-1]) == []
    assert "Here." in sent
    assert "image image/png, 67 bytes; not sent" in sent or "image image/png, 68 bytes; not sent" in sent


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("said", ["image/jpeg", "image/*", "", "image/bmp"])
def test_an_image_with_a_wrong_label_is_sent_as_what_it_is(dialect: str, said: str) -> None:
    """The first bytes tell the type; providers refuse an image that is something else than it says."""
    player = Player(dialect=dialect).play([user("Look:", Image(said, tiny_png())), Asks()])
    prompt = player.prompts[-1]
    assert oracles.problems(prompt) == []
    assert "image/png" in str(prompt.request)
    assert "its bytes are image/png" in prompt.trace.lines[0].because


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_image_at_an_address_without_a_known_type_is_sent(dialect: str) -> None:
    """Most addresses end without a suffix; the provider looks for itself."""
    far = Image("image/*", url="https://example.org/picture?id=7")
    player = Player(dialect=dialect).play([user("Look:", far), Asks()])
    assert oracles.problems(player.prompts[-1]) == []
    assert "https://example.org/picture?id=7" in str(player.prompts[-1].request)


@pytest.mark.parametrize(
    ("item", "takers"),
    [
        (Image("image/png", png_of(9_000, 10)), {"openai_chat", "openai_responses", "gemini"}),
        (Image("image/png", png_of(10, 10, 4_000_000)), {"openai_chat", "openai_responses", "gemini"}),
        (Image("image/png", png_of(10, 10, 7_000_001)), {"openai_chat", "openai_responses"}),
        (Image("image/gif", b"GIF89a\x01\0\x01\0\0\0\0;"), {"openai_chat", "openai_responses", "anthropic"}),
        (Image("image/heic", b"\0\0\0\x18ftypheic" + b"\0" * 40), {"gemini"}),
        (Image("image/png", url="gs://bucket/a.png"), {"gemini"}),
        (File("audio/wav", "a.wav", b"RIFF"), {"gemini"}),
        (
            File("application/pdf", "a.pdf", url="https://example.org/a.pdf"),
            {"openai_responses", "anthropic", "gemini"},
        ),
        (File("application/vnd.oasis.opendocument.text", "n.odt", b"PK"), {"openai_responses"}),
        (File("text/plain", "a.txt", b"text"), {"openai_responses", "anthropic", "gemini"}),
        (File("application/pdf", "a.pdf", b"%PDF-1.4"), set(DIALECTS)),
    ],
)
def test_each_provider_has_its_own_limits(item: Image | File, takers: set[str]) -> None:
    """A part goes to those whose documents say that they take it, and to nobody else."""
    taken = {name for name in DIALECTS if fit_media(item, find_dialect(name).media, "user") == (item, "")}
    assert taken == takers
