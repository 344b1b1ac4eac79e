"""What a run of the memory task does between its epochs."""

import argparse
import csv
import json
import os
import time
from pathlib import Path

import keras

from examples import memory_model
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


class Progress(keras.callbacks.Callback):
    """Tests a model after each epoch, saves all to go on with, may stop.

    What it saves is a weights file, the optimizer's state within, and a JSON
    file that takes the place of the old one at once and names it by its step,
    so the two always belong together. The loss and the accuracy of training
    are those of the outputs that counted.

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
        super().__init__()
        self.check = check
        self.args = args
        self.path = path
        self.line = line
        self.state = {"step": 0, "seconds": 0.0, "train_ms": [], "curve": []}
        self.probed = None

    def restore(self, model: keras.Model) -> dict:
        """Takes up a run that was killed; returns how far it was."""
        self.probed = memory_model.probe(model)
        if self._json().exists():
            self.state = json.loads(self._json().read_text(encoding="utf8"))
            model.load_weights(self._weights(self.state["step"]))
            print(f"{self.line} goes on after {self.state['step']}", flush=True)
        return self.state

    def is_reached(self) -> bool:
        """Whether the last test reached the accuracy that is wanted."""
        curve, wanted = self.state["curve"], self.args.target_accuracy
        return bool(curve) and curve[-1]["accuracy"] >= wanted

    def is_over(self) -> bool:
        state, limit = self.state, self.args.minutes
        return (
            self.is_reached()
            or state["step"] >= self.args.steps
            or (limit is not None and state["seconds"] >= 60 * limit)
        )

    def finish(self) -> None:
        """Writes the curve of a run that is over; deletes all other files."""
        curve = self.path.with_name(f"{self.path.name}.csv")
        with curve.open("w", newline="", encoding="utf8") as file:
            writer = csv.DictWriter(file, CURVE)
            writer.writeheader()
            writer.writerows(self.state["curve"])
        self._json().unlink(missing_ok=True)
        for path in self._all_weights():
            path.unlink()

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        state, every = self.state, self.args.evaluate_every
        seconds = time.perf_counter() - self._start
        state["step"] += every
        state["seconds"] += seconds
        state["train_ms"].append(1000 * seconds / every)
        row = {
            "step": state["step"],
            "loss": logs["loss"],
            "train_accuracy": logs["accuracy"],
            **memory_model.measure(
                self.probed, self.check, self.args.batch_size
            ),
        }
        state["curve"].append({**row, "seconds": round(state["seconds"], 1)})
        shown = ", ".join(f"{k} {v:.3f}" for k, v in row.items() if k != "step")
        print(
            f"{self.line} step {state['step']}: {shown}, "
            f"{state['train_ms'][-1]:.0f} ms a step",
            flush=True,
        )
        self._save()
        self.model.stop_training = self.is_over()

    def _save(self):
        weights = self._weights(self.state["step"])
        self.model.save_weights(weights)
        temporary = self._json().with_suffix(".part")
        temporary.write_text(json.dumps(self.state), encoding="utf8")
        os.replace(temporary, self._json())
        for path in self._all_weights():
            if path != weights:
                path.unlink()

    def _json(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def _weights(self, step) -> Path:
        return self.path.with_name(f"{self.path.name}.{step}.weights.h5")

    def _all_weights(self) -> list[Path]:
        return list(self.path.parent.glob(f"{self.path.name}.*.weights.h5"))
