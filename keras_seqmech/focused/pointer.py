"""An output layer that chooses words of a vocabulary or copies its input."""

import functools
from typing import Any

import keras
from keras import ops

from keras_seqmech.core import attention
from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.core.decisions import reports
from keras_seqmech.core.layers import add_kernel
from keras_seqmech.core.numerics import finite
from keras_seqmech.core.numerics import score_dtype
from keras_seqmech.typing import Tensor


@keras.saving.register_keras_serializable(package="keras_seqmech")
class PointerSoftmax(keras.layers.Layer):
    r"""Pointer softmax: chooses words of a vocabulary or points to its input.

    $$\alpha_t \propto \exp(v^T \tanh(W_s s_t + W_q q + b_a)), \qquad
      r = \sum_t \alpha_t s_t$$
    $$g = \sigma(w^T [q; r] + b), \qquad
      p = [\, g \, \mathrm{softmax}(W [q; r] + b_v);\; (1 - g) \, \alpha \,]$$

    with q the state of a decoder, s the states of an encoder, and the softmax
    over `vocabulary_size` words. p holds probabilities of words, and after
    them of positions to copy from. With `token_ids`, the word at each
    position, the probability of a position is added to that of its word: then
    a target is always the id of a word, and
    `loss="sparse_categorical_crossentropy"` trains writing and copying.

    Words of the input that are not in the vocabulary take ids from
    `vocabulary_size` on, numbered anew in each row; `extra_words` is the most
    there may be. They can only be copied.

    Args:
        vocabulary_size: Number of words of the vocabulary.
        units: Size of the space in which query and sequence are compared; the
            size of the query if None.
        extra_words: Number of ids after those of the vocabulary; needs
            `token_ids`.
        kernel_initializer: Initializer of all weights but the biases, which
            start at zero.
        kernel_regularizer: Regularizer of the same weights.
        return_attention_scores: Whether to return $\alpha$ and g too.
        **kwargs: Base layer keyword arguments, such as `name` and `dtype`.

    Call arguments:
        query: Tensor `(batch, query features)`, or
            `(batch, steps, query features)` for several words a row.
        sequence: Tensor `(batch, time, features)`, such as the states at open
            gates of an encoder with `return_focused=True`.
        sequence_mask: Boolean tensor `(batch, time)`, True where a position is
            real, of any pattern; all positions if None.
        token_ids: Int tensor `(batch, time)`, from 0 to
            `vocabulary_size + extra_words - 1`. A position with another id,
            such as -1, counts as masked.

    Output shape:
        `(batch, [steps,] vocabulary_size + time)`, or with `token_ids`
        `(batch, [steps,] vocabulary_size + extra_words)`. With
        `return_attention_scores` a tuple of that and
        `{"attention_scores": (batch, [steps,] time), "switch":
        (batch, [steps])}`. All are float32 or wider, and computed so.

    Masking: masked positions have probability 0, and their values reach
    neither output nor gradient; a row without a real position reads zeros and
    gives all probability to the vocabulary (its switch is 1). A mask that
    comes with the query is passed on with the output.

    Cost: products with the vocabulary, as of a `Dense` layer; additive scores,
    which take memory for `batch * steps * time * units` numbers. It is cheap
    with few steps or few states to attend to.

    Example:

    >>> import numpy as np
    >>> layer = PointerSoftmax(vocabulary_size=4, extra_words=1)
    >>> query, states = np.ones((1, 3)), np.ones((1, 2, 5))
    >>> words = np.array([[2, 4]])  # one of the vocabulary, one that is not
    >>> p = layer(query, states, token_ids=words).numpy()
    >>> p.shape, round(float(p.sum()), 4)
    ((1, 5), 1.0)
    >>> layer = PointerSoftmax(vocabulary_size=4)
    >>> layer(query, states).shape  # 4 words and 2 positions
    TensorShape([1, 6])

    Source: "Pointing the Unknown Words", section 3, as the experiments of
    "Focused Hierarchical RNNs for Conditional Sequence Processing" use it.
    """

    def __init__(
        self,
        vocabulary_size: int,
        units: int | None = None,
        extra_words: int = 0,
        kernel_initializer: Any = "glorot_uniform",
        kernel_regularizer: Any = None,
        return_attention_scores: bool = False,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        check_int = checks.check_positive_int
        self.vocabulary_size = check_int("vocabulary_size", vocabulary_size)
        self.units = None if units is None else check_int("units", units)
        self.extra_words = checks.check_not_negative_int(
            "extra_words", extra_words
        )
        self.kernel_initializer = checks.get_initializer(
            "kernel_initializer", kernel_initializer
        )
        self.kernel_regularizer = checks.get_regularizer(
            "kernel_regularizer", kernel_regularizer
        )
        self.return_attention_scores = checks.check_bool(
            "return_attention_scores", return_attention_scores
        )
        self.supports_masking = True
        # Features of the query and of the sequence, from `build` on.
        self.query_size = self.size = None

    def build(self, query_shape: Any, sequence_shape: Any) -> None:
        _check_shapes(query_shape, sequence_shape)
        query, features = query_shape[-1], sequence_shape[-1]
        self.query_size, self.size = query, features
        units, words = self.units or query, self.vocabulary_size
        # Scores are float32 or wider, and so are their weights.
        kernel = functools.partial(add_kernel, self, autocast=False)
        bias = functools.partial(
            self.add_weight, initializer="zeros", autocast=False
        )
        self.query_kernel = kernel("query_kernel", (query, units))
        self.sequence_kernel = kernel("sequence_kernel", (features, units))
        self.attention_bias = bias((units,), name="attention_bias")
        self.attention_kernel = kernel("attention_kernel", (units,))
        self.switch_kernel = kernel("switch_kernel", (query + features,))
        self.switch_bias = bias((), name="switch_bias")
        self.vocabulary_kernel = kernel(
            "vocabulary_kernel", (query + features, words)
        )
        self.vocabulary_bias = bias((words,), name="vocabulary_bias")

    def call(
        self,
        query: Tensor,
        sequence: Tensor,
        sequence_mask: Tensor | None = None,
        token_ids: Tensor | None = None,
    ) -> Any:
        token_ids = checks.as_tensor(token_ids)
        self._check_call(query, sequence, sequence_mask, token_ids)
        sequence, sequence_mask = checks.assert_steps(
            sequence, sequence_mask, "sequence_mask"
        )
        query = checks.assert_rows("query", query, sequence)
        token_ids = checks.assert_by_step("token_ids", token_ids, sequence)

        dtype = score_dtype(self.compute_dtype)
        is_one = len(query.shape) == 2
        queries = ops.cast(query, dtype)
        queries = ops.expand_dims(queries, axis=1) if is_one else queries
        real, token_ids = self._real_positions(
            sequence, sequence_mask, token_ids
        )
        sequence = masks.zero_masked_forward(ops.cast(sequence, dtype), real)

        chosen = self._choose(queries, sequence, real, token_ids)
        if is_one:
            chosen = keras.tree.map_structure(
                lambda x: ops.squeeze(x, axis=1), chosen
            )
        probabilities, decisions = chosen
        return reports.with_decisions(
            self, [probabilities], decisions, self.return_attention_scores
        )

    def _real_positions(
        self,
        sequence: Tensor,
        sequence_mask: Tensor | None,
        token_ids: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """The positions that hold a word, and their ids, 0 elsewhere."""
        real = masks.real_steps(sequence, sequence_mask)
        if token_ids is None:
            return real, None
        # A cast to int32 could turn invalid ids into ids of words.
        token_ids = ops.cast(token_ids, "int64")
        words = self.vocabulary_size + self.extra_words
        known = ops.logical_and(token_ids >= 0, token_ids < words)
        real = ops.logical_and(real, known)
        return real, ops.where(real, token_ids, ops.zeros_like(token_ids))

    def _choose(
        self,
        queries: Tensor,
        sequence: Tensor,
        real: Tensor,
        token_ids: Tensor | None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The probabilities of each step, and what they are made of."""
        keys = _finite(ops.matmul(sequence, self.sequence_kernel))
        queried = ops.matmul(queries, self.query_kernel) + self.attention_bias
        hidden = ops.tanh(
            ops.expand_dims(keys, axis=1)
            + ops.expand_dims(_finite(queried), axis=2)
        )
        scores = ops.matmul(hidden, self.attention_kernel)
        weights = attention.attention_weights(scores, real[:, None])
        read = ops.matmul(weights, sequence)
        features = ops.concatenate([queries, read], axis=-1)
        logits = ops.matmul(features, self.vocabulary_kernel)
        words = ops.softmax(_finite(logits + self.vocabulary_bias))
        logits = ops.matmul(features, self.switch_kernel) + self.switch_bias
        switch = ops.sigmoid(_finite(logits))
        can_point = ops.any(real, axis=1, keepdims=True)
        switch = ops.where(can_point, switch, ops.ones_like(switch))
        decisions = {"attention_scores": weights, "switch": switch}

        share = ops.expand_dims(switch, axis=-1)
        words, copies = share * words, (1 - share) * weights
        if token_ids is None:
            return ops.concatenate([words, copies], axis=-1), decisions
        return by_word(words, copies, token_ids, self.extra_words), decisions

    def _check_call(
        self,
        query: Tensor,
        sequence: Tensor,
        sequence_mask: Tensor | None,
        token_ids: Tensor | None,
    ) -> None:
        check_features = checks.check_features
        _check_shapes(query.shape, sequence.shape)
        check_features("query.shape", query.shape, self.query_size)
        check_features("sequence.shape", sequence.shape, self.size)
        checks.check_mask("sequence_mask", sequence_mask, sequence.shape)
        checks.check_by_step("token_ids", token_ids, sequence.shape)
        if token_ids is None:
            if self.extra_words:
                raise ValueError(
                    "A layer with `extra_words` must be called with "
                    f"`token_ids`. Received: token_ids=None, "
                    f"extra_words={self.extra_words}"
                )
            return
        dtype = keras.backend.standardize_dtype(token_ids.dtype)
        if "int" not in dtype:
            raise ValueError(
                "Argument `token_ids` must hold integers. "
                f"Received: token_ids.dtype={dtype}"
            )

    def compute_mask(self, query: Tensor, previous_mask: Any = None) -> Any:
        return previous_mask if len(query.shape) == 3 else None

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "units": self.units,
            "extra_words": self.extra_words,
            "kernel_initializer": serialize(self.kernel_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "return_attention_scores": self.return_attention_scores,
        }


def _check_shapes(query_shape: Any, sequence_shape: Any) -> None:
    checks.check_sequences("sequence.shape", sequence_shape)
    shape = tuple(query_shape)
    batch_sizes = {shape[0], sequence_shape[0]} - {None} if shape else set()
    if len(shape) not in (2, 3) or shape[-1] is None or len(batch_sizes) > 1:
        raise ValueError(
            "Argument `query` must have the shape (batch, features) or "
            "(batch, steps, features) with a known number of features, and as "
            f"many rows as `sequence`, of shape {tuple(sequence_shape)}. "
            f"Received: query.shape={shape}"
        )


def by_word(
    vocabulary: Tensor, copies: Tensor, token_ids: Tensor, extra_words: int = 0
) -> Tensor:
    """Probabilities of words, each with those of the positions that hold it.

    Time and memory are those of the result and of `copies`: probabilities are
    added by index, without a product with one-hot words.

    Args:
        vocabulary: Tensor `(batch, steps, words)`.
        copies: Tensor `(batch, steps, time)`.
        token_ids: Int tensor `(batch, time)`, from 0 to
            `words + extra_words - 1`.
        extra_words: Number of words beyond the vocabulary.
    """
    vocabulary = ops.pad(vocabulary, ((0, 0), (0, 0), (0, extra_words)))
    batch_size, steps, words = ops.shape(vocabulary)
    rows = ops.reshape(
        ops.arange(batch_size * steps, dtype="int32"), (batch_size, steps, 1)
    )
    token_ids = ops.expand_dims(ops.cast(token_ids, "int32"), axis=1)
    places = rows * words + token_ids
    added = ops.segment_sum(
        ops.reshape(copies, (-1,)),
        ops.reshape(places, (-1,)),
        num_segments=batch_size * steps * words,
    )
    return vocabulary + ops.reshape(added, (batch_size, steps, words))


def _finite(values: Tensor) -> Tensor:
    return finite(values, attention.LARGEST_SCORE)
