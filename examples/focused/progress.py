"""What a run of the focused encoder's studies does between its epochs."""

import argparse
from pathlib import Path

import keras

from examples.common.resumable import ResumableProgress
from examples.focused import models
from keras_seqmech.training import Curriculum
from keras_seqmech.training import TemperatureAnnealing
from keras_seqmech.training import WarnOnGateCollapse

# Exponents of the curricula: slow at first, and all but 0 in the first half.
SLOW, LATE = 2, 4


def gate_callbacks(
    model: keras.Model, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """What moves the gates' weights and temperature, and watches them.

    What open gates cost grows from nothing: before a network knows what to do
    with the states it reads, no gate is worth anything, and charged for, all
    close. What undecided gates earn, their entropy, falls to nothing
    meanwhile: without it all gates are open for good before any of them is
    charged for. Then undecided gates are charged for, too.

    Weights move once an epoch, of `--evaluate-every` steps. Relaxed gates are
    cooled; of straight-through ones, which are hard, this would only take the
    gradient.
    """
    gate = models.network_of(model).get_layer("encoder").gate
    ramp = args.ramp_share * args.steps / args.evaluate_every
    callbacks = [
        WarnOnGateCollapse(patience=3),
        Curriculum(
            "entropy_weight",
            ramp,
            SLOW,
            initial=gate.initial_entropy_weight,
            final=0.0,
        ),
        Curriculum(
            "sparsity_weight", ramp, SLOW, final=gate.initial_sparsity_weight
        ),
        Curriculum(
            "indecision_weight", 2 * ramp, LATE, final=args.indecision_weight
        ),
    ]
    if gate.estimator == "relaxed":
        callbacks.append(
            TemperatureAnnealing(
                args.final_temperature, args.steps, args.temperature
            )
        )
    return callbacks


class Progress(ResumableProgress):
    """Tests answers and gates.

    Training draws the gates, so `train_accuracy` and `accuracy` differ until
    gates have decided themselves.

    Args:
        test: What is asked, and the answers.
        args: Of the command line.
        path: Start of the names of the files.
        line: What the lines of progress start with.
    """

    def __init__(self, test, args: argparse.Namespace, path: Path, line: str):
        super().__init__(args, path, line)
        self.test = test
        self.probed = None

    def restore(self, model: keras.Model) -> dict:
        self.probed = models.probe(model)
        return super().restore(model)

    def measure(self) -> dict[str, float]:
        return models.measure(self.probed, *self.test, self.args.batch_size)
