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
from keras_seqmech.analysis.token_arrays import check_tokens
from keras_seqmech.analysis.token_arrays import check_values
from keras_seqmech.core import checks


class TokenFieldSize(NamedTuple):
    """The mean field size at one token, and the number of its steps."""

    mean: float
    count: int  # type: ignore[assignment]  # A tuple has a method `count`.


def field_size_by_token(
    tokens: Any,
    sizes: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, TokenFieldSize]:
    r"""Mean field size at each token, $E(s_t \mid x_t = w)$.

    Args:
        tokens: Array `(batch, time)` of ids or strings.
        sizes: Field sizes, `(batch, time)`.
        mask: Boolean array `(batch, time)`, True where a token counts.
        min_count: Leave out tokens that occur at fewer steps.

    Returns:
        Dict from token to `TokenFieldSize(mean, count)`.

    Raises:
        ValueError: If shapes differ, or a size is not finite.

    Example:

    >>> field_size_by_token([["a", "b"], ["a", "c"]], [[1, 2], [3, 1]])["a"]
    TokenFieldSize(mean=2.0, count=2)

    Source: figure 3 of the paper.
    """
    checks.check_positive_int("min_count", min_count)
    tokens = check_tokens(tokens)
    real = check_mask(mask, tokens.shape)
    values = check_values("sizes", sizes, tokens, real)
    names, ids, counts = np.unique(
        tokens[real], return_inverse=True, return_counts=True
    )
    totals = np.bincount(ids, weights=values, minlength=len(names))
    return {
        name: TokenFieldSize(float(total / count), int(count))
        for name, total, count in zip(names.tolist(), totals, counts)
        if count >= min_count
    }


def label_entropy_by_token(
    tokens: Any,
    labels: Any,
    mask: Any = None,
    min_count: int = 1,
) -> dict[Hashable, float]:
    r"""Entropy of the labels of the texts with a token, $H(Y \mid w \in x)$.

    The empirical entropy in nats, between 0 (the token decides the label) and
    the logarithm of the number of classes. A text counts once, however often
    the token occurs in it.

    Args:
        tokens: Array `(batch, time)` of ids or strings.
        labels: Ints `(batch,)`, one a text.
        mask: Boolean array `(batch, time)`, True where a token counts.
        min_count: Leave out tokens that occur in fewer texts.

    Returns:
        Dict from token to entropy.

    Raises:
        ValueError: If shapes differ, or a label is not a class.

    Example:

    >>> texts = [["good", "film"], ["bad", "film"]]
    >>> entropies = label_entropy_by_token(texts, [1, 0])
    >>> round(entropies["film"], 4), entropies["good"]
    (0.6931, 0.0)

    Source: figure 3 of the paper.
    """
    checks.check_positive_int("min_count", min_count)
    tokens = check_tokens(tokens)
    real = check_mask(mask, tokens.shape)
    _, classes = np.unique(
        check_labels(labels, len(tokens)), return_inverse=True
    )
    names, ids = np.unique(tokens[real], return_inverse=True)
    words, texts = np.unique(np.stack([ids, np.nonzero(real)[0]]), axis=1)
    counts = np.bincount(words, minlength=len(names))
    (words, _), joint = np.unique(
        np.stack([words, classes[texts]]), axis=1, return_counts=True
    )
    shares = joint / counts[words]
    entropies = np.abs(
        np.bincount(words, shares * np.log(shares), minlength=len(names))
    )
    return {
        name: float(entropy)
        for name, entropy, count in zip(names.tolist(), entropies, counts)
        if count >= min_count
    }
