"""What tests of searches share: a small model, trials without training."""

import keras
import keras_tuner

from keras_seqmech import tuning


class Number(keras.layers.Layer):
    """Adds a weight; has a temperature that callbacks may change."""

    def build(self, shape):
        self.offset = self.add_weight(name="offset", initializer="zeros")
        self.temperature = self.add_weight(
            name="temperature", initializer="ones", trainable=False
        )

    def call(self, x):
        return x + self.offset


def build_number(hp, field):
    """A model whose training diverges where S is above 2."""
    model = keras.Sequential([keras.Input((1,)), Number(name="number")])
    rate = 1e30 if field["max_size"] > 2 else 0.1
    optimizer = keras.optimizers.SGD(rate, momentum=0.5)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    return model


class Counted(tuning.ReceptiveFieldHyperModel):
    """Trains nothing; its score is S. Counts what it ran."""

    def __init__(self, fails=(), **options):
        self.ran, self.began = [], 0
        self.fails = fails
        defaults = {"max_size": (1, 4), "temperature": (0.5, 2.0)}
        super().__init__(build_number, **{**defaults, **options})

    def fit(self, hp, model, *args, **kwargs):
        self.began += 1
        if hp["max_size"] in self.fails:
            raise RuntimeError("no trial of this size")
        self.ran.append((hp["max_size"], hp["temperature"]))
        for callback in kwargs["callbacks"]:  # One of them saves weights.
            callback.set_model(model)
            callback.on_epoch_end(0, {})
        return {"score": float(hp["max_size"])}


def opened(hypermodel, folder, tuner=keras_tuner.RandomSearch, **options):
    if tuner is not keras_tuner.Hyperband:
        options = {"max_trials": 4, **options}
    options = {"seed": 5, **options}
    objective = keras_tuner.Objective("score", "max")
    return tuning.open_search(
        tuner, hypermodel, folder, "sweep", objective=objective, **options
    )


def search(*arguments, **options):
    tuner = opened(*arguments, **options)
    tuner.search(verbose=0)
    return tuner


def trials(tuner):
    """The trials of a search, by number."""
    found = sorted(tuner.oracle.trials.items(), key=lambda item: int(item[0]))
    return [trial for _, trial in found]
