"""What the callbacks share that measure a model every few steps."""

from typing import Any

import keras


class StepHistory(keras.callbacks.Callback):
    """Measures before the first step and every few optimizer steps.

    `history` holds equally long lists: `"step"` (`optimizer.iterations`), and
    one for each measured quantity. With `steps_per_execution` it measures
    after the execution in which a step was due. No step is measured twice.

    Subclasses implement `measure`.

    Args:
        names: Names of the quantities.
        every: Steps between measurements; if None, none are due within an
            epoch.
    """

    def __init__(self, names: tuple[str, ...], every: int | None):
        super().__init__()
        self.every = every
        self.history: dict[str, list] = {name: [] for name in ("step", *names)}
        self._step = 0

    def measure(self) -> dict[str, float]:
        """The quantities by name, now."""
        raise NotImplementedError

    def record(self) -> None:
        """Measures, unless this step has been measured."""
        if self.history["step"][-1:] == [self._step]:
            return
        for name, value in {"step": self._step, **self.measure()}.items():
            self.history[name].append(value)

    def on_train_begin(self, logs: Any = None) -> None:
        self._step = self._iterations()
        if not self.history["step"]:
            self.record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        before, self._step = self._step, self._iterations()
        if self.every and self._step // self.every > before // self.every:
            self.record()

    def _iterations(self) -> int:
        # A variable of several replicas has no int.
        iterations = self.model.optimizer.iterations
        return int(keras.ops.convert_to_numpy(iterations))
