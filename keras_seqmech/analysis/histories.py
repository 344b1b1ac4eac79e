"""Callbacks that measure a model every few steps of training."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from keras_seqmech.analysis.field_sizes import expected_field_size
from keras_seqmech.analysis.gradients import ENDS
from keras_seqmech.analysis.gradients import check_examples
from keras_seqmech.analysis.gradients import mean_profile
from keras_seqmech.analysis.gradients import vanishing_ratio
from keras_seqmech.analysis.recurrent_gradients import RecurrentProbe
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.analysis.token_arrays import check_labels
from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.core import checks


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


class VanishingRatio(StepHistory):
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
        super().__init__(("vanishing_ratio",), every)
        self.examples = check_examples(inputs, targets, mask)
        self.layer = layer
        self.end = end
        self.loss = loss
        self.batch_size = checks.check_positive_int("batch_size", batch_size)
        self._probe: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        self._probe = RecurrentProbe(self.model, self.layer, self.loss)
        super().on_train_begin(logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.record()
        if logs is not None:
            logs["vanishing_ratio"] = self.history["vanishing_ratio"][-1]

    def measure(self) -> dict[str, float]:
        """The vanishing ratio now."""
        profile = mean_profile(self._probe, self.examples, 100, self.batch_size)
        return {"vanishing_ratio": vanishing_ratio(profile, self.end)}


class FieldSizeHistory(StepHistory):
    r"""Records the mean field size $E(s_t)$ during training.

    Before the first step and every `every` steps, it runs fixed inputs in
    inference mode, without dropout and noise. (The metrics of
    `track_statistics=True` are running means over an epoch, of sampled fields
    under dropout.) Metrics, states and seeds of the model do not change. With
    `steps_per_execution` it measures after the execution in which a step was
    due.

    `history` holds the equally long lists `"step"` (`optimizer.iterations`),
    `"mean_size"` (mean of `expected_field_size` over real steps) and, with
    labels, `"accuracy"`. `plots.plot_history` draws them.

    Args:
        fields: A model that shares the trained layers and returns the dict
            of `ReceptiveFieldRNN(return_field=True)`, nothing else.
        inputs: Inputs of `fields` and of the trained model; run as one batch.
        mask: Boolean array `(batch, time)`, True where a step is real.
        labels: Ints `(batch,)`. If given, the trained model must return class
            probabilities or logits `(batch, classes)`, of two classes or more.
        every: Positive int, steps between measurements.

    Raises:
        ValueError: If an argument does not fit; when training begins, if the
            outputs of the models do not.

    Example:

    >>> import keras, numpy as np
    >>> inputs = keras.Input((5, 3))
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> cell = keras.layers.SimpleRNNCell(4)
    >>> layer = ReceptiveFieldRNN(cell, max_size=2, return_field=True)
    >>> outputs, field = layer(inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(outputs))
    >>> x, y = np.ones((8, 5, 3)), np.ones((8, 1))
    >>> record = FieldSizeHistory(keras.Model(inputs, field), x, every=2)
    >>> model.compile("sgd", "mse")
    >>> fit = model.fit(x, y, batch_size=2, verbose=0, callbacks=[record])
    >>> record.history["step"]
    [0, 2, 4]

    Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
    Networks", figure 2.
    """

    def __init__(
        self,
        fields: keras.Model,
        inputs: Any,
        mask: Any = None,
        labels: Any = None,
        every: int = 50,
    ):
        names = ("mean_size",) if labels is None else ("mean_size", "accuracy")
        super().__init__(names, checks.check_positive_int("every", every))
        if labels is not None:
            count = len(keras.tree.flatten(inputs)[0])
            labels = check_labels(labels, count, None)
        if not isinstance(fields, keras.Model):
            raise ValueError(
                "Argument `fields` must be a `keras.Model`. "
                f"Received: fields={fields!r}"
            )
        self.fields = fields
        self.inputs = inputs
        self.mask = mask
        self.labels = labels

    def measure(self) -> dict[str, float]:
        """The mean size and, with labels, the accuracy, now."""
        outputs: Any = None
        with state_restored(self.fields, self.model):
            field = self.fields.predict_on_batch(self.inputs)
            if self.labels is not None:
                outputs = self.model.predict_on_batch(self.inputs)
        if not isinstance(field, dict) or "probabilities" not in field:
            received = sorted(field) if isinstance(field, dict) else type(field)
            raise ValueError(
                "Argument `fields` must be a model that returns the dict of "
                "`ReceptiveFieldRNN(return_field=True)`, such as "
                "`keras.Model(inputs, field)`. "
                f"Received: fields with {received}"
            )
        probabilities = field["probabilities"]
        mask = check_mask(self.mask, probabilities.shape[:2])
        sizes = expected_field_size(probabilities, mask)
        found = {"mean_size": float(sizes.sum() / max(mask.sum(), 1))}
        if self.labels is not None:
            shape: tuple[int, ...] = getattr(outputs, "shape", ())
            if len(shape) != 2 or shape[1] < 2:
                raise ValueError(
                    "Argument `labels` needs a trained model that returns "
                    "(batch, classes), of two classes or more. "
                    f"Received: outputs of shape {shape or type(outputs)}"
                )
            right = np.argmax(outputs, axis=-1) == self.labels
            found["accuracy"] = float(np.mean(right))
        return found
