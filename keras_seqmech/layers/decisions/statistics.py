"""Statistics of a layer's decisions over an epoch, as metrics."""

from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_seqmech.layers.decisions import tracking
from keras_seqmech.typing import Tensor

# A decision is certain when its likeliest value has more than this.
CERTAIN = 0.9


class Decided(NamedTuple):
    """What is counted of the decisions of a batch, step by step.

    Attributes:
        amount: Tensor `(batch, time)`: what each step reads.
        entropy: Tensor `(batch, time)`: the entropy of each decision, in nats.
        confidence: Tensor `(batch, time)`: the likeliest value's probability.
        choice: Int tensor `(batch, time)`: the likeliest value, from 0, in
            training too, where draws differ even if probabilities do not.
    """

    amount: Tensor
    entropy: Tensor
    confidence: Tensor
    choice: Tensor


class DecisionStatistics(keras.layers.Layer):
    """Metrics of a layer's decisions, means over real steps.

    - `<prefix>_<amount>`: what is read, such as the mean size.
    - `<prefix>_<entropy>`: the entropy of the probabilities, in nats.
    - `<prefix>_certain`: the share of decisions whose likeliest value has a
      probability above 0.9.
    - `<prefix>_choice_entropy`: the entropy of the likeliest values over all
      steps, in nats: 0 where all are alike.

    Args:
        prefix: Beginning of the metrics' names, the layer's name.
        amount: Name of what is read.
        entropy: Name of the entropy.
        choices: Number of values that a decision can have.
        **kwargs: Base layer keyword arguments, such as `name`.
    """

    def __init__(
        self,
        prefix: str,
        amount: str,
        entropy: str,
        choices: int,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.prefix = prefix
        self.amount = keras.metrics.Mean(f"{prefix}_{amount}")
        self.entropy = keras.metrics.Mean(f"{prefix}_{entropy}")
        self.certain = keras.metrics.Mean(f"{prefix}_certain")
        self.choice_entropy = ChoiceEntropy(
            choices, name=f"{prefix}_choice_entropy"
        )
        self.built = True

    def update(self, decided: Decided, mask: Tensor | None) -> None:
        """Counts the decisions of a batch, unless within `without_statistics`.

        Args:
            decided: What is counted.
            mask: Boolean tensor `(batch, time)` or None.
        """
        if not tracking.is_active():
            return
        real = None if mask is None else ops.reshape(mask, (-1,))
        amount, entropy, confidence, choice = (
            ops.reshape(values, (-1,)) for values in decided
        )
        self.amount.update_state(amount, real)
        self.entropy.update_state(entropy, real)
        certain = ops.cast(confidence > CERTAIN, "float32")
        self.certain.update_state(certain, real)
        self.choice_entropy.update_state(choice, real)


@keras.saving.register_keras_serializable(package="keras_seqmech")
class ChoiceEntropy(keras.metrics.Metric):
    r"""Entropy of hard decisions over all steps, in nats.

    $H = -\sum_k f_k \log f_k$ with $f_k$ the share of decisions with value k.

    Args:
        choices: Number of values.
        name: Name of the metric.
        dtype: Its dtype.

    Example:

    >>> metric = ChoiceEntropy(3)
    >>> metric.update_state([0, 1, 1, 0])
    >>> round(float(metric.result()), 4)
    0.6931
    """

    def __init__(
        self,
        choices: int,
        name: str = "choice_entropy",
        dtype: Any = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.choices = choices
        self.counts = self.add_variable(
            shape=(choices,), initializer="zeros", name="counts"
        )

    def update_state(
        self, choice: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Counts decisions.

        Args:
            choice: Ints from 0 to `choices - 1`, of any shape.
            sample_weight: How often each counts, of the same shape.
        """
        chosen = ops.one_hot(
            ops.cast(choice, "int32"), self.choices, dtype=self.dtype
        )
        if sample_weight is not None:
            chosen *= ops.cast(sample_weight, self.dtype)[..., None]
        axes = tuple(range(len(chosen.shape) - 1))
        self.counts.assign(self.counts + ops.sum(chosen, axis=axes))

    def result(self) -> Tensor:
        shares = self.counts / ops.maximum(ops.sum(self.counts), 1)
        shares = ops.maximum(shares, keras.config.epsilon() ** 2)
        return -ops.sum(shares * ops.log(shares))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "choices": self.choices}
