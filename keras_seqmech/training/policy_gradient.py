"""Training of layers that draw hard decisions, by policy gradient."""

import functools
from typing import Any

import keras
import tensorflow as tf

from keras_seqmech.layers import log_probabilities as drawn_decisions
from keras_seqmech.layers import validation
from keras_seqmech.training import example_losses

BASELINES = ("moving_average", "batch_mean", None)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class PolicyGradientModel(keras.Model):
    r"""A model that also learns what its layers draw.

    A drawn decision $b$ (a hard gate, a field size) has no gradient. Its
    probability has:

    $$\nabla\, \mathbb{E}_b[\ell] = \mathbb{E}_b\Big[\nabla \ell +
      \frac{1}{B} \sum_i (\ell_i + c_i - \omega_i \beta)\,
      \nabla \log \pi(b_i)\Big]$$

    with $\ell_i$ the share of example i in the compiled loss, $\omega_i$ its
    weight there (1, but for sample weights, masks and the like), $c_i$ the
    cost that layers name for its decisions, such as a penalty on open gates,
    $\log \pi(b_i)$ the log-probability of all its decisions in all layers
    that draw, and $\beta$ a baseline, which lowers the variance and changes
    no mean. With the log-likelihood as reward, this is the source's policy
    gradient.

    Used like `keras.Model`, through plain `compile` and `fit`. `loss` in
    `history` is the plain loss of the decisions drawn; `evaluate`, `predict`
    and `export` are those of a plain model. A loop of one's own calls the
    model and `compute_loss` within `training.collect_log_probabilities()`;
    `compute_loss` takes what was collected until then.

    Layers with `estimator="reinforce"` take part, wherever they are in the
    model; a layer called twice counts twice. Only an `RFCell` within
    `keras.layers.RNN` does not: take `ReceptiveFieldRNN`. Within
    `keras.layers.TimeDistributed` the time must be of known length. What
    layers add by `add_loss`, weight decay say, is differentiated as it is and
    no reward.

    Args:
        *args: Inputs and outputs of a functional model, as for `keras.Model`
            (also by name); nothing for a subclass with a `call` of its own.
        baseline: `"moving_average"` of the loss over batches; `"batch_mean"`,
            for each example that of the others in its batch (none in a batch
            of one); or None.
        baseline_decay: Float in [0, 1), of the moving average.
        **kwargs: Base model keyword arguments, such as `name`.

    Call arguments:
        inputs: What the model takes.
        training: Whether layers draw.

    Masks and losses: losses may have any reduction, weights and masks, and
    return `(batch, ...)`. Examples of a batch must not mix, as in batch
    normalization in training, or contrastive losses: what one's decisions do
    to another's loss is not seen.

    Cost: that of a plain training step.

    Limits: under `tf.distribute`, `"batch_mean"` is that of a replica.
    A subclass that replaces `train_step` does its own collecting; one that
    replaces `compute_loss` adds to that of this class. In a subclass, `call`
    takes `training`; arguments of its constructor go into `get_config` as for
    any Keras model, beside `baseline` and `baseline_decay`. For a copy use
    `from_config(model.get_config())`: `keras.models.clone_model` does not hand
    on `baseline`. The moving average is a weight, of shape `(2,)`, saved and
    restored with the others; files of `save_weights` then fit models with one.
    `keras.Model(model.input, model.output)` is the network alone.

    Raises:
        ValueError: If an argument is not allowed; in `compile`, if `loss` is
            `"crossentropy"`, which is not one loss, or has a `__call__` of its
            own; in `fit`, if no layer drew, if there is no loss, if one
            returns no value for each example, or if a layer drew for another
            number of examples than the loss has.

    Example:

    >>> import keras, numpy as np
    >>> from keras_seqmech import ReceptiveFieldRNN
    >>> x = keras.Input((5, 3))
    >>> h = ReceptiveFieldRNN(
    ...     keras.layers.GRUCell(4), max_size=3, estimator="reinforce")(x)
    >>> model = PolicyGradientModel(x, keras.layers.Dense(1)(h))
    >>> model.compile("adam", "mse")
    >>> fit = model.fit(np.ones((8, 5, 3)), np.ones((8, 1)), verbose=0)
    >>> sorted(fit.history)
    ['loss']

    Source: "Focused Hierarchical RNNs for Conditional Sequence Processing",
    policy gradient.
    """

    def __init__(
        self,
        *args: Any,
        baseline: str | None = "moving_average",
        baseline_decay: float = 0.99,
        **kwargs,
    ):
        if baseline not in BASELINES:
            raise ValueError(
                f"Argument `baseline` must be one of {BASELINES}. "
                f"Received: baseline={baseline!r}"
            )
        decay = validation.check_not_negative("baseline_decay", baseline_decay)
        if decay >= 1:
            raise ValueError(
                "Argument `baseline_decay` must be a number from 0 to below "
                f"1. Received: baseline_decay={baseline_decay!r}"
            )
        if len(args) > 1 or "outputs" in kwargs:
            # Before Keras does it, to the class and all that it inherits from:
            # no subclass with a `call` could be made after that.
            object.__setattr__(self, "__class__", _functional(type(self)))
        super().__init__(*args, **kwargs)
        self.baseline = baseline
        self.baseline_decay = decay
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

    def compile(self, optimizer="rmsprop", loss=None, *args, **kwargs):
        recordable = None
        if loss is not None:
            recordable = example_losses.recordable(loss)
        super().compile(optimizer, recordable, *args, **kwargs)
        if loss is not None:
            self.loss = loss

    def get_compile_config(self):
        config = super().get_compile_config()
        if config.get("loss") is not None:
            config["loss"] = keras.saving.serialize_keras_object(self.loss)
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.built:
            self.optimizer.build(self.trainable_variables)

    def train_step(self, data):
        with drawn_decisions.collect() as decisions:
            logs = super().train_step(data)
        if decisions:
            raise ValueError(
                f"Model '{self.name}' drew in training, and `compute_loss` of "
                "its class did not look at it: it must return `super()."
                "compute_loss(...)`, to which it may add terms. Received: "
                f"decisions of {sorted({d.layer_name for d in decisions})}"
            )
        return logs

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        arguments = {"x": x, "y": y, "y_pred": y_pred}
        arguments.update(sample_weight=sample_weight, training=training)
        decisions = drawn_decisions.current()
        if decisions is None or not training:
            return super().compute_loss(**arguments)
        if not decisions:
            raise ValueError(
                f"Model '{self.name}' drew nothing in training. A "
                '`PolicyGradientModel` needs a layer with estimator="reinforce"'
                ", called with `training=True` (a `call` of one's own takes "
                "`training`); without any, use `keras.Model`. Received: "
                "nothing from any layer"
            )
        with example_losses.record() as record:
            loss = super().compute_loss(**arguments)
        losses, weights = record.per_example(loss)
        log_probability, cost = _sums(decisions, losses)
        decisions.clear()
        losses += cost / self.distribute_strategy.num_replicas_in_sync
        advantage = losses - weights * self._baseline(losses, weights)
        # Nothing in value: what `fit` reports is the loss.
        log_probability -= tf.stop_gradient(log_probability)
        # The batch of a replica may be empty.
        surrogate = tf.math.divide_no_nan(
            tf.tensordot(advantage, log_probability, 1),
            tf.cast(tf.size(losses), losses.dtype),
        )
        return loss + tf.cast(surrogate, loss.dtype)

    def _baseline(self, losses, weights):
        """What a loss of weight 1 is expected to be, scalar or `(batch,)`."""
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
        # Both started from 0; the ratio is free of that.
        return tf.cast(tf.math.divide_no_nan(sums[0], sums[1]), losses.dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "baseline": self.baseline,
            "baseline_decay": self.baseline_decay,
        }


def _sums(decisions, losses):
    """Log-probability and cost of each example, over all layers."""
    log_probabilities, costs = [], [tf.zeros_like(losses)]
    for drawn in decisions:
        log_probabilities.append(_matched(drawn, drawn.log_probability, losses))
        if drawn.cost is not None:
            costs.append(tf.stop_gradient(_matched(drawn, drawn.cost, losses)))
    return tf.add_n(log_probabilities), tf.add_n(costs)


def _matched(drawn, values, losses):
    """A layer's values, if there is one for each loss."""
    _check_reachable(drawn, values)
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


def _check_reachable(drawn, values):
    """Refuses tensors of a function that was compiled apart."""
    if tf.executing_eagerly():
        is_reachable = not hasattr(values, "graph")
    else:
        graph = tf.compat.v1.get_default_graph()
        while graph is not None and graph is not getattr(values, "graph", None):
            graph = getattr(graph, "outer_graph", None)
        is_reachable = graph is not None or not hasattr(values, "graph")
    if not is_reachable:
        raise ValueError(
            f"Layer '{drawn.layer_name}' draws within a `tf.function`, loop or "
            "condition of its own, out of reach of the training step. Call it "
            f"outside. Received: log-probabilities {values!r}"
        )


@functools.cache
def _functional_class():
    """The class of functional models, which has no public name."""
    x = keras.Input((), name="x")
    return type(keras.Model(x, x, name="functional"))


@functools.cache
def _functional(cls):
    """A class as it is, but functional."""
    if issubclass(cls, _functional_class()):
        return cls

    class Functional(cls, _functional_class()):
        def __reduce__(self):
            # Pickle looks for the class that stands in its module.
            load, arguments = super().__reduce__()
            return getattr(cls, load.__name__), arguments

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(Functional, name, getattr(cls, name))
    registered = keras.saving.get_registered_name(cls)
    if ">" in registered:
        package, name = registered.split(">")
        keras.saving.register_keras_serializable(package, name)(Functional)
        # What is loaded is an instance of the class itself, made anew.
        keras.saving.get_custom_objects()[registered] = cls
    return Functional
