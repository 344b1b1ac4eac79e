"""Tests of the memory task between the epochs of a run."""

import argparse
import csv
from pathlib import Path
from typing import Any

import keras

from examples.common.resumable_progress import ResumableProgress
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

    The loss and the accuracy of training are over the outputs that count. If
    sequences are to grow, `fit` also ends where they do.

    Args:
        check: Examples that decide whether the accuracy is reached.
        length: Number of their symbols.
        args: Of the command line.
        path: Start of the names of the files.
        line: What the lines of progress start with.
    """

    def __init__(
        self,
        check: memory.Examples,
        length: int,
        args: argparse.Namespace,
        path: Path,
        line: str,
    ):
        super().__init__(args, path, line)
        self.check = check
        self.length = length
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

    def training_length(self) -> int:
        """Number of symbols of the sequences to train with now."""
        if self.args.curriculum != "length":
            return self.length
        wanted = self.args.growth_accuracy
        length = self.args.start_length
        for point in self.state["curve"]:
            length *= 1 + (point["train_accuracy"] >= wanted)
        return min(length, self.length)

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        before = self.training_length()
        super().on_epoch_end(epoch, logs)
        if self.training_length() != before:
            self.model.stop_training = True

    def is_over(self) -> bool:
        return self.is_reached() or super().is_over()

    def write_curve(self) -> None:
        """Writes the curve of a run that is over."""
        curve = self.path.with_name(f"{self.path.name}.csv")
        with curve.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, CURVE)
            writer.writeheader()
            writer.writerows(self.state["curve"])
