from keras_seqmech.training.distillation import DistillationModel
from keras_seqmech.training.gradient_directed import GradientDirectedModel
from keras_seqmech.training.schedules import Curriculum
from keras_seqmech.training.schedules import TemperatureAnnealing
from keras_seqmech.training.truncated import TruncatedBackpropagationModel

__all__ = [
    "Curriculum",
    "DistillationModel",
    "GradientDirectedModel",
    "TemperatureAnnealing",
    "TruncatedBackpropagationModel",
]
