"""Training with a loss on how gradients are distributed over positions.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.7.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import graph
from keras_seqmech.core import masks
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.core.scan.protocol import differentiable_twice
from keras_seqmech.training import network_model
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class GradientDirectedModel(network_model.NetworkModel):
    r"""Trains a functional model with a loss that penalizes unequal gradients.

    $$\ell = \ell_1 + \lambda\, KL(p \,\|\, u), \qquad
      p_t = \frac{\lVert \partial \ell_1 / \partial x_t \rVert}
                 {\sum_s \lVert \partial \ell_1 / \partial x_s \rVert}$$

    with $\ell_1$ the compiled loss, $x$ the input of a recurrent layer and
    $u$ uniform over the real positions of an example. The recurrent layer
    learns to carry gradient to all positions, the first as well as the last;
    inference is that of the network. The divergence is averaged over the
    examples that have a real position, whatever their sample weights; one
    without any gradient (such as one of sample weight 0) counts as 0.

    Use it like `keras.Model`. `fit` reports the divergence as
    `gradient_divergence` and has it in `loss`; `evaluate` and `predict` are
    those of the network. Over an epoch, `gradient_divergence` is the mean
    over its examples; steps that overflow and are skipped do not count. What
    layers add to the loss (regularizers, penalties) is in `loss` but not in
    $\ell_1$. `model.network` is the trained network alone, to save, export and
    use without this class.

    $\lambda$ is the non-trainable variable `gradient_weight`, to be lowered by
    `Schedule({"gradient_weight": (1.0, 0.0)})`.

    Args:
        network: A functional model.
        layer: Name of the layer of the network that returns $x$, one tensor
            `(batch, time, features)`, such as the embedding, or of an input;
            the network, not a model nested in it, calls it, and once.
        gradient_weight: Float of at least 0, $\lambda$ at the start.
        mask: Name of the input or layer of the network that says which
            positions are real, by a boolean `(batch, time)` of any pattern.
            All positions are real if None: masks that Keras passes on by
            itself are not seen.
        **kwargs: Arguments of `keras.Model`, such as `name`.

    Call arguments:
        inputs: Tensors, as for the network.
        training: Whether layers run in training mode.

    Cost: a training step differentiates the gradient, about three times the
    work of a plain one. The loops of this package (`ReceptiveFieldRNN`,
    `FocusedHierarchicalEncoder`) then keep all that their steps compute, and
    run over padded steps. XLA would take a hundred times longer, so the class
    declares that it does not support it: `jit_compile=True` then trains
    without XLA, with a warning.

    Limits: cuDNN has no second derivative, so on a GPU `fit` refuses layers
    that may use it: build them with `use_cudnn=False`. Examples of a batch
    must not mix in training, as in batch normalization.

    Raises:
        ValueError: If a name is unknown (the error lists those there are), a
            layer is called twice, a shape or a number does not fit; in `fit`,
            if no gradient reaches the layer.

    Example:

    >>> tokens = keras.Input((5,), dtype="int32", name="tokens")
    >>> mask = keras.Input((5,), dtype="bool", name="mask")
    >>> x = keras.layers.Embedding(9, 4, name="embedding")(tokens)
    >>> h = keras.layers.LSTM(4, use_cudnn=False)(x, mask=mask)
    >>> y = keras.layers.Dense(1, activation="sigmoid")(h)
    >>> network = keras.Model({"tokens": tokens, "mask": mask}, y)
    >>> model = GradientDirectedModel(network, layer="embedding", mask="mask")
    >>> model.compile("adam", "binary_crossentropy")
    >>> x = {"tokens": np.ones((6, 5)), "mask": np.ones((6, 5), "bool")}
    >>> fit = model.fit(x, np.ones((6, 1)), verbose=0)
    >>> sorted(fit.history)
    ['gradient_divergence', 'loss']
    """

    def __init__(
        self,
        network: keras.Model,
        *,
        layer: str,
        gradient_weight: float = 1.0,
        mask: str | None = None,
        **kwargs: Any,
    ):
        gradient_weight = checks.check_not_negative(
            "gradient_weight", gradient_weight
        )
        graph.check_functional(network)
        super().__init__(network, **kwargs)
        self.supports_jit = False
        self.layer_name = layer
        self.initial_gradient_weight = gradient_weight
        self.mask = mask
        probe = _probe(network, layer, mask)
        # In a function, where Keras does not save it as a part of the model.
        self._probe = lambda inputs: probe(
            graph.arrange_inputs(probe, inputs), training=True
        )
        self.gradient_weight = add_scalar(
            self, "gradient_weight", gradient_weight
        )
        self._divergence = keras.metrics.Mean(
            "gradient_divergence", dtype=score_dtype(keras.config.floatx())
        )

    def train_step(self, data: Any) -> dict[str, Tensor]:
        _check_differentiable(self)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        x = keras.tree.map_structure(
            lambda part: part if part is None else ops.convert_to_tensor(part),
            x,
        )
        # With a distribution strategy, losses are summed over replicas.
        replicas = self.distribute_strategy.num_replicas_in_sync
        with tf.GradientTape() as tape:
            loss, divergence, count, outputs = self._run(x, y, sample_weight)
            directed = self.gradient_weight * divergence / replicas
            total = loss + ops.cast(directed, loss.dtype)
            scaled = self.optimizer.scale_loss(total)
        variables = self.trainable_variables
        self.optimizer.apply(tape.gradient(scaled, variables), variables)
        # A step that overflows and is skipped must not spoil the epoch's means.
        is_finite = ops.isfinite(divergence)
        self._divergence.update_state(
            ops.where(is_finite, divergence, 0),
            sample_weight=ops.where(is_finite, count, 0),
        )
        total = ops.where(is_finite, total, loss) * replicas
        for metric in self.metrics:
            if metric.name == "loss":
                size = ops.shape(keras.tree.flatten(outputs)[0])[0]
                metric.update_state(total, sample_weight=size)
        return self.compute_metrics(x, y, outputs, sample_weight=sample_weight)

    def _run(
        self, x: Tensor, y: Tensor, sample_weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Loss, divergence, number of examples in it, outputs of a batch."""
        with tf.GradientTape() as tape:
            # Watch all variables: those of frozen layers are not by default.
            tape.watch(_float_tensors(x))
            tape.watch([v.value for v in _float_tensors(self.variables)])
            with differentiable_twice():
                probed = self._probe(x)
            loss = self.compute_loss(
                x=x,
                y=y,
                y_pred=probed["outputs"],
                sample_weight=sample_weight,
                training=True,
            )
            added = sum(
                ops.cast(ops.sum(part), loss.dtype) for part in self.losses
            )
            # Keras has scaled them as it scales the compiled loss.
            added = added / self.distribute_strategy.num_replicas_in_sync
            # Scaled, small gradients survive in half precision.
            scaled = self.optimizer.scale_loss(loss - added)
        gradients = tape.gradient(scaled, probed["sequences"])
        divergence, count = self._mean_divergence(gradients, probed.get("mask"))
        return loss, divergence, count, probed["outputs"]

    def test_step(self, data: Any) -> dict[str, Tensor]:
        results = super().test_step(data)
        results.pop(self._divergence.name)
        return results

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "layer": self.layer_name,
            "gradient_weight": self.initial_gradient_weight,
            "mask": self.mask,
            "names": _names(self.network),
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "GradientDirectedModel":
        config = dict(config)
        names = config.pop("names", [])
        network = cls.deserialized_parts(config, custom_objects)["network"]
        # A network with a class of its own may name its layers anew.
        renamed = dict(zip(names, _names(network)))
        for argument in ("layer", "mask"):
            name = config[argument]
            config[argument] = renamed.get(name, name)
        return cls(**{**config, "network": network})

    def _mean_divergence(
        self, gradients: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if gradients is None:
            raise ValueError(
                "Argument `layer` must name a layer that the compiled loss "
                "depends on, made of weights or float inputs. "
                f"Received: layer={self.layer_name!r}"
            )
        divergences = gradient_divergence(gradients, mask)
        real = masks.real_steps(gradients, mask)
        count = ops.sum(ops.cast(ops.any(real, axis=1), divergences.dtype))
        return ops.sum(divergences) / ops.maximum(count, 1), count


def _names(network: keras.Model) -> list[str]:
    """The names of layers and inputs, in the order of the network."""
    return [part.name for part in (*network.layers, *network.inputs)]


def _float_tensors(values: Any) -> list[Tensor]:
    return [
        value
        for value in keras.tree.flatten(values)
        if value is not None
        and keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(value.dtype)
        )
    ]


def _probe(network: keras.Model, layer: str, mask: str | None) -> keras.Model:
    """The network with its sequences, and their mask, as further outputs."""
    again, calls = graph.record_calls(network)
    tensors = [(operation.name, outputs) for operation, outputs in calls]
    tensors += [(tensor.name, tensor) for tensor in again.inputs]
    outputs = {
        "sequences": _find_sequences(network, layer, tensors),
        "outputs": again.output,
    }
    if mask is not None:
        outputs["mask"] = _find_mask(mask, tensors)
        shape = outputs["sequences"].shape
        checks.check_by_step("mask", outputs["mask"], shape)
    elif any(
        operation.name == layer and getattr(operation, "mask_zero", False)
        for operation, _ in calls
    ):
        raise ValueError(
            "Argument `mask` must be given with a layer that has "
            "`mask_zero=True`, whose own mask is not seen. Received: mask=None"
        )
    return keras.Model(again.input, outputs)


def _find_sequences(
    network: keras.Model, layer: str, tensors: list[tuple[str, Tensor]]
) -> Tensor:
    found = [outputs for name, outputs in tensors if name == layer]
    if len(found) != 1:
        names = [part.name for part in network.layers]
        raise ValueError(
            "Argument `layer` must name a layer that the network calls once; "
            f"there are: {names}. Received: layer={layer!r}, called "
            f"{len(found)} times"
        )
    outputs = keras.tree.flatten(found[0])
    if len(outputs) != 1 or len(outputs[0].shape) != 3:
        raise ValueError(
            "Argument `layer` must name a layer that returns one tensor "
            f"(batch, time, features). Received: layer={layer!r} with outputs "
            f"of shapes {[tensor.shape for tensor in outputs]}"
        )
    return outputs[0]


def _find_mask(mask: str, tensors: list[tuple[str, Tensor]]) -> Tensor:
    masks = {
        name: outputs
        for name, outputs in tensors
        if not keras.tree.is_nested(outputs) and outputs.dtype == "bool"
    }
    if not isinstance(mask, str) or mask not in masks:
        raise ValueError(
            "Argument `mask` must name a boolean input of the network, or a "
            f"layer that returns a boolean tensor; there are: {list(masks)}. "
            f"Received: mask={mask!r}"
        )
    return masks[mask]


def _check_differentiable(model: keras.Model) -> None:
    """Refuses what may run on cuDNN, which has no second derivative."""
    if not tf.config.list_physical_devices("GPU"):
        return
    names = [
        part.name
        for part in graph.sublayers(model)
        if getattr(part, "use_cudnn", False) in (True, "auto")
    ]
    if names:
        raise ValueError(
            "Gradient-directed training on a GPU needs recurrent layers "
            "with `use_cudnn=False`: cuDNN has no second derivative. "
            f"Received: layers that may use cuDNN: {names}"
        )


def gradient_divergence(
    gradients: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""How far the gradients' norms are from equal, $KL(p \,\|\, u)$.

    $p_t = \lVert g_t \rVert / \sum_s \lVert g_s \rVert$ and $u$ uniform over
    the n real positions of each row. Between 0 (all norms equal) and log n (one
    position has the whole gradient); 0 in rows without a gradient or a real
    position, NaN in rows where a gradient is not finite. The scale of a row
    does not matter. Float32 or wider; where it is finite, so is its own
    gradient.

    Example:

    >>> import numpy as np
    >>> g = np.array([[[3.0, 4.0], [0.0, 5.0]], [[1.0, 0.0], [0.0, 0.0]]])
    >>> gradient_divergence(g).numpy().round(4)
    array([0.    , 0.6931])
    """
    gradients = ops.convert_to_tensor(gradients)
    gradients = ops.cast(gradients, score_dtype(gradients.dtype))
    gradients = masks.zero_masked(gradients, mask)
    largest = ops.max(ops.abs(gradients), axis=(1, 2), keepdims=True)
    # Squares neither overflow nor vanish; the scale cancels in p.
    scaled = gradients / ops.stop_gradient(_or_one(largest))
    squares = ops.sum(ops.square(scaled), axis=-1)
    norms = ops.where(squares > 0, ops.sqrt(_or_one(squares)), 0)
    p = norms / _or_one(ops.sum(norms, axis=1, keepdims=True))
    real = ops.cast(masks.real_steps(gradients, mask), p.dtype)
    count = ops.sum(real, axis=1, keepdims=True)
    divergence = ops.sum(p * ops.log(_or_one(p * count)), axis=1)
    finite = ops.all(ops.isfinite(gradients), axis=(1, 2))
    return ops.where(finite, divergence, float("nan"))


def _or_one(x: Tensor) -> Tensor:
    """1 in place of 0: nothing divides by 0, nor does a gradient."""
    return ops.where(x > 0, x, ops.ones_like(x))
