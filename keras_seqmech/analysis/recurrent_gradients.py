"""The gradient at each step of a recurrent layer, through the recurrence."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.analysis.perturbed_encoder import PerturbedEncoder
from keras_seqmech.analysis.perturbed_model import PerturbedLayer
from keras_seqmech.analysis.perturbed_model import find_recurrent_layer
from keras_seqmech.analysis.perturbed_model import rebuild
from keras_seqmech.analysis.restored_state import state_restored
from keras_seqmech.layers import FocusedHierarchicalEncoder
from keras_seqmech.layers.sublayers import sublayers

EPSILON = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
}


class RecurrentProbe:
    r"""Norms of $dL_b/dh_t$ at the steps of a recurrent layer of a model.

    The derivative is the total one. The gradient with respect to the output
    of the layer is not enough: it has the paths that leave the recurrence at
    t, but not those through $h_{t+1}$ and later steps. So a model that shares
    all layers of the given one runs the same cell in a loop in which each
    step adds a perturbation $e_t = 0$ to $h_t$, before the output and the
    next step read it. Then $dL_b/de_t = dL_b/dh_t$.

    Before the first measurement, the model made this way must give the
    outputs of the given one.

    Args:
        model: A built `keras.Model`, as in `gradient_profile`.
        layer: Name of a recurrent layer at any depth, or None for the only one.
        loss: As in `gradient_profile`.

    Raises:
        ValueError: If there is no such layer, or no loss; at the first
            measurement, if the model cannot be rebuilt around the layer, or
            the loss does not fit.
    """

    def __init__(
        self,
        model: keras.Model,
        layer: str | None = None,
        loss: str | Callable | None = None,
    ):
        self.model = model
        self.loss = _find_loss(model, loss)
        site = find_recurrent_layer(model, layer)
        is_encoder = isinstance(site.layer, FocusedHierarchicalEncoder)
        self._layer = (PerturbedEncoder if is_encoder else PerturbedLayer)(site)
        self._rebuilt: Any = None
        self._traced = tf.function(self._norms, autograph=False)

    def norms(self, inputs: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Norms of one batch, and the mask that the layer was called with.

        Returns:
            float64 and boolean `(batch, time)`; all True without a mask.
        """
        if self._rebuilt is None:
            rebuilt = rebuild(self.model, self._layer, inputs)
            self._check_outputs(rebuilt, inputs)
            self._rebuilt = rebuilt
        norms, mask = self._traced(inputs, targets)
        return norms.numpy(), mask.numpy()

    def _check_outputs(self, rebuilt: keras.Model, inputs: Any) -> None:
        with state_restored(self.model):
            expected = self.model(inputs, training=False)
        with state_restored(self.model):
            outputs = rebuilt(inputs, training=False)
        tolerance = _tolerance(self.model)
        pairs = zip(keras.tree.flatten(outputs), keras.tree.flatten(expected))
        if not all(_agree(*pair, tolerance) for pair in pairs):
            raise ValueError(
                f"Argument `layer` must name a layer, {self._layer.site.name!r}"
                ", that runs its cell at each step and does nothing else, in "
                "a model whose outputs depend on its inputs and variables "
                "alone. Received: a model that gives other outputs when its "
                "cell is run so"
            )

    def _norms(self, inputs: Any, targets: Any) -> tuple[tf.Tensor, tf.Tensor]:
        with (
            tf.GradientTape(watch_accessed_variables=False) as tape,
            self._layer.recording(tape) as runs,
        ):
            outputs = self._rebuilt(inputs, training=False)
            if len(runs) != 1:
                raise ValueError(
                    f"Layer {self._layer.site.name!r} must run exactly once in "
                    f"a call of the model. Received: it ran {len(runs)} times"
                )
            total = ops.sum(_losses(self.loss, targets, outputs))
        (run,) = runs
        gradients = tape.gradient(
            total,
            run.perturbations,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        gradients = [tf.cast(gradient, "float64") for gradient in gradients]
        norms = tf.norm(tf.concat(gradients, axis=-1), axis=-1)
        if run.mask is None:
            return norms, tf.ones_like(norms, "bool")
        return norms, ops.cast(run.mask, "bool")


def _tolerance(model: keras.Model) -> float:
    """Half of the digits of the coarsest dtype that a model computes in."""
    dtypes = {layer.compute_dtype for layer in sublayers(model)}
    return max(EPSILON.get(dtype, 0.0) for dtype in dtypes) ** 0.5


def _agree(output: Any, expected: Any, tolerance: float) -> bool:
    """Whether two arrays differ by no more than rounding at their scale."""
    output, expected = np.asarray(output), np.asarray(expected)
    if output.dtype.kind in "OSU":
        return np.array_equal(output, expected)
    output, expected = output.astype("float64"), expected.astype("float64")
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    return output.shape == expected.shape and np.allclose(
        output, expected, rtol=0.0, atol=tolerance * scale, equal_nan=True
    )


def _find_loss(model: keras.Model, loss: Any) -> Any:
    if loss is None:
        loss = getattr(model, "loss", None)
        if loss is None or isinstance(loss, (dict, list, tuple)):
            raise ValueError(
                "Argument `loss` must be given for a model that is not "
                "compiled with a single loss. "
                f"Received: loss=None, and a model compiled with {loss!r}"
            )
    return loss


def _losses(loss: Any, targets: Any, outputs: Any) -> tf.Tensor:
    """The loss of each example, as Keras has it before the reduction."""
    if not keras.tree.is_nested(outputs):
        if keras.backend.standardize_dtype(outputs.dtype) != "float64":
            outputs = ops.cast(outputs, "float32")
        if not keras.tree.is_nested(targets):
            targets = ops.cast(targets, outputs.dtype)
            rank = len(outputs.shape)
            if len(targets.shape) == rank - 1 and outputs.shape[-1] == 1:
                targets = ops.expand_dims(targets, -1)
    elif isinstance(loss, (str, keras.losses.Loss)):
        raise ValueError(
            "Argument `loss` must be a function of (targets, outputs) for a "
            f"model with several outputs. Received: loss={loss!r}"
        )
    loss = keras.losses.get(loss)
    call = loss.call if isinstance(loss, keras.losses.Loss) else loss
    losses = ops.convert_to_tensor(call(targets, outputs))
    if not len(losses.shape):
        raise ValueError(
            "Argument `loss` must give one value an example, not their mean. "
            f"Received: loss={loss!r}, which gives a scalar"
        )
    return ops.mean(ops.reshape(losses, (ops.shape(losses)[0], -1)), axis=1)
