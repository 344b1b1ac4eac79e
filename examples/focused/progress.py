"""What a run of the focused encoder's studies does between its epochs."""

import argparse
from pathlib import Path

import keras
import numpy as np

from examples.common import exploring
from examples.common.networks import network_of
from examples.common.resumable_progress import ResumableProgress
from examples.focused import models
from keras_seqmech.training import Curriculum
from keras_seqmech.training import TemperatureAnnealing
from keras_seqmech.training import WarnOnDecisionCollapse

# Exponents of the curricula: slow at first, and all but 0 in the first half.
SLOW, LATE = 2, 4


def gate_callbacks(
    model: keras.Model, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """Callbacks that change the weights and temperature of gates.

    The cost of open gates grows from zero: before the network can use the
    states it reads, no gate is worth its cost, and all would close. Meanwhile
    the entropy bonus falls to zero: without it all gates would be open for good
    before any of them costs something. Then the penalty on undecided gates
    rises, too.

    Weights change once an epoch, of `--evaluate-every` steps. The temperature
    of relaxed gates falls; for straight-through gates, which are hard already,
    a low temperature would only take away the gradient.

    With `--explore`, `ExploreThenCommit` takes the place of all this, step by
    step; it lowers the temperature of straight-through gates, too.
    """
    schedule = exploring.schedule(args, args.temperature)
    if schedule is not None:
        return [WarnOnDecisionCollapse(patience=3), schedule]
    gate = network_of(model).get_layer("encoder").gate
    ramp = args.ramp_share * args.steps / args.evaluate_every
    callbacks = [
        # Until then gates are paid for exploring.
        WarnOnDecisionCollapse(begin=args.ramp_share, patience=3),
        Curriculum(
            "entropy_weight",
            ramp,
            SLOW,
            initial=gate.costs.initial["entropy_weight"],
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
    the gates are hard.

    Args:
        test: What is asked, and the answers.
        args: Of the command line.
        path: Start of the names of the files.
        line: What the lines of progress start with.
    """

    def __init__(
        self,
        test: tuple[dict, np.ndarray],
        args: argparse.Namespace,
        path: Path,
        line: str,
    ):
        super().__init__(args, path, line)
        self.test = test
        self.probed = None

    def restore(self, model: keras.Model) -> dict:
        self.probed = models.probe(model)
        return super().restore(model)

    def measure(self) -> dict[str, float]:
        return models.measure(self.probed, *self.test, self.args.batch_size)
