"""A callback that tests and saves after each epoch, so that runs resume.

For runs that are tested as they train, and may end by what the tests say. Where
a run is so many epochs and a test at the end, `resumable_fit` does.
"""

import argparse
import json
import time
from pathlib import Path

import keras

from examples.common import whole_files
from keras_seqmech.training import exact_backup


class ResumableProgress(keras.callbacks.Callback):
    """Tests a model after each epoch, saves it to resume from, and may stop.

    It saves a weights file, which holds the optimizer's state, and a JSON file
    that replaces the old one atomically and names the weights file by its step,
    so the two always belong together. The JSON file also holds the states of
    the model's random numbers. Subclasses say what is tested. The files stay
    until `remove`.
    """

    def __init__(self, args: argparse.Namespace, path: Path, line: str):
        super().__init__()
        self.args = args
        self.path = path
        self.line = line
        self.state = {"step": 0, "seconds": 0.0, "train_ms": [], "curve": []}

    def measure(self) -> dict[str, float]:
        """Scores of the model now, by their names in the curve."""
        raise NotImplementedError

    def restore(self, model: keras.Model) -> dict:
        """Resumes a run that was killed; returns its state."""
        self.set_model(model)
        if _state(self.path).exists():
            self.state = json.loads(_state(self.path).read_text("utf8"))
            model.load_weights(_weights(self.path, self.state["step"]))
            seeds = exact_backup.seed_states(model)
            for seed, value in zip(seeds, self.state["seeds"], strict=True):
                seed.assign(value)
            step = self.state["step"]
            print(f"{self.line} continues after step {step}", flush=True)
        return self.state

    def is_over(self) -> bool:
        """Whether the run has had its steps."""
        return self.state["step"] >= self.args.steps

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        state, every = self.state, self.args.evaluate_every
        seconds = time.perf_counter() - self._start
        state["step"] += every
        state["seconds"] += seconds
        state["train_ms"].append(1000 * seconds / every)
        row = {
            "step": state["step"],
            "loss": logs["loss"],
            "train_accuracy": logs["accuracy"],
            **self.measure(),
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
        weights = _weights(self.path, self.state["step"])
        self.model.save_weights(weights)
        seeds = exact_backup.seed_states(self.model)
        self.state["seeds"] = [seed.numpy().tolist() for seed in seeds]
        whole_files.write_json(_state(self.path), self.state)
        for path in _all_weights(self.path):
            if path != weights:
                path.unlink()


def remove(path: Path) -> None:
    """Deletes what a run has saved; `path` is the start of the files' names."""
    for file in (_state(path), *_all_weights(path)):
        file.unlink(missing_ok=True)


def _state(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _weights(path: Path, step: int) -> Path:
    return path.with_name(f"{path.name}.{step}.weights.h5")


def _all_weights(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}.*.weights.h5"))
