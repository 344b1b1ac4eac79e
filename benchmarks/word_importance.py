"""Word importance in batches of copies, over one copy at a time.

    python -m benchmarks.word_importance [--repeats 5] [--texts 4] ...

Prints the texts a second of both, and their ratio.
"""

import argparse
import datetime

import keras
import numpy as np

from benchmarks import timing
from benchmarks.printed_tables import print_table
from keras_seqmech.analysis.importance import word_importance

VOCABULARY_SIZE = 1000


def classifier(time: int, features: int, units: int) -> keras.Model:
    """A bidirectional LSTM with random weights, of two classes."""
    ids = keras.Input((time,), dtype="int32")
    hidden = keras.layers.Embedding(VOCABULARY_SIZE, features)(ids)
    hidden = keras.layers.Bidirectional(keras.layers.LSTM(units))(hidden)
    outputs = keras.layers.Dense(2, activation="softmax")(hidden)
    return keras.Model(ids, outputs)


def compare(
    texts: int,
    time: int,
    features: int,
    units: int,
    k: int,
    batch_size: int,
    repeats: int,
) -> dict[int, float]:
    """Times `word_importance` at two batch sizes.

    Args:
        texts: Number of texts.
        time: Words in each.
        features: Size of the word vectors.
        units: Size of the LSTM in each direction.
        k: Words replaced at once.
        batch_size: Copies that run at once.
        repeats: Interleaved repeats.

    Returns:
        Texts a second by batch size, 1 and `batch_size`.
    """
    keras.utils.set_random_seed(0)
    model = classifier(time, features, units)
    generator = np.random.default_rng(0)
    tokens = generator.integers(2, VOCABULARY_SIZE, size=(texts, time))
    labels = generator.integers(2, size=texts)

    def run(size):
        return lambda: word_importance(
            model, tokens, labels, k=k, batch_size=size
        )

    seconds = timing.interleaved(
        {size: run(size) for size in (1, batch_size)}, repeats
    )
    return {size: texts / spent for size, spent in seconds.items()}


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--time", type=int, default=200)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.environment()}")
    rates = compare(**vars(arguments))
    print_table(
        ["copies at once", "texts a second"],
        [[size, f"{rate:.2f}"] for size, rate in rates.items()],
    )
    print(f"\nRatio: {rates[arguments.batch_size] / rates[1]:.1f}")


if __name__ == "__main__":
    main()
