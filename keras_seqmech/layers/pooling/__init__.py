"""Poolings: a sequence in one vector.

`reductions` has the mean, the maximum, the last step and all three side by
side; `attention` the softmax poolings with a learned query and with the
maximum as query; `last_attention` the one with the last step as query.
"""
