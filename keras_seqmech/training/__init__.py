from keras_seqmech.core.decisions.reports import (
    collect as collect_log_probabilities,
)
from keras_seqmech.training.decision_collapse import WarnOnDecisionCollapse
from keras_seqmech.training.exact_backup import ExactBackupAndRestore
from keras_seqmech.training.explore_then_commit import ExploreThenCommit
from keras_seqmech.training.policy_gradient import PolicyGradientModel
from keras_seqmech.training.schedules import Ramp
from keras_seqmech.training.schedules import Schedule

__all__ = [
    "ExactBackupAndRestore",
    "ExploreThenCommit",
    "PolicyGradientModel",
    "Ramp",
    "Schedule",
    "WarnOnDecisionCollapse",
    "collect_log_probabilities",
]
