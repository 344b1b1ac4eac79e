from keras_seqmech.core.decisions.reports import (
    collect as collect_log_probabilities,
)
from keras_seqmech.training.decision_collapse import WarnOnDecisionCollapse
from keras_seqmech.training.distillation import DistillationModel
from keras_seqmech.training.exact_backup import ExactBackupAndRestore
from keras_seqmech.training.explore_then_commit import ExploreThenCommit
from keras_seqmech.training.gradient_directed import GradientDirectedModel
from keras_seqmech.training.policy_gradient import PolicyGradientModel
from keras_seqmech.training.schedules import Ramp
from keras_seqmech.training.schedules import Schedule
from keras_seqmech.training.truncated_backpropagation import (
    TruncatedBackpropagationModel,
)

__all__ = [
    "DistillationModel",
    "ExactBackupAndRestore",
    "ExploreThenCommit",
    "GradientDirectedModel",
    "PolicyGradientModel",
    "Ramp",
    "Schedule",
    "TruncatedBackpropagationModel",
    "WarnOnDecisionCollapse",
    "collect_log_probabilities",
]
