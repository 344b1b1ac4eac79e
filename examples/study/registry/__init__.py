"""All studies and claims, a module for each document."""

from examples.study.registry import beyond
from examples.study.registry import focused
from examples.study.registry import pooling
from examples.study.registry import receptive_field
from examples.study.registry import subsampling
from examples.study.registry import titles
from examples.study.studies import Study

SOURCES = {
    "receptive_field": (
        "An Informative Adaptive Receptive Field Model for Recurrent Neural "
        "Networks"
    ),
    "pooling": (
        "Analyzing the Learnability and Representability of Recurrent "
        "Architectures"
    ),
    "focused": (
        "Focused Hierarchical RNNs for Conditional Sequence Processing"
    ),
    "subsampling": "Training a Subsampling Mechanism in Expectation",
    "titles": "RNNs for arXiv/viXra title classification",
}
_MODULES = (receptive_field, pooling, focused, subsampling, titles, beyond)
STUDIES = {study.name: study for module in _MODULES for study in module.STUDIES}
_CLAIMS = [claim for module in _MODULES for claim in module.CLAIMS]
# The headline claims first, in their order.
CLAIMS = (
    *sorted(
        (claim for claim in _CLAIMS if claim.is_headline),
        key=lambda claim: int(claim.name[1:]),
    ),
    *(claim for claim in _CLAIMS if not claim.is_headline),
)


def study(name: str) -> Study:
    """The study of this name."""
    if name not in STUDIES:
        raise ValueError(
            f"A study must be one of {', '.join(STUDIES)}. Received: {name}"
        )
    return STUDIES[name]
