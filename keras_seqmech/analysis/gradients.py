"""The norm of the loss's gradient at each position of a text."""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np

from keras_seqmech.analysis import positions
from keras_seqmech.analysis.by_step import check_mask
from keras_seqmech.analysis.recurrent_gradients import RecurrentProbe
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.core import checks

ENDS = ("left", "right")


def gradient_profile(
    model: keras.Model,
    inputs: Any,
    targets: Any,
    layer: str | None = None,
    mask: Any = None,
    loss: str | Callable | None = None,
    num_points: int = 100,
    batch_size: int = 32,
) -> np.ndarray:
    r"""Norm of the loss's gradient at the hidden states, by position.

    $$g_t = \frac{1}{B} \sum_b \Big\lVert \frac{dL_b}{dh_{b,t}} \Big\rVert_2$$

    with $h_t$ the output of a recurrent layer at step t. The derivative is the
    total one, through all later steps, too. $L_b$ is the loss of one example in
    inference mode, so neither batch size nor dropout matters. In a
    bidirectional layer $h_t$ is the state of both directions at position t.
    Sizes of fields are hard, as at inference, and have no gradient; outputs of
    `return_field=True` are treated as constants. The norms at the real steps
    of each example are interpolated to `num_points` and averaged over the
    examples, which may differ in length.

    Weights, metrics, states and seeds of the model do not change.

    Args:
        model: A built functional or sequential model with a
            `keras.layers.RNN`, `LSTM`, `GRU`, `SimpleRNN`, `ReceptiveFieldRNN`
            or `RNN(RFCell)`, not stateful, alone or in a `Bidirectional`,
            `LearnedInitialState` or `KeepMask`, also in functional and
            sequential models within it; or a model whose `network` is such
            a model, such as `PolicyGradientModel`. For a subclassed model,
            build `keras.Model(inputs, outputs)` over the same layers.
        inputs: Arrays as the model takes them, also nested, of one example
            or more.
        targets: Arrays as the loss takes them.
        layer: Name of the recurrent layer; None if the model has only one.
        mask: Boolean array `(batch, time)`, True where a step of that layer
            is real. If None, the mask with which the model calls the layer;
            without such a mask, all steps are real. Examples without a real
            step are left out.
        loss: Name of a Keras loss, a `keras.losses.Loss` (its reduction is
            ignored), or a function of `(targets, outputs)` that returns one
            value or more for each example, which are averaged; the model's
            compiled loss if None. Targets are cast and get a last axis as in
            `fit`.
        num_points: Positive int, number of positions of the profile.
        batch_size: Positive int, number of examples measured at once.

    Returns:
        float64 array `(num_points,)`. Gradients are computed in the layer's
        dtype; in float16 small ones underflow.

    Raises:
        ValueError: If the layer cannot be found or measured, shapes do not
            fit, or no example has a real step.

    Example:

    >>> import keras, numpy as np
    >>> inputs = keras.Input((20, 3))
    >>> hidden = keras.layers.LSTM(4)(inputs)
    >>> model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    >>> x, y = np.ones((8, 20, 3)), np.ones((8, 1))
    >>> profile = gradient_profile(model, x, y, loss="mse")
    >>> profile.shape, bool(profile[0] < profile[-1])
    ((100,), True)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.5, figure 1.2a.
    """
    return mean_profile(
        RecurrentProbe(model, layer, loss),
        check_examples(inputs, targets, mask),
        checks.check_positive_int("num_points", num_points),
        checks.check_positive_int("batch_size", batch_size),
    )


def vanishing_ratio(profile: Any, end: str = "left") -> float:
    r"""Ratio of the gradient's norms in the middle and at the end of a text.

    $$\lVert dL/dh_{mid} \rVert \,/\, \lVert dL/dh_{end} \rVert$$

    At 1 nothing vanishes, at 0 no gradient reaches the middle.

    Args:
        profile: Norms by position, such as `gradient_profile` returns. The
            middle is their mean over the middle tenth of the positions (45 to
            54 of 100), at least over the middle one or two.
        end: `"left"` (the first position, the choice of the source) or
            `"right"` (the last).

    Returns:
        The ratio; infinite where only the end is 0, and 1 where both are.

    Raises:
        ValueError: If the profile is not a list of norms, or `end` unknown.

    Example:

    >>> vanishing_ratio([2.0, 0.5, 4.0])
    0.25

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.5, table 1.2.
    """
    checks.check_choice("end", end, ENDS)
    try:
        norms = np.asarray(profile, dtype="float64")
    except (TypeError, ValueError):
        norms = np.zeros(0)
    if norms.ndim != 1 or not norms.size or not (norms >= 0).all():
        raise ValueError(
            "Argument `profile` must hold one norm or more, each at least 0. "
            f"Received: profile={profile!r}"
        )
    count = len(norms)
    middle = norms[45 * count // 100 : -(-55 * count // 100)].mean()
    reference = norms[0] if end == "left" else norms[-1]
    if reference == 0:
        return 1.0 if middle == 0 else float("inf")
    return float(middle / reference)


class VanishingRatio(keras.callbacks.Callback):
    """Measures the vanishing ratio of a fixed set of examples in training.

    It measures before the first step, at the end of each epoch, and after
    every `every` optimizer steps if given. The value at the end of an epoch is
    added to the logs as `"vanishing_ratio"`, and so to the history of `fit`;
    list this callback before those that write logs. Metrics, states and seeds
    of the model do not change.

    `history` holds the equally long lists `"step"` (`optimizer.iterations`)
    and `"vanishing_ratio"`; `plots.plot_history` draws them. With
    `steps_per_execution` it measures after the execution that contains the
    step.

    Args:
        inputs: As in `gradient_profile`.
        targets: As in `gradient_profile`.
        layer: As in `gradient_profile`.
        mask: As in `gradient_profile`.
        every: Positive int, number of steps between measurements within an
            epoch; None for no measurements within epochs.
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


class Examples(NamedTuple):
    """Arrays of equally many examples, the first two possibly nested."""

    inputs: Any
    targets: Any
    mask: np.ndarray | None


def mean_profile(
    probe: RecurrentProbe, examples: Examples, num_points: int, batch_size: int
) -> np.ndarray:
    """Mean gradient norms at `num_points` places of the real steps."""
    parts = []
    with state_restored(probe.model):
        for start in range(0, _count(examples), batch_size):
            batch = keras.tree.map_structure(
                lambda array, start=start: array[start : start + batch_size],
                (examples.inputs, examples.targets),
            )
            parts.append(probe.norms(*batch))
    norms, mask = (np.concatenate(arrays) for arrays in zip(*parts))
    if examples.mask is not None:
        mask = check_mask(examples.mask, norms.shape)
    if not mask.any():
        raise ValueError(
            "Argument `mask`, or else the model's own mask, must leave at "
            "least one example with a real step. Received: a mask that is "
            "False everywhere"
        )
    curves = [
        positions.stretch(row[real], num_points)
        for row, real in zip(norms, mask)
        if real.any()
    ]
    return np.mean(curves, axis=0)


def _count(examples: Examples) -> int:
    return len(keras.tree.flatten(examples.inputs)[0])


def check_examples(inputs: Any, targets: Any, mask: Any) -> Examples:
    """Inputs, targets and mask as arrays, of equally many examples."""
    inputs, targets = (
        keras.tree.map_structure(np.asarray, nest) for nest in (inputs, targets)
    )
    if mask is not None:
        mask = np.asarray(mask)
    counts = [
        len(array) if array.ndim else 0
        for array in keras.tree.flatten((inputs, targets, mask))
        if array is not None
    ]
    has_inputs = len(keras.tree.flatten(inputs)) > 0
    if not has_inputs or min(counts) < 1 or min(counts) != max(counts):
        raise ValueError(
            "Arguments `inputs`, `targets` and `mask` must hold equally many "
            f"examples, at least 1. Received: {counts} examples"
        )
    return Examples(inputs, targets, mask)
