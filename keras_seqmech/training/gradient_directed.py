"""Training that asks the gradient to reach every position.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 2.2.7.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from keras_seqmech.layers import validation
from keras_seqmech.layers.sublayers import sublayers
from keras_seqmech.ops import masking
from keras_seqmech.ops.gradient_divergence import gradient_divergence


@keras.saving.register_keras_serializable(package="keras_seqmech")
class GradientDirectedModel(keras.Model):
    r"""A functional model whose loss punishes unequal gradients.

    $$\ell = \ell_1 + \lambda\, KL(p \,\|\, u), \qquad
      p_t = \frac{\lVert \partial \ell_1 / \partial x_t \rVert}
                 {\sum_s \lVert \partial \ell_1 / \partial x_s \rVert}$$

    with $\ell_1$ the compiled loss, $x$ the input of a recurrent layer and
    $u$ uniform over the real positions of an example. The recurrent layer
    learns to carry gradient to all positions, the first as well as the last,
    and nothing of it is left at inference. The divergence is a mean over the
    examples that have a real position, whatever their sample weights; one
    without any gradient (such as one of sample weight 0) counts as 0.

    Used like `keras.Model(inputs, outputs)`. `fit` reports the divergence as
    `gradient_divergence` and has it in `loss`; `evaluate` and `predict` are
    those of a plain model. Over an epoch, `gradient_divergence` is the mean
    over its examples; steps that overflow and are skipped do not count. What
    layers add to the loss (regularizers, penalties) is in `loss` but not in
    $\ell_1$.

    The layers are shared, so that `keras.Model(model.input, model.output)` is
    the trained model alone; save the weights of that model for others to load,
    for those of this class (`save_weights`) fit this class only. For a copy
    use `from_config(model.get_config())`: `keras.models.clone_model` does not
    hand on `layer`.

    $\lambda$ is the non-trainable variable `gradient_weight`, to be lowered by
    `Curriculum("gradient_weight", max_epochs, initial=1.0, final=0.0)`.

    Args:
        inputs: Symbolic inputs, as for `keras.Model`.
        outputs: Symbolic outputs, as for `keras.Model`.
        name: Name of the model.
        layer: Name of the layer that puts out $x$, `(batch, time, features)`,
            such as the embedding; the model itself, not one nested in it,
            calls it, and once.
        gradient_weight: Float of at least 0, $\lambda$ at the start.
        mask: Name of the boolean input `(batch, time)`, True where a position
            is real, of any pattern; or of the operation of the model that
            puts it out; or that symbolic tensor itself. All positions are
            real if None: masks that Keras passes on by itself are not seen.
        **kwargs: Further arguments of `keras.Model`.

    Call arguments:
        inputs: Tensors, as for `keras.Model`.
        training: Whether layers run in training mode.

    Cost: a training step differentiates the gradient, about three times the
    work of a plain one. XLA takes a hundred times longer over it; Keras is
    told so, and `jit_compile=True` goes on without XLA, with a warning.

    Limits: cuDNN has no second derivative, so on a GPU `fit` refuses layers
    that may use it: build them with `use_cudnn=False`. The training loop of
    `ReceptiveFieldRNN` has none either and raises a LookupError. Examples of
    a batch must not mix in training, as in batch normalization.

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
    >>> model = GradientDirectedModel(
    ...     {"tokens": tokens, "mask": mask}, y, layer="embedding", mask="mask"
    ... )
    >>> model.compile("adam", "binary_crossentropy")
    >>> x = {"tokens": np.ones((6, 5)), "mask": np.ones((6, 5), "bool")}
    >>> fit = model.fit(x, np.ones((6, 1)), verbose=0)
    >>> sorted(fit.history)
    ['gradient_divergence', 'loss']
    """

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        name: str | None = None,
        *,
        layer: str,
        gradient_weight: float = 1.0,
        mask: Any = None,
        **kwargs,
    ):
        gradient_weight = validation.check_not_negative(
            "gradient_weight", gradient_weight
        )
        super().__init__(inputs, outputs, name=name, **kwargs)
        self.supports_jit = False
        self.layer_name = layer
        self.initial_gradient_weight = gradient_weight
        self.mask_name = None
        sequences = _find_sequences(self, layer, mask)
        probed = {"sequences": sequences, "outputs": self.output}
        if mask is not None:
            self.mask_name, probed["mask"] = _find_mask(self, mask)
            validation.check_mask("mask", probed["mask"], sequences.shape)
        probe = keras.Model(self.input, probed)
        # In a function, where Keras does not save it as a part of the model.
        self._probe = lambda inputs: probe(inputs, training=True)
        self.gradient_weight = self.add_weight(
            name="gradient_weight",
            shape=(),
            dtype="float32",
            initializer=keras.initializers.Constant(gradient_weight),
            trainable=False,
            autocast=False,
            constraint="non_neg",
        )
        self._divergence = keras.metrics.Mean(name="gradient_divergence")

    def train_step(self, data):
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

    def _run(self, x, y, sample_weight):
        """Loss, divergence, number of examples in it, outputs of a batch."""
        with tf.GradientTape() as tape:
            # Frozen layers too, or the tape loses sight of what they make.
            tape.watch(_float_tensors(x))
            tape.watch([v.value for v in _float_tensors(self.variables)])
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

    def test_step(self, data):
        results = super().test_step(data)
        results.pop(self._divergence.name)
        return results

    def get_config(self):
        return {
            **super().get_config(),
            "layer": self.layer_name,
            "gradient_weight": self.initial_gradient_weight,
            "mask": self.mask_name,
        }

    def _mean_divergence(self, gradients, mask):
        if gradients is None:
            raise ValueError(
                "Argument `layer` must name a layer that the compiled loss "
                "depends on, made of weights or float inputs. "
                f"Received: layer={self.layer_name!r}"
            )
        divergences = gradient_divergence(gradients, mask)
        real = masking.real_steps(gradients, mask)
        count = ops.sum(ops.cast(ops.any(real, axis=1), divergences.dtype))
        return ops.sum(divergences) / ops.maximum(count, 1), count


def _float_tensors(values):
    return [
        value
        for value in keras.tree.flatten(values)
        if value is not None
        and keras.backend.is_float_dtype(
            keras.backend.standardize_dtype(value.dtype)
        )
    ]


def _outputs(model):
    """Each call of an operation in a model, and the tensors it puts out."""
    # The public `layer.output` fails where another model calls the layer too,
    # and operations that are no layers are not among `model.layers`.
    return [
        (node.operation, node.output_tensors)
        for nodes in model._nodes_by_depth.values()
        for node in nodes
    ]


def _find_sequences(model, layer, mask):
    found = [
        (operation, tensors)
        for operation, tensors in _outputs(model)
        if operation.name == layer
    ]
    if not found:
        names = [part.name for part in model.layers]
        raise ValueError(
            "Argument `layer` must name a layer of the model; there are: "
            f"{names}. Received: layer={layer!r}"
        )
    if len(found) > 1:
        raise ValueError(
            "Argument `layer` must name a layer that the model calls once. "
            f"Received: layer={layer!r}, called {len(found)} times"
        )
    operation, tensors = found[0]
    if len(tensors) != 1 or len(tensors[0].shape) != 3:
        raise ValueError(
            "Argument `layer` must name a layer that puts out one tensor "
            f"(batch, time, features). Received: layer={layer!r} with outputs "
            f"of shapes {[tensor.shape for tensor in tensors]}"
        )
    if mask is None and getattr(operation, "mask_zero", False):
        raise ValueError(
            "Argument `mask` must be given with a layer that has "
            "`mask_zero=True`, whose own mask is not seen. Received: mask=None"
        )
    return tensors[0]


def _find_mask(model, mask):
    """Name of the operation that puts out a mask, and the mask."""
    masks = {
        operation.name: tensors[0]
        for operation, tensors in _outputs(model)
        if len(tensors) == 1 and tensors[0].dtype == "bool"
    }
    for name, tensor in masks.items():
        if mask is tensor or isinstance(mask, str) and mask == name:
            return name, tensor
    raise ValueError(
        "Argument `mask` must name a boolean input of the model, or an "
        f"operation that puts out a boolean tensor; there are: {list(masks)}. "
        f"Received: mask={mask!r}"
    )


def _check_differentiable(model):
    """Refuses what may run on cuDNN, which has no second derivative."""
    if not tf.config.list_physical_devices("GPU"):
        return
    names = [
        part.name
        for part in sublayers(model)
        if getattr(part, "use_cudnn", False) in (True, "auto")
    ]
    if names:
        raise ValueError(
            "Gradient-directed training on a GPU needs recurrent layers "
            "with `use_cudnn=False`: cuDNN has no second derivative. "
            f"Received: layers that may use cuDNN: {names}"
        )
