from keras_seqmech.training.schedules import TemperatureAnnealing

__all__ = ["TemperatureAnnealing"]
