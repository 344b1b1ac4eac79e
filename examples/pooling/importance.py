"""The importance of words to a classifier, by position in the text.

Source: "Analyzing the Learnability and Representability of Recurrent
Architectures", section 1.9, algorithm 1.
"""

import keras
import numpy as np

from examples.pooling import noisy_texts
from examples.pooling import positions

UNKNOWN = 1
# Words that are replaced at once.
REPLACED = 5


def normalized_word_importance(
    model: keras.Model, texts: list[np.ndarray], labels: np.ndarray
) -> np.ndarray:
    """`word_importance`, stretched to 100 points: its mean over texts."""
    found = (word_importance(model, *x, REPLACED) for x in zip(texts, labels))
    return np.mean([positions.stretch(x, 100) for x in found], axis=0)


def word_importance(
    model: keras.Model, text: np.ndarray, label: int, k: int
) -> np.ndarray:
    r"""Importance of each window of k words of a text.

    With $s^w$ the text whose window w is replaced by the unknown word,

    $$\delta^w = |\log P(y \mid s^w) - \log P(y \mid s)|, \qquad
      \mathrm{nwi}^w = \frac{\delta^w - \min_v \delta^v}{\max_v \delta^v}$$

    Windows start at words 0, k, 2k, and so on; if k does not divide the
    length, a last window covers the last k words. (The source leaves that
    open, and divides only the first term of the difference by the maximum.)
    """
    starts = [*range(0, len(text) - k + 1, k)]
    if len(text) % k:
        starts.append(len(text) - k)
    copies = np.tile(text, (1 + len(starts), 1))
    for copy, start in zip(copies[1:], starts):
        copy[start : start + k] = UNKNOWN
    found = model.predict_on_batch(noisy_texts.pad(copies))[:, label]
    logs = np.log(np.maximum(found, np.finfo("float32").tiny))
    changes = np.abs(logs[1:] - logs[0])
    return (changes - changes.min()) / (changes.max() or 1.0)
