"""Pains of conversations: what people said long ago, between things that they pasted, is gone when they ask about it."""

import pytest

from foveal.values.entry import assistant, user

from .scenes import folds, opened, said

ENGLISH = [
    "My name is Ada.",
    "The dentist is on the fourth of May at nine.",
    "I am allergic to walnuts.",
    "Put two lemons on the list.",
    "My sister lives in Oslo.",
    "When I say good night, answer in one word.",
    "Put one lemon less on the list.",
    "The code of the garage is 4471.",
]
CHINESE = [
    "我叫小雨。",
    "五月四号九点看牙医。",
    "我对核桃过敏。",
    "清单上加两个柠檬。",
    "我姐姐住在奥斯陆。",
    "我说晚安的时候，请只回一个词。",
    "清单上少一个柠檬。",
    "车库的密码是4471。",
]
QUIZ = {
    "en": "Which is the only country that borders both {0} and {1}? You must remember it: number {2}.",
    "zh": "哪个国家必须同时与{0}和{1}接壤？记住，这是第{2}号问题，不要忘记。",
}


@pytest.mark.parametrize(("language", "words"), [("en", ENGLISH), ("zh", CHINESE)])
def test_what_was_said_stands_in_every_later_prompt(language: str, words: list[str]) -> None:
    """In Chinese as in English, although what was pasted is full of words that sound like rules."""
    session = opened(6_000)
    prompts = []
    for turn in range(40):
        text = words[turn // 5] if turn % 5 == 0 else _quiz(language, turn)
        session.append(user(text))
        prompts.append(session.prompt())
        session.append(assistant("好。" if language == "zh" else "Noted."))
    assert folds(prompts) >= 2
    assert prompts[-1].tokens <= 6_000
    missing = [word for word in words if word not in said(prompts[-1])]
    assert missing == []


def _quiz(language: str, turn: int) -> str:
    return "\n".join(QUIZ[language].format(n * 7, n * turn, n) for n in range(25))
