"""Training of the relevance weights on recorded sessions, and their judgement on sessions held aside."""
