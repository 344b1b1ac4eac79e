"""Auxiliary losses of decisions: what they measure, and their weights."""

import math
from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core.decisions import bernoulli
from keras_seqmech.core.decisions import categorical
from keras_seqmech.core.layers import add_scalar
from keras_seqmech.typing import Tensor


class Measures(NamedTuple):
    """What is charged of the decisions of a batch, step by step.

    Attributes:
        read: Tensor `(batch, time)`: what each step reads, $a_t$.
        targeted: Tensor `(batch, time)`: the quantity with the target, $g_t$.
        entropy: Tensor `(batch, time)`: entropy of each decision, in nats.
        indecision: Tensor `(batch, time)`: indecision, from 0 to 1.
    """

    read: Tensor
    targeted: Tensor
    entropy: Tensor
    indecision: Tensor


class CostWeights(NamedTuple):
    """The four weights of the sum above, and the target.

    Attributes:
        cost_weight: $w_c$, a scalar.
        target_weight: $w_g$, a scalar.
        entropy_weight: $w_e$, a scalar.
        indecision_weight: $w_d$, a scalar.
        target: $g^*$, a float or None.
    """

    cost_weight: Tensor
    target_weight: Tensor
    entropy_weight: Tensor
    indecision_weight: Tensor
    target: float | None = None


class Charges(NamedTuple):
    """What each example is charged; the loss is the sum of the batch means.

    Attributes:
        reading_cost: Tensor `(batch,)`: the terms of price and target.
        uncertainty_cost: Tensor `(batch,)`: the terms of entropy and
            indecision.
    """

    reading_cost: Tensor
    uncertainty_cost: Tensor


def measure_sizes(logits: Tensor, size: Tensor) -> Measures:
    """Measures of choices among S sizes.

    Args:
        logits: Tensor `(batch, time, S)`, float32 or wider.
        size: Tensor `(batch, time)`: the positions a field reads, in
            expectation or as drawn.

    Returns:
        `Measures`: what is read is `size - 1`, the positions read ahead; what
        has the target is `size`.
    """
    entropy = categorical.entropy(logits)
    most = math.log(logits.shape[-1]) or 1.0
    return Measures(size - 1, size, entropy, entropy / most)


def measure_gates(logits: Tensor, gates: Tensor | None = None) -> Measures:
    """Measures of gates.

    Args:
        logits: Tensor `(batch, time)`, float32 or wider.
        gates: Tensor `(batch, time)`: the gates as drawn; their probabilities
            if None.

    Returns:
        `Measures`: the gate is both what is read and what has the target.
    """
    probabilities = ops.sigmoid(logits)
    gates = probabilities if gates is None else gates
    indecision = 4 * probabilities * ops.sigmoid(-logits)
    return Measures(gates, gates, bernoulli.entropy(logits), indecision)


def measure_emissions(
    probabilities: Tensor, emitted: Tensor | None = None
) -> Measures:
    """Measures of steps that are kept with given probabilities.

    Args:
        probabilities: Tensor `(batch, time)`, from 0 to 1, exact 0 and 1
            included.
        emitted: Tensor `(batch, time)`: the steps kept as drawn; their
            probabilities if None.

    Returns:
        `Measures`: `emitted` is both what is read and what has the target.
    """
    emitted = probabilities if emitted is None else emitted
    others = 1 - probabilities
    entropy = -(_x_log_x(probabilities) + _x_log_x(others))
    return Measures(emitted, emitted, entropy, 4 * probabilities * others)


def charge(
    measures: Measures, weights: CostWeights, mask: Tensor | None = None
) -> Charges:
    """What each example is charged.

    The target's term is a distance of the whole batch. It is divided among
    the examples so that mean and gradient stay the same, which is possible as
    the distance is linear on either side of the target.

    Args:
        measures: The quantities that are charged.
        weights: The weights of the terms, and the target.
        mask: Boolean tensor `(batch, time)`, True at real steps; or None.

    Returns:
        `Charges`; in a batch without a real step, zeros.
    """
    dtype = measures.read.dtype
    cost_weight, target_weight, entropy_weight, indecision_weight = (
        ops.cast(weight, dtype) for weight in weights[:4]
    )
    reading_cost = cost_weight * batch_shares(measures.read, mask)
    if weights.target is not None:
        targeted = batch_shares(measures.targeted, mask)
        distance = targeted - _any_real(mask, dtype) * weights.target
        side = ops.stop_gradient(ops.sign(ops.mean(distance)))
        reading_cost += target_weight * side * distance
    uncertainty_cost = batch_shares(
        indecision_weight * measures.indecision
        - entropy_weight * measures.entropy,
        mask,
    )
    return Charges(reading_cost, uncertainty_cost)


def batch_shares(values: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Shares of the rows in the mean over all real steps of a batch.

    $B / N \sum_t r_t v_{it}$, N the real steps of the batch of B rows: the
    mean of the shares is the mean over real steps.

    Args:
        values: Tensor `(batch, time)`.
        mask: Boolean tensor `(batch, time)` or None.

    Returns:
        Tensor `(batch,)`; zeros if no step is real.
    """
    batch_size, length = ops.shape(values)[:2]
    rows = ops.cast(batch_size, values.dtype)
    if mask is None:
        count = rows * ops.cast(length, values.dtype)
    else:
        # A product would keep NaN at masked steps.
        values = ops.where(mask, values, ops.zeros_like(values))
        count = ops.sum(ops.cast(mask, values.dtype))
    return ops.sum(values, axis=1) * (rows / ops.maximum(count, 1))


def excess(
    gates: Tensor, mask: Tensor | None, openness_target: float
) -> Tensor:
    r"""How many gates of each row are open above the target.

    $G(b) = \mathrm{ReLU}(\sum_t b_t - \gamma T)$, T the row's real length: the
    sparsity term of "Focused Hierarchical RNNs for Conditional Sequence
    Processing", row by row and without a cost below the target.

    Args:
        gates: Tensor `(batch, time)`, 0 at masked steps.
        mask: Boolean tensor `(batch, time)` or None.
        openness_target: $\gamma$, the share of gates that may be open.

    Returns:
        Tensor `(batch,)`.
    """
    real = ops.ones_like(gates) if mask is None else ops.cast(mask, gates.dtype)
    allowed = openness_target * ops.sum(real, axis=1)
    return ops.relu(ops.sum(gates, axis=1) - allowed)


def _any_real(mask: Tensor | None, dtype: str) -> Tensor:
    """1, or 0 for a batch without a real step, so that it misses no target."""
    if mask is None:
        return ops.ones((), dtype)
    return ops.cast(ops.any(mask), dtype)


def _x_log_x(x: Tensor) -> Tensor:
    r"""$x \log x$, 0 at 0, with a finite gradient there."""
    inside = x > 0
    return ops.where(inside, x * ops.log(ops.where(inside, x, 1.0)), 0.0)


class DecisionCosts(keras.layers.Layer):
    r"""What the decisions of the layer that holds it add to the loss.

    $$\text{cost}\cdot\overline{a} + \text{target weight}\cdot
      |\overline{g} - \text{target}| - \text{entropy weight}\cdot\overline{H}
      + \text{indecision weight}\cdot\overline{d}$$

    in training, with means over the real steps of a batch (of a replica's part
    of it, under `tf.distribute`, as Keras averages losses) of what is read, of
    the quantity that has the target, of the entropy in nats, and of the
    indecision, 1 for a fair choice and 0 for a certain one.

    - The *price* of reading makes decisions read only what is worth it.
    - The *target* is one for the mean over a batch; rows may differ.
    - *Entropy* is exploration: without it, decisions settle on the first
      choice that helps, before others have learned to be useful.
    - *Indecision*, charged late, makes decisions hard.

    `keras_seqmech.training.ExploreThenCommit` schedules the weights over a
    `fit`; they are non-trainable float32 variables, so that nothing is traced
    again.

    Args:
        cost_weight: Initial weight of what is read, at least 0.
        target: Target of the mean, a float; or None.
        target_weight: Initial weight of the distance to the target, at least
            0.
        entropy_weight: Initial weight of the entropy, which is subtracted; at
            least 0.
        indecision_weight: Initial weight of the indecision, at least 0.
        **kwargs: Base layer keyword arguments, such as `name`.

    Raises:
        ValueError: If a weight is not allowed, or there is a `target_weight`
            without a target.
    """

    def __init__(
        self,
        cost_weight: float = 0.0,
        target: float | None = None,
        target_weight: float = 0.0,
        entropy_weight: float = 0.0,
        indecision_weight: float = 0.0,
        **kwargs: Any,
    ):
        initial = {
            "cost_weight": cost_weight,
            "target_weight": target_weight,
            "entropy_weight": entropy_weight,
            "indecision_weight": indecision_weight,
        }
        initial = {
            name: checks.check_not_negative(name, value)
            for name, value in initial.items()
        }
        if target_weight and target is None:
            raise ValueError(
                "Argument `target` must be given for `target_weight` to act "
                f"on. Received: target=None, target_weight={target_weight}"
            )
        super().__init__(**kwargs)
        self.initial = initial
        self.target = target

    def build(self, input_shape: Any = None) -> None:
        self._cost_weight = self._scalar("cost_weight")
        self._target_weight = self._scalar("target_weight")
        self._entropy_weight = self._scalar("entropy_weight")
        self._indecision_weight = self._scalar("indecision_weight")

    def _scalar(self, name: str) -> keras.Variable:
        return add_scalar(self, name, self.initial[name])

    @property
    def cost_weight(self) -> keras.Variable:
        """The price of what is read."""
        return self._built("cost_weight")

    @property
    def target_weight(self) -> keras.Variable:
        """The weight of the distance to the target."""
        return self._built("target_weight")

    @property
    def entropy_weight(self) -> keras.Variable:
        """The weight of exploration."""
        return self._built("entropy_weight")

    @property
    def indecision_weight(self) -> keras.Variable:
        """The weight of commitment."""
        return self._built("indecision_weight")

    @property
    def is_targeted(self) -> bool:
        """Whether a target holds what is read, by a weight above 0."""
        if self.target is None:
            return False
        return float(ops.convert_to_numpy(self.target_weight)) > 0

    def _built(self, name: str) -> keras.Variable:
        if not self.built:
            raise AttributeError(
                f"`{name}` is a variable once the layer is built; call the "
                f"layer on inputs, or give it `{name}=` when it is made. "
                "Received: built=False"
            )
        return getattr(self, f"_{name}")

    def charge(self, measures: Measures, mask: Tensor | None) -> Charges:
        """What each example of a batch is charged, with the current weights.

        Args:
            measures: What is charged, step by step.
            mask: Boolean tensor `(batch, time)` or None.

        Returns:
            `Charges`, by example.
        """
        weights = CostWeights(
            self.cost_weight,
            self.target_weight,
            self.entropy_weight,
            self.indecision_weight,
            self.target,
        )
        return charge(measures, weights, mask)

    def load_own_variables(self, store: Any) -> None:
        # Files written before layers had these costs hold none of them.
        if store.keys():
            super().load_own_variables(store)

    def arguments(self) -> dict[str, float | None]:
        """The constructor's arguments, for the config of the layer."""
        return {**self.initial, "target": self.target}
