"""Pooling over time by attention that honours any mask."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import attention
from keras_seqmech.core import checks
from keras_seqmech.core import layers
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import choices
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.pooling import reductions
from keras_seqmech.pooling.reductions import Pooling
from keras_seqmech.typing import Tensor

# Squared norms that float32 holds; others would give 0/0 or inf/inf.
MIN_SQUARED_NORM, MAX_SQUARED_NORM = 1e-36, 1e36
# Larger differences of scores count as this one: their exponential is finite.
LARGEST_DIFFERENCE = 60


def normalized_scores(query: Tensor, sequence: Tensor) -> Tensor:
    r"""Scores of unit keys, $s_t = (h_t / \lVert h_t \rVert)^T q$.

    The scale of a key does not matter, and $|s_t| \le \lVert q \rVert$. A key
    that is zero scores 0 and takes no gradient; so do keys of norm below 1e-18
    or above 1e18. A query with an entry beyond 1e15 passes no gradient
    through its scores. Other gradients are finite.
    """
    dtype = score_dtype(sequence.dtype)
    keys, query = ops.cast(sequence, dtype), ops.cast(query, dtype)
    # Not `ops.square`: where the square overflows, so does its derivative, and
    # 0 times infinity would be NaN.
    squares = ops.sum(keys * keys, axis=-1)
    has_norm = ops.logical_and(
        squares > MIN_SQUARED_NORM, squares < MAX_SQUARED_NORM
    )
    squares = ops.where(has_norm, squares, ops.ones_like(squares))
    # A query of entries up to 1 keeps the product within what float32 holds.
    scale = ops.max(ops.abs(query), axis=-1, keepdims=True, initial=1)
    scale = ops.stop_gradient(scale)
    cosines = attention.dot_scores(query / scale, keys) / ops.sqrt(squares)
    scores = ops.where(has_norm, cosines, ops.zeros_like(cosines)) * scale
    scores = finite(scores, attention.LARGEST_SCORE)
    return ops.where(
        scale <= attention.LARGEST_SCORE, scores, ops.stop_gradient(scores)
    )


def attention_ratio(
    scores: Tensor, index: Tensor, mask: Tensor | None = None
) -> Tensor:
    r"""Ratio of the attention to the other steps to that to one, per row.

    $$\sum_{t \ne n} \alpha_t / \alpha_n = \sum_{t \ne n} \exp(s_t - s_n)$$

    with n the `index` `(batch,)`. Computed from the scores, so that nothing is
    divided by a vanishing $\alpha_n$; differences of scores above 60 count as
    60. A row without a real step gives 0.
    """
    real = masks.real_steps(scores, mask)
    steps = ops.arange(ops.shape(scores)[1], dtype="int32")
    chosen = ops.equal(steps, ops.expand_dims(ops.cast(index, "int32"), 1))
    others = ops.logical_and(real, ops.logical_not(chosen))
    score = ops.where(chosen, scores, ops.zeros_like(scores))
    differences = scores - ops.sum(score, axis=1, keepdims=True)
    ratios = ops.exp(ops.minimum(differences, LARGEST_DIFFERENCE))
    return ops.sum(ops.where(others, ratios, ops.zeros_like(ratios)), axis=1)


class AttentionPoolingBase(Pooling):
    """Base of poolings whose weights are a softmax over time.

    A subclass computes the weights, `(batch, time)`, 0 at masked steps, in
    `attend(sequence, mask)`, where training matters with more arguments.
    Sequences are zeros at masked steps.
    """

    def __init__(
        self,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.return_attention_scores = checks.check_bool(
            "return_attention_scores", return_attention_scores
        )

    def pool(
        self, sequence: Tensor, mask: Tensor | None, **keywords: Any
    ) -> Any:
        sequence = masks.zero_masked_forward(sequence, mask)
        weights = self.attend(sequence, mask, **keywords)
        return reports.with_decisions(
            self,
            [attention.weighted_sum(weights, sequence)],
            {"attention_scores": weights},
            self.return_attention_scores,
        )

    def attend(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Sequence[int | None]) -> Any:
        pooled = super().compute_output_shape(input_shape)
        if self.return_attention_scores:
            return pooled, {"attention_scores": tuple(input_shape[:2])}
        return pooled

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "return_attention_scores": self.return_attention_scores,
        }


@keras.saving.register_keras_serializable(package="keras_seqmech")
class AttentionPooling(AttentionPoolingBase):
    r"""Attention over time with a learned query ("Luong attention").

    $$\alpha_t = \frac{\exp(h_t^T q)}{\sum_j \exp(h_j^T q)}, \qquad
      y = \sum_t \alpha_t h_t$$

    over real steps; q is one weight vector, the same for all sequences.

    Args:
        query_initializer: Initializer of the query.
        query_regularizer: Regularizer of the query.
        return_attention_scores: Whether to return the weights $\alpha$ too,
            in a dict.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`, or with `return_attention_scores` a tuple of that
        and a dict `{"attention_scores": (batch, time)}`, float32 or wider.

    Masking: the values at masked steps reach neither output nor gradient, and
    have weight 0; a row without a real step gives zeros.

    Cost: a few passes over the sequences, which XLA joins; it compiles anew
    for every shape.

    Example:

    >>> import numpy as np
    >>> layer = AttentionPooling(return_attention_scores=True)
    >>> pooled, scores = layer(np.ones((1, 4, 3)))
    >>> scores["attention_scores"].numpy()  # all steps are alike
    array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.1.
    """

    def __init__(
        self,
        query_initializer: Any = "random_normal",
        query_regularizer: Any = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ):
        super().__init__(return_attention_scores, **kwargs)
        self.query_initializer = checks.get_initializer(
            "query_initializer", query_initializer
        )
        self.query_regularizer = checks.get_regularizer(
            "query_regularizer", query_regularizer
        )

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)
        self.features = input_shape[-1]
        self.query = self.add_weight(
            name="query",
            shape=(input_shape[-1],),
            initializer=self.query_initializer,
            regularizer=self.query_regularizer,
            # Scores are float32 or wider, and so are their weights.
            autocast=False,
        )

    def attend(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        scores = attention.dot_scores(self.query, sequence)
        return attention.attention_weights(
            scores, masks.real_steps(sequence, mask)
        )

    def get_config(self) -> dict:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "query_initializer": serialize(self.query_initializer),
            "query_regularizer": serialize(self.query_regularizer),
        }


@keras.saving.register_keras_serializable(package="keras_seqmech")
class MaxAttentionPooling(AttentionPoolingBase):
    r"""Max-attention: the maximum over time is the query.

    $$q^i = \max_t h_t^i, \qquad
      \alpha_t = \frac{\exp(\hat h_t^T q)}{\sum_j \exp(\hat h_j^T q)},
      \quad \hat h_t = \frac{h_t}{\lVert h_t \rVert}, \qquad
      y = \sum_t \alpha_t h_t$$

    over real steps. Keys are normalised to unit norm, values are not; there
    are no weights to learn. Each sequence has a query of its own, made of its
    most prominent features. A step that is the zero vector scores 0 and takes
    gradient only through its value.

    Args:
        return_attention_scores: Whether to return the weights $\alpha$ too,
            in a dict.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.

    Output shape:
        `(batch, features)`, or with `return_attention_scores` a tuple of that
        and a dict `{"attention_scores": (batch, time)}`, float32 or wider.

    Masking: the values at masked steps reach neither output nor gradient, and
    have weight 0; a row without a real step gives zeros.

    Cost: a dozen passes over the sequences, no pairs of steps. XLA joins most
    of them; it compiles anew for every shape.

    Example:

    >>> import numpy as np
    >>> h = np.array([[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]]])
    >>> layer = MaxAttentionPooling(return_attention_scores=True)
    >>> pooled, scores = layer(h)
    >>> scores["attention_scores"].numpy().round(4)
    array([[0.3354, 0.1234, 0.5412]], dtype=float32)
    >>> pooled.numpy().round(4)
    array([[1.959, 0.788]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", section 1.3.2.
    """

    def attend(self, sequence: Tensor, mask: Tensor | None) -> Tensor:
        query = reductions.maximum(sequence, mask)
        scores = normalized_scores(query, sequence)
        return attention.attention_weights(
            scores, masks.real_steps(sequence, mask)
        )


@keras.saving.register_keras_serializable(package="keras_seqmech")
class LastAttentionPooling(AttentionPoolingBase):
    r"""Last-attention: a way to train a last state, removed afterwards.

    $$q = h_n, \qquad
      \alpha_t = \frac{\exp(\hat h_t^T q)}{\sum_j \exp(\hat h_j^T q)},
      \quad \hat h_t = \frac{h_t}{\lVert h_t \rVert}, \qquad
      y = \sum_t \alpha_t h_t$$

    over real steps, n the last of them. Attention gives the gradient a direct
    path to every step; a curriculum then takes attention away, until
    $y = h_n$ and the layer is `LastPooling`, which may replace it. There are
    two ways, both driven by a `keras_seqmech.Schedule` on the variable of
    that name:

    - `penalty`, a weight $\lambda$: the loss
      $\lambda \sum_{t < n} \alpha_t / \alpha_n$, mean over the batch, is added
      to the model's, in validation too: to compare `val_loss` over epochs,
      leave attention out there (`attention_at_inference=False`).
    - `attention_dropout`, a rate p: in training each step but the last is left
      out of the softmax with probability p. At p = 1 only the last remains,
      in inference too.

    Args:
        penalty: Float of at least 0, $\lambda$ at the start. Kept in a
            non-trainable variable `penalty`.
        attention_dropout: Float in [0, 1], p at the start. Kept in a
            non-trainable variable `attention_dropout`.
        attention_at_inference: Whether inference attends. If not, it returns
            the last real step, so that validation sees the model that will
            stay; its penalty is then 0.
        return_attention_scores: Whether to return the weights $\alpha$ too,
            in a dict.
        seed: Int or None, seed of the dropout.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        sequence: Tensor `(batch, time, features)`, read in one direction.
        mask: Boolean tensor `(batch, time)`, True where a step is real, of any
            pattern; all steps if None.
        training: Whether steps are left out at random.

    Output shape:
        `(batch, features)`, or with `return_attention_scores` a tuple of that
        and a dict `{"attention_scores": (batch, time)}`, float32 or wider.

    Masking: the values at masked steps reach neither output nor gradient, and
    have weight 0; a row without a real step gives zeros.

    Cost: a dozen passes over the sequences, no pairs of steps. XLA joins most
    of them; it compiles anew for every shape.

    Example:

    >>> import numpy as np
    >>> layer = LastAttentionPooling(attention_dropout=1.0)
    >>> layer(np.array([[[1.0], [2.0], [3.0]]])).numpy()
    array([[3.]], dtype=float32)

    Source: "Analyzing the Learnability and Representability of Recurrent
    Architectures", sections 2.2.5 and 2.2.6.
    """

    def __init__(
        self,
        penalty: float = 0.0,
        attention_dropout: float = 0.0,
        attention_at_inference: bool = True,
        return_attention_scores: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ):
        penalty = checks.check_not_negative("penalty", penalty)
        attention_dropout = checks.check_share(
            "attention_dropout", attention_dropout
        )
        super().__init__(return_attention_scores, **kwargs)
        self.initial_penalty = penalty
        self.initial_attention_dropout = attention_dropout
        self.attention_at_inference = checks.check_bool(
            "attention_at_inference", attention_at_inference
        )
        self.seed = checks.check_seed(seed)
        self.seed_generator = keras.random.SeedGenerator(self.seed)
        self.penalty = None
        self.attention_dropout = None

    def build(self, input_shape: Sequence[int | None]) -> None:
        super().build(input_shape)

        self.penalty = layers.add_scalar(self, "penalty", self.initial_penalty)
        self.attention_dropout = layers.add_scalar(
            self,
            "attention_dropout",
            self.initial_attention_dropout,
            layers.UnitInterval(),
        )

    def call(
        self,
        sequence: Tensor,
        mask: Tensor | None = None,
        training: bool = False,
    ) -> Any:
        sequence, mask = self.prepare(sequence, mask)
        sequence = ops.cast(sequence, self.compute_dtype)
        return self.pool(sequence, mask, training=training)

    def attend(
        self, sequence: Tensor, mask: Tensor | None, training: bool = False
    ) -> Tensor:
        last = reductions.last_index(sequence, mask)
        query = reductions.steps_at(sequence, last[:, None])[:, 0]
        scores = normalized_scores(query, sequence)
        # Each step but the last is dropped where its noise is below the rate.
        rate, noise = self._dropout(ops.shape(sequence)[:2], training)
        steps = ops.arange(ops.shape(scores)[1], dtype="int32")
        stays = ops.equal(steps, ops.cast(last, "int32")[:, None])
        kept = ops.logical_or(stays, noise >= rate)
        kept = ops.logical_and(masks.real_steps(sequence, mask), kept)
        ratio = layers.batch_mean(attention_ratio(scores, last, kept))
        layers.add_loss(
            self,
            ops.cast(self.penalty, ratio.dtype) * ratio,
            {"penalty": self.penalty},
            self.initial_penalty > 0,
        )
        return attention.attention_weights(scores, kept)

    def _dropout(self, shape: Any, training: bool) -> tuple[Tensor, Tensor]:
        """The rate at which steps are dropped, and the noise that decides."""
        rate = ops.convert_to_tensor(self.attention_dropout)
        if training:
            return rate, choices.uniform_noise(shape, self.seed_generator)
        # Without noise a rate of 0 keeps all steps, a rate of 1 the last.
        rate = ops.floor(rate) if self.attention_at_inference else 1.0
        return rate, ops.zeros(shape, dtype="float32")

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "penalty": self.initial_penalty,
            "attention_dropout": self.initial_attention_dropout,
            "attention_at_inference": self.attention_at_inference,
            "seed": self.seed,
        }
