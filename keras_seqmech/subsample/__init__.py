"""Subsampling, from "Training a Subsampling Mechanism in Expectation".

`layer` keeps steps, `emission_probabilities` says how likely each is kept.
The recursion over $q_n(m)$ is in `expectation`, by `convolution` where
sequences are long; `drawn` has hard decisions.
"""

from keras_seqmech.subsample.emission_probabilities import EmissionProbabilities
from keras_seqmech.subsample.layer import ExpectedSubsample

__all__ = [
    "EmissionProbabilities",
    "ExpectedSubsample",
]
