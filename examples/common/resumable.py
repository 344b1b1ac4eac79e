"""A callback that tests and saves after each epoch, so that runs resume."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import keras


class ResumableProgress(keras.callbacks.Callback):
    """Tests a model after each epoch, saves it to resume from, and may stop.

    It saves a weights file, which holds the optimizer's state, and a JSON file
    that replaces the old one atomically and names the weights file by its step,
    so the two always belong together. Subclasses say what is tested.

    Args:
        args: Of the command line: `steps`, `minutes`, `evaluate_every`.
        path: Start of the names of the files.
        line: What the lines of progress start with.
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
        if self._json().exists():
            self.state = json.loads(self._json().read_text(encoding="utf8"))
            model.load_weights(self._weights(self.state["step"]))
            print(
                f"{self.line} continues after step {self.state['step']}",
                flush=True,
            )
        return self.state

    def is_over(self) -> bool:
        """Whether the run has had its steps or its time."""
        limit = self.args.minutes
        return self.state["step"] >= self.args.steps or (
            limit is not None and self.state["seconds"] >= 60 * limit
        )

    def remove(self) -> None:
        """Deletes the files of a run that is finished."""
        self._json().unlink(missing_ok=True)
        for path in self._all_weights():
            path.unlink()

    def on_epoch_begin(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
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
