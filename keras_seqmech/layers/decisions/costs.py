"""The weights of what a layer's decisions cost, as variables."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.layers import validation
from keras_seqmech.layers.scalars import add_scalar
from keras_seqmech.ops.decisions import costs
from keras_seqmech.typing import Tensor


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
            name: validation.check_not_negative(name, value)
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

    def charge(
        self, measures: costs.Measures, mask: Tensor | None
    ) -> costs.Charges:
        """What each example of a batch is charged, with the current weights.

        Args:
            measures: What is charged, step by step.
            mask: Boolean tensor `(batch, time)` or None.

        Returns:
            `Charges`, by example.
        """
        weights = costs.CostWeights(
            self.cost_weight,
            self.target_weight,
            self.entropy_weight,
            self.indecision_weight,
            self.target,
        )
        return costs.charge(measures, weights, mask)

    def load_own_variables(self, store: Any) -> None:
        # Files written before layers had these costs hold none of them.
        if store.keys():
            super().load_own_variables(store)

    def arguments(self) -> dict[str, float | None]:
        """The constructor's arguments, for the config of the layer."""
        return {**self.initial, "target": self.target}
