"""The extractors, one a family of facts. A new one is a file and a line here."""

from foveal.summary.ledger.events import Extractor
from foveal.summary.ledger.extractors.children import children
from foveal.summary.ledger.extractors.commands import commands
from foveal.summary.ledger.extractors.failures import failures
from foveal.summary.ledger.extractors.files import files
from foveal.summary.ledger.extractors.questions import questions
from foveal.summary.ledger.extractors.quotes import quotes
from foveal.summary.ledger.extractors.todos import todos

EXTRACTORS: tuple[Extractor, ...] = (files, commands, failures, todos, quotes, questions, children)
"""In this order: the words that answer a question are recorded before the question is closed."""
