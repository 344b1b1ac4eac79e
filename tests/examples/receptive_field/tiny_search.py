"""The example's search with a task that takes no time to train.

Run as a program, it writes a line when a trial begins and when it ends, to the
file in the environment variable `TINY_LOG`: what happened, who did it, the
process, and what was searched. `TINY_SECONDS` is what a trial takes.
"""

import json
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from examples.receptive_field import tune


class Warm(keras.layers.Dense):
    """Has a temperature, for callbacks to change."""

    def build(self, shape):
        super().build(shape)
        self.temperature = self.add_weight(name="temperature", trainable=False)


class Tiny:
    """Scores S less the temperature."""

    objective = "validation_f1"
    steps = 1
    ones = np.ones((2, 1))
    batches = tf.data.Dataset.from_tensors((ones, ones)).repeat()

    def __init__(self, args):
        self.args = args

    def build(self, hp, field):
        self.field = field
        model = keras.Sequential([keras.Input((1,)), Warm(1)])
        model.compile("sgd", "mse", run_eagerly=True)
        return model

    def scores(self, model):
        log("train", self.field)
        time.sleep(float(os.environ.get("TINY_SECONDS", 0)))
        size, temperature = self.field["max_size"], self.field["temperature"]
        log("scored", self.field)
        return {"validation_f1": size - temperature, "mean_size": 1.0}


def log(event, field):
    if "TINY_LOG" not in os.environ:
        return
    line = {
        "event": event,
        "tuner": os.environ.get("KERASTUNER_TUNER_ID", "tuner0"),
        "process": os.getpid(),
        "trial": [field.get("max_size"), field.get("temperature")],
    }
    with open(os.environ["TINY_LOG"], "a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    tune.Segmentation = Tiny
    tune.main(sys.argv[1:])
