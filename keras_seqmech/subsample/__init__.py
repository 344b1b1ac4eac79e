"""Subsampling, from "Training a Subsampling Mechanism in Expectation".

`layer` keeps steps, `emission_probabilities` has the layer that says how likely
each is kept. The recursion over $q_n(m)$ is in `expectation`, which computes it
in `blocks` of steps by `convolution`; `drawn` has hard decisions, `upsampling`
the way back to one output per step, `probabilities` what both share.
"""

from keras_seqmech.subsample.emission_probabilities import EmissionProbabilities
from keras_seqmech.subsample.layer import ExpectedSubsample

__all__ = [
    "EmissionProbabilities",
    "ExpectedSubsample",
]
