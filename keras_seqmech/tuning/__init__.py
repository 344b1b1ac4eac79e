"""Searches for hyperparameters with KerasTuner's own tuners.

Import it by `from keras_seqmech import tuning`: it needs the extra
`keras_seqmech[tuning]`, and `keras_seqmech` does not import it.
"""

from keras_seqmech.tuning import _extra  # noqa: F401
from keras_seqmech.tuning.distributed import check_port
from keras_seqmech.tuning.distributed import is_chief
from keras_seqmech.tuning.distributed import is_worker
from keras_seqmech.tuning.distributed import wait_for_chief
from keras_seqmech.tuning.hyperparameters import choose_annealing
from keras_seqmech.tuning.hyperparameters import choose_estimator
from keras_seqmech.tuning.hyperparameters import choose_exploration
from keras_seqmech.tuning.hyperparameters import choose_gated
from keras_seqmech.tuning.hyperparameters import choose_max_size
from keras_seqmech.tuning.hyperparameters import choose_openness_target
from keras_seqmech.tuning.hyperparameters import choose_size_from
from keras_seqmech.tuning.hyperparameters import choose_sparsity_weight
from keras_seqmech.tuning.hyperparameters import choose_summary
from keras_seqmech.tuning.hyperparameters import choose_target
from keras_seqmech.tuning.hyperparameters import choose_temperature
from keras_seqmech.tuning.receptive_field import ReceptiveFieldHyperModel
from keras_seqmech.tuning.results import TrialResult
from keras_seqmech.tuning.results import results_table
from keras_seqmech.tuning.results import trial_results
from keras_seqmech.tuning.search import open_search

__all__ = [
    "ReceptiveFieldHyperModel",
    "TrialResult",
    "check_port",
    "choose_annealing",
    "choose_estimator",
    "choose_exploration",
    "choose_gated",
    "choose_max_size",
    "choose_openness_target",
    "choose_size_from",
    "choose_sparsity_weight",
    "choose_summary",
    "choose_target",
    "choose_temperature",
    "is_chief",
    "is_worker",
    "open_search",
    "results_table",
    "trial_results",
    "wait_for_chief",
]
