"""Tests of the memory task between the epochs of a run."""

import argparse
import csv
from pathlib import Path

import keras

from examples.common.resumable import ResumableProgress
from examples.subsampling import memory_model
from keras_seqmech.tasks import memory

CURVE = (
    "step",
    "loss",
    "train_accuracy",
    "accuracy",
    "sequence_accuracy",
    "emitted",
    "seconds",
)


class Progress(ResumableProgress):
    """Tests a model on other sequences; a target accuracy ends the run, too.

    The loss and the accuracy of training are over the outputs that count.

    Args:
        check: Examples that decide whether the accuracy is reached.
        args: Of the command line.
        path: Start of the names of the files.
        line: What the lines of progress start with.
    """

    def __init__(
        self,
        check: memory.Examples,
        args: argparse.Namespace,
        path: Path,
        line: str,
    ):
        super().__init__(args, path, line)
        self.check = check
        self.probed = None

    def restore(self, model: keras.Model) -> dict:
        self.probed = memory_model.probe(model)
        return super().restore(model)

    def measure(self) -> dict[str, float]:
        return memory_model.measure(
            self.probed, self.check, self.args.batch_size
        )

    def is_reached(self) -> bool:
        """Whether the last test reached the accuracy that is wanted."""
        curve, wanted = self.state["curve"], self.args.target_accuracy
        return bool(curve) and curve[-1]["accuracy"] >= wanted

    def is_over(self) -> bool:
        return self.is_reached() or super().is_over()

    def finish(self) -> None:
        """Writes the curve of a run that is over; deletes all other files."""
        curve = self.path.with_name(f"{self.path.name}.csv")
        with curve.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, CURVE)
            writer.writeheader()
            writer.writerows(self.state["curve"])
        self.remove()
