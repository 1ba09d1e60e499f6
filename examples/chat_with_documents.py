"""A chat bot that looks things up: retrieved documents stand beside the conversation, for the turn that they were found for.

    pip install '.[openai]'
    OPENAI_API_KEY=… python examples/chat_with_documents.py docs "How do I rotate a key?" "And how often?"
    python -m foveal.testing.provider examples/chat_with_documents.py docs "How do I make a backup?"

A document that is pasted into a question is there for ever: in every later prompt, in summaries, in search. In a fence it is gone
with the next question, is counted, cut to its share of the budget, and cannot pose as the user's words or as instructions.
"""

import argparse
import hashlib
import re
import sys
from contextlib import suppress
from pathlib import Path

import openai

import foveal

POLICY = foveal.Policy(
    max_context_tokens=32_000,
    fences=(foveal.FenceKind("documents", lifetime="turn", share=0.25),),  # at most a quarter of the prompt
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Chat about the text files of a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", nargs="+", metavar="QUESTION")
    parser.add_argument("--store", default="chat.db")
    parser.add_argument("--session", default="chat")
    parser.add_argument("--model", default="gpt-5")
    args = parser.parse_args()

    with foveal.open_store(args.store) as store, openai.OpenAI() as client:
        with foveal.Session(store, args.session, model=args.model, policy=POLICY) as session:
            session.append(foveal.system("Answer from the documents. Say so if they do not tell."), id="system")
            for question in args.questions:
                print(f"> {question}\n{answer(session, client, question, args.folder)}")
    return 0


def answer(session: foveal.Session, client: openai.OpenAI, question: str, folder: Path) -> str:
    """Ask a question, once: a question that was answered is not asked again."""
    name = digest(question)
    with suppress(foveal.NotFound):
        return session.recall(f"answer-{name}")
    session.append(foveal.user(question), id=f"question-{name}")
    for path, passage in retrieve(question, folder):
        # The key makes it one fence a file: found again, it replaces the one that is there.
        session.context.inject("documents", passage, key=path.name, source=path.name)
    reply = client.chat.completions.create(**session.prompt().request)
    session.append(reply, id=f"answer-{name}")
    return reply.choices[0].message.content or ""


def retrieve(question: str, folder: Path, most: int = 3) -> list[tuple[Path, str]]:
    """Return the paragraphs with the most words of the question, one a file. Stands for a search engine of yours."""
    words = set(re.findall(r"\w{4,}", question.lower()))
    found: list[tuple[int, Path, str]] = []
    for path in sorted(folder.glob("*.md")) + sorted(folder.glob("*.txt")):
        paragraphs = path.read_text(encoding="utf-8", errors="replace").split("\n\n")
        score, passage = max((len(words & set(re.findall(r"\w{4,}", one.lower()))), one) for one in paragraphs)
        found.append((score, path, passage))
    best = sorted(found, key=lambda one: -one[0])[:most]
    return [(path, passage) for score, path, passage in best if score]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
