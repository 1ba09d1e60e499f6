"""Questions about stored sessions: the reasons for a prompt, its cost, the moves of its prefix, the next fold.

Every function takes a store and the name of a session, reads the log, and returns frozen values. Nothing is written.
"""
