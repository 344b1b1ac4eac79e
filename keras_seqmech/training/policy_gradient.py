"""Training of layers that draw hard decisions, by policy gradient."""

from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.core import checks
from keras_seqmech.core import graph
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.decisions.reports import DrawnDecisions
from keras_seqmech.training.example_losses import LossRecorder
from keras_seqmech.training.example_losses import Shares
from keras_seqmech.typing import Tensor

BASELINES = ("moving_average", "batch_mean")


@keras.saving.register_keras_serializable(package="keras_seqmech")
class PolicyGradientModel(keras.Model):
    r"""Trains a network whose layers draw decisions.

    A hard decision $b$ (a gate, a field size) has no gradient. Its
    probability has:

    $$\nabla\, \mathbb{E}_b[\ell] = \mathbb{E}_b\Big[\nabla \ell +
      \frac{1}{B} \sum_i (\ell_i + c_i - \omega_i \beta)\,
      \nabla \log \pi(b_i)\Big]$$

    with $\ell_i$ the part of example i in the compiled loss, $\omega_i$ its
    weight there (1, but for sample weights, masks and the like), $c_i$ the
    penalty that layers report for its decisions, such as one on open gates,
    $\log \pi(b_i)$ the log-probability of all its decisions in all layers
    that draw, and $\beta$ a baseline, which lowers the variance and does not
    change the mean. With the log-likelihood as reward, this is the source's
    policy gradient.

    Use it like `keras.Model`, with plain `compile` and `fit`. `loss` in
    `history` is the plain loss of the decisions drawn; `evaluate` and
    `predict` are those of the network. `model.network` is the network alone:
    take it to look at layers, to export, and to use without this class. A loop
    of your own calls the model and `compute_loss` within
    `training.collect_log_probabilities()`; `compute_loss` takes what was
    collected until then.

    Layers with `estimator="reinforce"` take part, wherever they are in the
    network; a layer called twice counts twice. Only an `RFCell` within
    `keras.layers.RNN` does not: take `ReceptiveFieldRNN`. Within
    `keras.layers.TimeDistributed` the time must be of known length. What
    layers add by `add_loss`, weight decay for example, is differentiated as it
    is and is not part of the reward.

    Args:
        network: A model, functional or with a `call` of its own; its layers
            that draw must be called with `training=True`, as Keras does where
            `call` takes `training`.
        baseline: `"moving_average"`, that of the loss over batches;
            `"batch_mean"`, for each example the mean loss of the others in its
            batch (0 in a batch of one); or None.
        baseline_decay: Decay of the moving average, a float in [0, 1).
        **kwargs: Arguments of `keras.Model`, such as `name`.

    Call arguments:
        inputs: What the network takes.
        training: Whether layers draw.

    Masks and losses: losses may have any reduction, weights and masks, and
    return `(batch, ...)`. Examples of a batch must not mix, as in batch
    normalization in training, or contrastive losses: what the decisions of one
    example do to the loss of another is not seen.

    Cost: that of a plain training step.

    Limits: under `tf.distribute`, `"batch_mean"` is that of a replica. The
    moving average is a weight named `baseline`, of shape `(2,)`, saved and
    restored with those of the network.

    Raises:
        ValueError: If an argument is not allowed; in `compile`, if a loss is
            unknown or has a `__call__` of its own; in `fit`, if no layer drew,
            if there is no loss, if a loss returns no value for each example,
            if a layer drew for another number of examples than the loss has,
            or within a `tf.function`, loop or condition of its own.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> x = keras.Input((5, 3))
    >>> h = ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), max_size=3, estimator="reinforce")(x)
    >>> network = keras.Model(x, keras.layers.Dense(1)(h))
    >>> model = PolicyGradientModel(network)
    >>> model.compile("adam", "mse")
    >>> fit = model.fit(np.ones((8, 5, 3)), np.ones((8, 1)), verbose=0)
    >>> sorted(fit.history)
    ['loss']

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
    policy gradient.
    """

    def __init__(
        self,
        network: keras.Model,
        *,
        baseline: str | None = "moving_average",
        baseline_decay: float = 0.99,
        **kwargs: Any,
    ):
        if not isinstance(network, keras.Model):
            raise ValueError(
                "Argument `network` must be a `keras.Model`. "
                f"Received: network={network!r}"
            )
        if baseline is not None:
            checks.check_choice("baseline", baseline, BASELINES)
        decay = checks.check_not_negative("baseline_decay", baseline_decay)
        if decay >= 1:
            raise ValueError(
                "Argument `baseline_decay` must be a number from 0 to below "
                f"1. Received: baseline_decay={baseline_decay!r}"
            )
        kwargs.setdefault("dtype", network.dtype_policy)
        # The network casts its inputs itself: ids must not lose digits.
        super().__init__(autocast=False, **kwargs)
        self.network = network
        self.built = network.built
        self.baseline = baseline
        self.baseline_decay = decay
        self._recorder = LossRecorder()
        if baseline == "moving_average":
            self._moving_sums = self.add_weight(
                name="baseline",
                shape=(2,),
                dtype="float32",
                initializer="zeros",
                trainable=False,
                autocast=False,
                aggregation="mean",
            )

    @property
    def output_names(self) -> list[str]:
        """The network's, by which Keras knows outputs, losses and metrics."""
        return self.network.output_names

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inputs = graph.arrange_inputs(self.network, inputs)
        return self.network(inputs, training=training)

    def export(self, filepath: Any, *args: Any, **kwargs: Any) -> None:
        """Exports the network, whose answers are the model's."""
        self.network.export(filepath, *args, **kwargs)

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        recorded = self._recorder.recorded(loss)
        super().compile(optimizer, recorded, *args, **kwargs)
        self.loss = loss

    def get_compile_config(self) -> dict[str, Any]:
        config = super().get_compile_config()
        if not config:
            return config
        loss = keras.saving.serialize_keras_object(self.loss)
        return {**config, "loss": loss}

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # Keras asks for this method beside a `compile` of one's own.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def train_step(self, data: Any) -> dict[str, Tensor]:
        with reports.collect():
            return super().train_step(data)

    def compute_loss(
        self,
        x: Tensor | None = None,
        y: Tensor | None = None,
        y_pred: Tensor | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
    ) -> Tensor:
        with self._recorder.recording() as recorded:
            loss = super().compute_loss(
                x=x,
                y=y,
                y_pred=y_pred,
                sample_weight=sample_weight,
                training=training,
            )
        decisions = reports.current()
        if decisions is None or not training:
            return loss
        decisions.check_usable()
        if not decisions:
            raise ValueError(
                f"The network of model '{self.name}' drew nothing in training. "
                'It needs a layer with `estimator="reinforce"`, called with '
                "`training=True` (a `call` of your own takes `training`); "
                "train others with `keras.Model`. Received: "
                f"network={self.network!r}"
            )
        if not recorded.values:
            raise ValueError(
                "Policy gradient needs a `loss` in `compile`: it is the "
                "reward. Terms from `add_loss` are not. Received: loss=None"
            )
        shares = recorded.shares(loss)
        log_probability, penalties = _sums(decisions, shares.losses)
        decisions.clear()
        replicas = self.distribute_strategy.num_replicas_in_sync
        shares = shares._replace(losses=shares.losses + penalties / replicas)
        advantage = shares.losses - shares.weights * self._expected(shares)
        # Its value is 0, so that what `fit` reports is the loss.
        log_probability -= tf.stop_gradient(log_probability)
        # The batch of a replica may be empty.
        surrogate = tf.math.divide_no_nan(
            tf.tensordot(advantage, log_probability, 1),
            tf.cast(tf.size(advantage), advantage.dtype),
        )
        return loss + tf.cast(surrogate, loss.dtype)

    def _expected(self, shares: Shares) -> Tensor:
        """The baseline: the loss to expect of an example of weight 1."""
        losses, weights = shares
        if self.baseline is None:
            return tf.zeros((), losses.dtype)
        if self.baseline == "batch_mean":
            return tf.math.divide_no_nan(
                tf.reduce_sum(losses) - losses, tf.reduce_sum(weights) - weights
            )
        sums = tf.convert_to_tensor(self._moving_sums)
        new = tf.stack([tf.reduce_mean(losses), tf.reduce_mean(weights)])
        new = tf.cast(new, sums.dtype)
        # A batch that overflowed must not spoil all that come after.
        new = tf.where(tf.reduce_all(tf.math.is_finite(new)), new, sums)
        share = 1 - self.baseline_decay
        self._moving_sums.assign(sums + share * (new - sums))
        # Both averages start from 0; this bias cancels in their ratio.
        return tf.cast(tf.math.divide_no_nan(sums[0], sums[1]), losses.dtype)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "network": keras.saving.serialize_keras_object(self.network),
            "baseline": self.baseline,
            "baseline_decay": self.baseline_decay,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict | None = None
    ) -> "PolicyGradientModel":
        network = keras.saving.deserialize_keras_object(
            config["network"], custom_objects=custom_objects
        )
        return cls(**{**config, "network": network})


def _sums(
    decisions: list[DrawnDecisions], losses: Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probability and penalty of each example, over all layers."""
    values, penalties = [], [tf.zeros_like(losses)]
    for drawn in decisions:
        values.append(_matched(drawn, drawn.log_probability, losses))
        if drawn.penalty is not None:
            penalties.append(
                tf.stop_gradient(_matched(drawn, drawn.penalty, losses))
            )
    return tf.add_n(values), tf.add_n(penalties)


def _matched(drawn: DrawnDecisions, values: Tensor, losses: Tensor) -> Tensor:
    """A layer's values, if there is one for each loss."""
    if not values.shape.is_compatible_with(losses.shape):
        raise ValueError(
            f"Layer '{drawn.layer_name}' drew for {values.shape[0]} examples, "
            f"but the loss has {losses.shape[0]}. Policy gradient needs layers "
            "that see the batch as it is, with no other axis folded into it. "
            f"Received: log-probabilities of shape {tuple(values.shape)}, "
            f"losses of shape {tuple(losses.shape)}"
        )
    check = tf.debugging.assert_equal(
        tf.size(values),
        tf.size(losses),
        f"Layer '{drawn.layer_name}' drew for another number of examples than "
        "the loss has: it must see the batch as it is",
    )
    with tf.control_dependencies([] if check is None else [check]):
        return tf.cast(values, losses.dtype)
