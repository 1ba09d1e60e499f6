"""Policies measured on recorded sessions: cost, far grounding, validity and budget, by one piece of code for all of them."""
