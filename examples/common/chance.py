"""Classifiers that learned nothing."""

import numpy as np


def say_if_at_chance(name: str, accuracy: float, labels: np.ndarray) -> None:
    """Prints a line if a classifier is hardly better than its commonest class.

    Hardly: by less than two standard deviations of its accuracy.

    Args:
        name: What the line calls the classifier.
        accuracy: Share of labels that it has right.
        labels: Ints, `(examples,)`.
    """
    share = np.bincount(labels).max() / len(labels)
    if accuracy < share + 2 * np.sqrt(share * (1 - share) / len(labels)):
        print(
            f"{name}: {100 * accuracy:.1f} % right is no better than chance; "
            f"the commonest class has {100 * share:.1f} %. Train for longer, "
            "or on more examples.",
            flush=True,
        )
