r"""Words to choose from: those of a vocabulary, and those of a sequence.

Queries are `(batch, steps, query features)`, one for each word to be chosen;
all steps of one row attend to the same sequence. Everything here is float32 or
wider.
"""

from keras import ops

from keras_seqmech.core import attention
from keras_seqmech.core.numerics import finite
from keras_seqmech.typing import Tensor


def additive_scores(keys: Tensor, queries: Tensor, weights: Tensor) -> Tensor:
    r"""Scores $s_{ut} = v^T \tanh(k_t + q_u)$.

    Args:
        keys: Tensor `(batch, time, units)`.
        queries: Tensor `(batch, steps, units)`.
        weights: Tensor `(units,)`, v.

    Returns:
        Tensor `(batch, steps, time)`.
    """
    keys, queries = _finite(keys), _finite(queries)
    hidden = ops.tanh(
        ops.expand_dims(keys, axis=1) + ops.expand_dims(queries, axis=2)
    )
    return ops.matmul(hidden, weights)


def attend(
    scores: Tensor, sequence: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention of several steps to one sequence.

    Args:
        scores: Tensor `(batch, steps, time)`.
        sequence: Tensor `(batch, time, features)`, finite also where masked.
        mask: Boolean tensor `(batch, time)`.

    Returns:
        What each step reads `(batch, steps, features)`, and the weights
        `(batch, steps, time)`; both are 0 in rows without a real position.
    """
    shape = ops.shape(scores)
    mask = ops.broadcast_to(ops.expand_dims(mask, axis=1), shape)
    weights = attention.attention_weights(
        ops.reshape(scores, (-1, shape[2])), ops.reshape(mask, (-1, shape[2]))
    )
    weights = ops.reshape(weights, shape)
    return ops.matmul(weights, sequence), weights


def switch(logits: Tensor, mask: Tensor) -> Tensor:
    """Share of the vocabulary: a sigmoid, 1 in rows without a real position.

    Args:
        logits: Tensor `(batch, steps)`.
        mask: Boolean tensor `(batch, time)`.

    Returns:
        Tensor `(batch, steps)`.
    """
    share = ops.sigmoid(_finite(logits))
    can_point = ops.any(mask, axis=1, keepdims=True)
    return ops.where(can_point, share, ops.ones_like(share))


def by_position(vocabulary: Tensor, copies: Tensor) -> Tensor:
    """Probabilities of words, and after them of positions.

    Args:
        vocabulary: Tensor `(batch, steps, words)`.
        copies: Tensor `(batch, steps, time)`.

    Returns:
        Tensor `(batch, steps, words + time)`.
    """
    return ops.concatenate([vocabulary, copies], axis=-1)


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

    Returns:
        Tensor `(batch, steps, words + extra_words)`.
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


def word_probabilities(logits: Tensor) -> Tensor:
    """Softmax over the words of the vocabulary.

    Args:
        logits: Tensor `(batch, steps, words)`.

    Returns:
        Tensor of that shape.
    """
    return ops.softmax(_finite(logits))


def _finite(values: Tensor) -> Tensor:
    return finite(values, attention.LARGEST_SCORE)
