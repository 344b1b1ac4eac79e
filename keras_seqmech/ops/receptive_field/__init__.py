"""What the adaptive receptive field computes, once sizes are chosen.

`fields` are read and gate the state, `inputs` lay out what they read for a
padded or a packed loop, `windows` look ahead.
"""
