"""What gates do with their logits: open, cost, report, be counted."""

from typing import Any

import keras
from keras import ops

from keras_seqmech.layers import log_probabilities
from keras_seqmech.layers import validation
from keras_seqmech.layers.added_losses import batch_mean
from keras_seqmech.ops.decisions import bernoulli
from keras_seqmech.ops.decisions import costs
from keras_seqmech.ops.decisions import sampling
from keras_seqmech.ops.decisions.estimators import ESTIMATORS
from keras_seqmech.ops.precision import score_dtype


class BernoulliGates(keras.layers.Layer):
    """Base of layers that compute a logit for each step and open by it.

    A subclass computes logits `(batch, time)` in `call` and returns what
    `decide` makes of them; it calls `add_scalars` at the end of `build`. The
    arguments are documented in `BoundaryGate`.
    """

    def __init__(
        self,
        estimator: str,
        temperature: float,
        openness_target: float | None,
        sparsity_weight: float,
        entropy_weight: float,
        sample_at_inference: bool,
        seed: int | None,
        return_gates: bool,
        track_statistics: bool,
        **kwargs,
    ):
        validation.check_choice("estimator", estimator, ESTIMATORS)
        if openness_target is not None:
            openness_target = validation.check_positive_share(
                "openness_target", openness_target
            )
        sparsity_weight = validation.check_not_negative(
            "sparsity_weight", sparsity_weight
        )
        if sparsity_weight and openness_target is None:
            raise ValueError(
                "Argument `openness_target` must be given, above 0 and up to "
                "1, for `sparsity_weight` to act on. "
                "Received: openness_target=None, "
                f"sparsity_weight={sparsity_weight}"
            )
        super().__init__(**kwargs)
        self.estimator = estimator
        self.initial_temperature = validation.check_positive(
            "temperature", temperature
        )
        self.openness_target = openness_target
        self.initial_sparsity_weight = sparsity_weight
        self.initial_entropy_weight = validation.check_not_negative(
            "entropy_weight", entropy_weight
        )
        self.sample_at_inference = validation.check_bool(
            "sample_at_inference", sample_at_inference
        )
        self.return_gates = validation.check_bool("return_gates", return_gates)
        self.track_statistics = validation.check_bool(
            "track_statistics", track_statistics
        )
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.temperature = None
        self.sparsity_weight = None
        self.entropy_weight = None
        self.supports_masking = True
        self.statistics = {}
        if track_statistics:
            self.keep_statistics(self.name)

    def keep_statistics(self, prefix: str) -> None:
        """Adds the metrics `<prefix>_openness` and `<prefix>_gate_entropy`."""
        self.statistics = {
            name: keras.metrics.Mean(f"{prefix}_{name}")
            for name in ("openness", "gate_entropy")
        }

    def add_wide_weight(
        self, name: str, shape: tuple, initializer: Any, **options
    ) -> keras.Variable:
        """Adds a weight that is not cast to the compute dtype.

        Decisions are float32 or wider, and so is what makes them.
        """
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            autocast=False,
            **options,
        )

    def add_scalars(self) -> None:
        """Adds the variables that callbacks may set."""

        def scalar(name, value):
            return self.add_wide_weight(
                name,
                (),
                keras.initializers.Constant(value),
                dtype="float32",
                trainable=False,
                constraint="non_neg",
            )

        self.temperature = scalar("temperature", self.initial_temperature)
        self.entropy_weight = scalar(
            "entropy_weight", self.initial_entropy_weight
        )
        if self.openness_target is not None:
            self.sparsity_weight = scalar(
                "sparsity_weight", self.initial_sparsity_weight
            )

    def decide(self, logits: Any, mask: Any | None, training: bool) -> Any:
        """Opens gates, adds what they cost, and counts them.

        Args:
            logits: Tensor `(batch, time)`, float32 or wider, finite.
            mask: Boolean tensor `(batch, time)` or None.
            training: Whether gates are drawn and learned.

        Returns:
            Gates, and with `return_gates` the dict of decisions.
        """
        gates = self._choose(logits, training)
        decisions = {
            "gates": gates,
            "probabilities": ops.sigmoid(logits),
            "log_probability": bernoulli.log_probability(logits, gates),
            "entropy": bernoulli.entropy(logits),
        }
        if mask is not None:
            decisions = {
                name: ops.where(mask, value, ops.zeros_like(value))
                for name, value in decisions.items()
            }
        if training:
            self._add_losses(decisions, mask)
        if self.statistics:
            self._update_statistics(decisions, mask)
        gates = decisions["gates"]
        if not self.return_gates:
            return gates
        return gates, {name: decisions[name] for name in self._returned}

    def _choose(self, logits, training):
        if not (training or self.sample_at_inference):
            return bernoulli.hard(logits)
        noise = sampling.logistic_noise(
            ops.shape(logits), self.seed_generator, self.score_dtype
        )
        estimator = self.estimator if training else "reinforce"
        return bernoulli.draw(logits + noise, self.temperature, estimator)

    def _add_losses(self, decisions, mask):
        cost = None
        if self.sparsity_weight is not None:
            cost = costs.excess(decisions["gates"], mask, self.openness_target)
            cost = ops.cast(self.sparsity_weight, cost.dtype) * cost
            self.add_loss(batch_mean(cost))
        entropy = batch_mean(ops.sum(decisions["entropy"], axis=1))
        weight = ops.cast(self.entropy_weight, entropy.dtype)
        self.add_loss(-weight * entropy)
        if self.estimator == "reinforce":
            total = ops.sum(decisions["log_probability"], axis=1)
            log_probabilities.report(self, total, cost)

    def _update_statistics(self, decisions, mask):
        real = None if mask is None else ops.reshape(mask, -1)
        for name, of in (("openness", "gates"), ("gate_entropy", "entropy")):
            values = ops.reshape(decisions[of], -1)
            self.statistics[name].update_state(values, real)

    @property
    def score_dtype(self) -> str:
        """The dtype of logits, probabilities, gates and noise."""
        return score_dtype(self.compute_dtype)

    @property
    def _returned(self):
        names = ("gates", "probabilities", "log_probability")
        return names if self.estimator == "reinforce" else names[:2]

    def decision_shapes(self, shape: tuple) -> Any:
        """Shapes of what `decide` returns for logits of a shape."""
        if not self.return_gates:
            return shape
        return shape, dict.fromkeys(self._returned, shape)

    def get_config(self):
        return {
            **super().get_config(),
            "estimator": self.estimator,
            "temperature": self.initial_temperature,
            "openness_target": self.openness_target,
            "sparsity_weight": self.initial_sparsity_weight,
            "entropy_weight": self.initial_entropy_weight,
            "sample_at_inference": self.sample_at_inference,
            "seed": self.seed,
            "return_gates": self.return_gates,
            "track_statistics": self.track_statistics,
        }
