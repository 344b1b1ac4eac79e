"""What a run of the focused encoder's studies does between its epochs."""

import argparse
import json
import os
import time
from pathlib import Path

import keras

from examples import focused_models
from keras_seqmech.training import Curriculum
from keras_seqmech.training import TemperatureAnnealing
from keras_seqmech.training import WarnOnGateCollapse

# Exponent of the curricula: slow at first.
RAMP = 2


def gate_callbacks(
    model: keras.Model, args: argparse.Namespace
) -> list[keras.callbacks.Callback]:
    """What moves the gates' weights and temperature, and watches them.

    What open and undecided gates cost grows from nothing: before a network
    knows what to do with the states it reads, no gate is worth anything, and
    charged for, all close.
    """
    gate = model.get_layer("encoder").gate
    ramp = args.ramp_share * args.steps / args.evaluate_every
    moved = {
        "indecision_weight": (0.0, args.indecision_weight),
        "entropy_weight": (gate.initial_entropy_weight, 0.0),
        "sparsity_weight": (0.0, gate.initial_sparsity_weight),
    }
    callbacks = [WarnOnGateCollapse(patience=3)]
    for name, (initial, final) in moved.items():
        callbacks.append(
            Curriculum(name, ramp, RAMP, initial=initial, final=final)
        )
    if gate.estimator != "reinforce":
        callbacks.append(
            TemperatureAnnealing(
                args.final_temperature, args.steps, args.temperature
            )
        )
    return callbacks


class Progress(keras.callbacks.Callback):
    """Tests a model after each epoch, saves all to go on with, may stop.

    What it saves is a weights file, the optimizer's state within, and a JSON
    file that names it. The JSON file takes the place of the old one at once,
    so the two always belong together.

    Args:
        test: What is asked, and the answers.
        args: Of the command line.
        path: Start of the names of the files.
        line: What the lines of progress start with.
    """

    def __init__(self, test, args, path: Path, line: str):
        super().__init__()
        self.test = test
        self.args = args
        self.path = path
        self.line = line
        self.state = {"step": 0, "seconds": 0.0, "train_ms": [], "curve": []}
        self.probed = None

    def restore(self, model: keras.Model) -> dict:
        """Takes up a run that was killed; returns how far it was."""
        self.probed = focused_models.probe(model)
        if self._json().exists():
            self.state = json.loads(self._json().read_text(encoding="utf8"))
            model.load_weights(self._weights(self.state["step"]))
            print(f"{self.line} goes on after {self.state['step']}", flush=True)
        return self.state

    def is_over(self) -> bool:
        limit = self.args.minutes
        return self.state["step"] >= self.args.steps or (
            limit is not None and self.state["seconds"] >= 60 * limit
        )

    def remove(self) -> None:
        """Deletes the files of a run that is finished."""
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
        measured = focused_models.measure(
            self.probed, *self.test, self.args.batch_size
        )
        # Training draws the gates, so the two accuracies differ until gates
        # have decided themselves.
        row = {"step": state["step"], "loss": logs["loss"]}
        row |= {"train_accuracy": logs["accuracy"], **measured}
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
