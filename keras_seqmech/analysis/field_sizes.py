"""Field sizes and label entropies by token.

Source: "An Informative Adaptive Receptive Field Model for Recurrent Neural
Networks", section "Informational Receptive Field Experiments".
"""

from collections.abc import Hashable
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_seqmech.analysis.token_arrays import check_labels
from keras_seqmech.analysis.token_arrays import check_mask
from keras_seqmech.analysis.token_arrays import flatten_tokens
from keras_seqmech.analysis.token_arrays import flatten_values
from keras_seqmech.core import checks


class TokenFieldSize(NamedTuple):
    """The mean field size at one token, and the number of its steps."""

    mean: float
    count: int  # type: ignore[assignment]  # A tuple has a method `count`.


def expected_field_size(probabilities: Any, mask: Any = None) -> np.ndarray:
    r"""Expected number of positions read at each step, $E(s_t)$.

    $$E(s_t) = \sum_i d_{t,i} \sum_{j \le i} v_{t+j-1}$$

    with $v$ 1 where a position exists and is not masked: of a field that runs
    past the end, or over a gap, only real positions are read. It changes
    smoothly in training, where the most probable size would jump.

    Args:
        probabilities: Array `(batch, time, S)` of size probabilities, from
            `ReceptiveFieldRNN(return_field=True)`.
        mask: Boolean array `(batch, time)`, True where a step is real.

    Returns:
        float64 array `(batch, time)`, 0 at masked steps.

    Example:

    >>> import numpy as np
    >>> expected_field_size(np.full((1, 3, 2), 0.5))
    array([[1.5, 1.5, 1. ]])
    """
    probabilities = np.asarray(probabilities, dtype="float64")
    if probabilities.ndim != 3:
        raise ValueError(
            "Argument `probabilities` must have the shape (batch, time, S). "
            f"Received: probabilities.shape={probabilities.shape}"
        )
    batch_size, length, max_size = probabilities.shape
    mask = check_mask(mask, (batch_size, length))
    counts = np.zeros((batch_size, length + max_size), dtype="int64")
    np.cumsum(mask, axis=1, out=counts[:, 1 : length + 1])
    counts[:, length + 1 :] = counts[:, length : length + 1]
    steps = np.arange(length)
    read = np.stack(
        [
            counts[:, steps + i] - counts[:, steps]
            for i in range(1, max_size + 1)
        ],
        axis=-1,
    )
    return (np.where(mask[..., None], probabilities, 0.0) * read).sum(-1)


def field_size_by_token(
    tokens: Any,
    sizes: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, TokenFieldSize]:
    r"""Mean field size at each token, $E(s_t \mid x_t = w)$.

    Args:
        tokens: Ids `(batch, time)`, or a list of lists of tokens of any
            hashable kind, one list a text.
        sizes: Field sizes, `(batch, time)`; for lists of tokens, at least as
            many sizes a text as it has tokens (further ones are padding).
        mask: Boolean array `(batch, time)`, True where a token counts. Only
            with ids.
        min_count: Leave out tokens that occur at fewer steps.

    Returns:
        Dict from token to `TokenFieldSize(mean, count)`.

    Raises:
        ValueError: If shapes or lengths differ, or a size is not finite.

    Example:

    >>> field_size_by_token([["a", "b"], ["a"]], [[1.0, 2.0], [3.0]])["a"]
    TokenFieldSize(mean=2.0, count=2)

    Source: figure 3 of the paper.
    """
    checks.check_positive_int("min_count", min_count)
    names, ids, _ = flatten_tokens(tokens, mask)
    values = flatten_values("sizes", tokens, sizes, mask)
    counts = np.bincount(ids, minlength=len(names))
    totals = np.bincount(ids, weights=values, minlength=len(names))
    return {
        name: TokenFieldSize(float(total / count), int(count))
        for name, total, count in zip(names, totals, counts)
        if count >= min_count
    }


def label_entropy_by_token(
    tokens: Any,
    labels: Any,
    num_classes: int | None = None,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, float]:
    r"""Entropy of the labels of the texts with a token, $H(Y \mid w \in x)$.

    The empirical entropy in nats, between 0 (the token decides the label) and
    the logarithm of the number of classes. A text counts once, however often
    the token occurs in it.

    Args:
        tokens: Ids `(batch, time)`, or a list of lists of tokens.
        labels: Ints `(batch,)`, one a text.
        num_classes: Number of classes; if given, labels are checked to lie
            below it.
        mask: Boolean array `(batch, time)`, True where a token counts. Only
            with ids.
        min_count: Leave out tokens that occur in fewer texts.

    Returns:
        Dict from token to entropy.

    Raises:
        ValueError: If shapes or lengths differ, or a label is not a class.

    Example:

    >>> texts = [["good", "film"], ["bad", "film"]]
    >>> entropies = label_entropy_by_token(texts, [1, 0])
    >>> round(entropies["film"], 4), entropies["good"]
    (0.6931, 0.0)

    Source: figure 3 of the paper.
    """
    checks.check_positive_int("min_count", min_count)
    names, ids, texts = flatten_tokens(tokens, mask)
    labels = check_labels(labels, len(tokens), num_classes)
    words, texts = np.unique(np.stack([ids, texts]), axis=1)
    counts = np.bincount(words, minlength=len(names))
    _, classes = np.unique(labels, return_inverse=True)
    (words, _), joint = np.unique(
        np.stack([words, classes[texts]]), axis=1, return_counts=True
    )
    shares = joint / counts[words]
    entropies = np.abs(
        np.bincount(words, shares * np.log(shares), minlength=len(names))
    )
    return {
        name: float(entropy)
        for name, entropy, count in zip(names, entropies, counts)
        if count >= min_count
    }
