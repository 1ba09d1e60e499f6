"""Agreement: a real model is asked with the whole prompt and with the folded one, and its next actions are compared.

`sample` finds recorded calls whose prompt would be folded and draws some of them, `estimate` says what asking costs, `senders`
speak to providers, `trials` asks, `answers` keeps the answers in a file, `actions` says when two of them agree, `experiment` does
one after the other, and `report` adds up.
"""
