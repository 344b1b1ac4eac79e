"""The focused hierarchical encoder, its gate, and what reads its states.

`encoder` runs the `loops` over the steps that the `gate` opens and returns
`outputs`; `context_attention` and `pointer_softmax` read the states. `inputs`
checks what they are all called with.
"""
