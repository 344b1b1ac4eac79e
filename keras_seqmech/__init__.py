"""Sequence mechanisms for Keras 3 that decide, per input, what to read."""

from importlib import import_module
from typing import TYPE_CHECKING
from typing import Any

import keras

if keras.backend.backend() != "tensorflow":
    raise ImportError(
        "keras_seqmech needs the TensorFlow backend of Keras; set the "
        "environment variable KERAS_BACKEND=tensorflow before Keras is "
        f"imported. Received: backend={keras.backend.backend()!r}"
    )

from keras_seqmech.core.decisions.learning import DecisionPenalties  # noqa: E402
from keras_seqmech.focused import BoundaryGate  # noqa: E402
from keras_seqmech.focused import ContextAttention  # noqa: E402
from keras_seqmech.focused import FocusedHierarchicalEncoder  # noqa: E402
from keras_seqmech.focused import PointerSoftmax  # noqa: E402
from keras_seqmech.initial_state import LearnedInitialState  # noqa: E402
from keras_seqmech.keep_mask import KeepMask  # noqa: E402
from keras_seqmech.pooling import AttentionPooling  # noqa: E402
from keras_seqmech.pooling import ConcatPooling  # noqa: E402
from keras_seqmech.pooling import EarlyPooling  # noqa: E402
from keras_seqmech.pooling import LastAttentionPooling  # noqa: E402
from keras_seqmech.pooling import LastPooling  # noqa: E402
from keras_seqmech.pooling import MaxAttentionPooling  # noqa: E402
from keras_seqmech.pooling import MaxPooling  # noqa: E402
from keras_seqmech.pooling import MeanPooling  # noqa: E402
from keras_seqmech.reading_limit import ReadingLimit  # noqa: E402
from keras_seqmech.reading_weight import ReadingWeight  # noqa: E402
from keras_seqmech.receptive_field import LookAhead  # noqa: E402
from keras_seqmech.receptive_field import ReceptiveFieldRNN  # noqa: E402
from keras_seqmech.receptive_field import ReceptiveFieldWindows  # noqa: E402
from keras_seqmech.receptive_field import RFCell  # noqa: E402
from keras_seqmech.subsample import EmissionProbabilities  # noqa: E402
from keras_seqmech.subsample import ExpectedSubsample  # noqa: E402
from keras_seqmech.training import ExploreThenCommit  # noqa: E402
from keras_seqmech.training import PolicyGradientModel  # noqa: E402
from keras_seqmech.training import Schedule  # noqa: E402
from keras_seqmech.training import WarnOnDecisionCollapse  # noqa: E402
from keras_seqmech.version import __version__  # noqa: E402

__all__ = [
    "AttentionPooling",
    "BoundaryGate",
    "ConcatPooling",
    "ContextAttention",
    "DecisionPenalties",
    "EarlyPooling",
    "EmissionProbabilities",
    "ExpectedSubsample",
    "ExploreThenCommit",
    "FocusedHierarchicalEncoder",
    "KeepMask",
    "LastAttentionPooling",
    "LastPooling",
    "LearnedInitialState",
    "LookAhead",
    "MaxAttentionPooling",
    "MaxPooling",
    "MeanPooling",
    "PointerSoftmax",
    "PolicyGradientModel",
    "RFCell",
    "ReadingLimit",
    "ReadingWeight",
    "ReceptiveFieldRNN",
    "ReceptiveFieldWindows",
    "Schedule",
    "WarnOnDecisionCollapse",
    "__version__",
]

_MODULES = (
    "analysis",
    "migration",
    "serving",
    "testing",
    "tuning",
)


if not TYPE_CHECKING:  # It would allow any name.

    def __getattr__(name: str) -> Any:
        """Imports a part of the package where it is first used."""
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
