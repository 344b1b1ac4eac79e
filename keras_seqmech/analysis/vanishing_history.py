"""A callback: the vanishing ratio during training."""

from collections.abc import Callable
from typing import Any

import keras

from keras_seqmech.analysis.gradients import ENDS
from keras_seqmech.analysis.gradients import check_examples
from keras_seqmech.analysis.gradients import mean_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.recurrent_gradients import RecurrentProbe
from keras_seqmech.core import checks


class VanishingRatio(keras.callbacks.Callback):
    """Measures the vanishing ratio of a fixed set of examples in training.

    It measures before the first step, at the end of each epoch, and every
    `every` optimizer steps if given. The value at an epoch's end enters the
    logs as `"vanishing_ratio"`, and so the history of `fit`; list this
    callback before those that write logs. Metrics, states and seeds of the
    model do not change.

    `history` holds the equally long lists `"step"` (`optimizer.iterations`)
    and `"vanishing_ratio"`; `plots.plot_history` draws them. With
    `steps_per_execution` it measures after the execution in which a step was
    due.

    Args:
        inputs: As in `gradient_profile`.
        targets: As in `gradient_profile`.
        layer: As in `gradient_profile`.
        mask: As in `gradient_profile`.
        every: Positive int, steps between measurements within an epoch; none
            if None.
        end: As in `vanishing_ratio`.
        loss: As in `gradient_profile`.
        batch_size: As in `gradient_profile`.

    Raises:
        ValueError: If an argument does not fit; once training begins, if the
            layer cannot be found or measured.

    Example:

    >>> import keras, numpy as np
    >>> model = keras.Sequential(
    ...     [keras.Input((9, 3)), keras.layers.GRU(4), keras.layers.Dense(1)]
    ... )
    >>> x, y = np.ones((8, 9, 3)), np.ones((8, 1))
    >>> ratio = VanishingRatio(x, y, every=3)
    >>> model.compile("sgd", "mse")
    >>> fit = model.fit(x, y, batch_size=2, verbose=0, callbacks=[ratio])
    >>> ratio.history["step"], list(fit.history)
    ([0, 3, 4], ['loss', 'vanishing_ratio'])

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.5, figures 1.2b and 1.2c.
    """

    def __init__(
        self,
        inputs: Any,
        targets: Any,
        layer: str | None = None,
        mask: Any = None,
        every: int | None = None,
        end: str = "left",
        loss: str | Callable | None = None,
        batch_size: int = 32,
    ):
        checks.check_choice("end", end, ENDS)
        if every is not None:
            every = checks.check_positive_int("every", every)
        super().__init__()
        self.every = every
        self.history: dict[str, list] = {"step": [], "vanishing_ratio": []}
        self.examples = check_examples(inputs, targets, mask)
        self.layer = layer
        self.end = end
        self.loss = loss
        self.batch_size = checks.check_positive_int("batch_size", batch_size)
        self._probe: Any = None
        self._step = 0

    def on_train_begin(self, logs: Any = None) -> None:
        self._probe = RecurrentProbe(self.model, self.layer, self.loss)
        self._step = self._iterations()
        if not self.history["step"]:
            self._record()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        before, self._step = self._step, self._iterations()
        if self.every and self._step // self.every > before // self.every:
            self._record()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._record()
        if logs is not None:
            logs["vanishing_ratio"] = self.history["vanishing_ratio"][-1]

    def _record(self) -> None:
        """Measures, unless this step has been measured."""
        if self.history["step"][-1:] == [self._step]:
            return
        profile = mean_profile(self._probe, self.examples, 100, self.batch_size)
        self.history["step"].append(self._step)
        self.history["vanishing_ratio"].append(
            vanishing_ratio(profile, self.end)
        )

    def _iterations(self) -> int:
        # A variable of several replicas has no int.
        iterations = self.model.optimizer.iterations
        return int(keras.ops.convert_to_numpy(iterations))
