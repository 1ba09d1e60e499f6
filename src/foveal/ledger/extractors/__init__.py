"""One extractor a family. A new one is a file and a line here."""

from foveal.ledger.events import Extractor
from foveal.ledger.extractors.children import children
from foveal.ledger.extractors.commands import commands
from foveal.ledger.extractors.failures import failures
from foveal.ledger.extractors.files import files
from foveal.ledger.extractors.names import names
from foveal.ledger.extractors.questions import questions
from foveal.ledger.extractors.todos import todos
from foveal.ledger.extractors.words import words

EXTRACTORS: tuple[Extractor, ...] = (files, commands, failures, todos, words, questions, children, names)
"""In this order: the words that answer a question are recorded before the question is closed."""
