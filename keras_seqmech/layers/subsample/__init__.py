"""Subsampling: a shorter sequence of the steps that are kept.

`probabilities` has the layer that says how likely each step is kept, and
`layer` the one that keeps them.
"""
