"""Emission of steps: a shorter sequence of those that are kept.

- `expectation`: the expected outputs, and the distributions of what is
  emitted, from probabilities. Start here.
- `blocks`: how these are computed, a block of time at a time.
- `convolution`: the matrix products that `blocks` is made of.
- `drawn`: steps that are drawn, or kept above one half: hard decisions, their
  log-probability and their straight-through gradient.
- `upsampling`: the way back, the latest output at each step.
- `probabilities`: what values emission probabilities may have, and how far
  their mean is from a target.
"""
