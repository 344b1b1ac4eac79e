"""A line of progress after each epoch."""

import time

import keras


class EpochLine(keras.callbacks.Callback):
    """Prints values of each epoch after `start`, and the seconds it took."""

    def __init__(self, start: str):
        super().__init__()
        self.start = start

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        values = [f"{name} {value:.4g}" for name, value in (logs or {}).items()]
        seconds = time.perf_counter() - self._begun
        print(
            f"{self.start} epoch {epoch + 1}/{self.params['epochs']}",
            *values,
            f"{seconds:.0f} s",
            flush=True,
        )
