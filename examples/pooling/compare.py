"""How a BiLSTM's states are pooled, and where in a text the words are.

    python -m examples.pooling.compare --data-dir DATA --sizes 1000 10000

The IMDb part of table 1.3 of "Analyzing the Learnability and Representability
of Recurrent Architectures". In the settings left, mid and right a text keeps
that place between random Wikipedia sentences, which are two thirds of all
tokens. There it is cut to 136 tokens, so that with its noise it has no more
than `--max-length`, 400; in standard it is cut to 400.

How the authors' public code reads texts, `--preset authors`, is in
examples/common/presets.py. The seed draws training texts, weights, noise of the
training texts and the order of batches. The best epoch on the validation part
is tested. `--vanishing` measures the vanishing ratio (table 1.2).
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import pandas as pd

from examples.common import presets
from examples.pooling import classifiers
from examples.pooling import experiments
from examples.pooling import gradients
from examples.pooling import noisy_texts

# Texts at which the vanishing ratio is measured.
PROBE = 32
FITTED = 0.95


def train_and_test(
    name: str,
    seed: int,
    data: noisy_texts.StudyData,
    args: argparse.Namespace,
    curve: Path,
) -> tuple[dict, keras.Model]:
    """One run, to be called by `experiments.study`."""
    read = presets.TEXTS[args.preset]
    matrix = experiments.start(seed, data, args, read.has_drawn)
    model = classifiers.bilstm_classifier(
        name, matrix, args.units, args.forget_bias, read.has_mask
    )
    classifiers.compile_classifier(model, args.learning_rate)
    callbacks: list[keras.callbacks.Callback] = []
    if args.vanishing or args.vanishing_every:
        # Always the same texts.
        texts = data.train.take(range(min(PROBE, len(data.train.ids))))
        ids = noisy_texts.pad(texts.ids)
        ratio = gradients.VanishingRatio(
            ids, texts.labels, args.vanishing_every
        )
        callbacks.append(ratio)
    history = experiments.fit(model, seed, data, args, callbacks)
    if args.vanishing_every:
        write_curve(curve, ratio.history, history)
    return {
        **experiments.summary(history),
        "test_accuracy": experiments.accuracy(model, data.test),
        "vanishing_ratio": fitted_ratio(history),
    }, model


def fitted_ratio(history: dict[str, list[float]]) -> str:
    """The vanishing ratio once training accuracy is 95 %, "" if unknown."""
    fitted = np.flatnonzero(np.array(history["accuracy"]) >= FITTED)
    if "vanishing_ratio" not in history or not fitted.size:
        return ""
    return f"{history['vanishing_ratio'][fitted[0]]:.3g}"


def write_curve(path: Path, ratios: dict, history: dict) -> None:
    """Writes ratios by step, and accuracies where an epoch ends."""
    epochs = len(history["accuracy"])
    ends = ratios["step"][-1] // epochs * np.arange(1, epochs + 1)
    names = ["accuracy", "val_accuracy"]
    accuracies = pd.DataFrame({x: history[x] for x in names}, index=ends)
    curve = pd.DataFrame({x: ratios[x] for x in ("step", "vanishing_ratio")})
    curve.join(accuracies, on="step").to_csv(path, index=False)


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    experiments.options(parser)
    presets.add_argument(parser, presets.TEXTS)
    names = list(classifiers.POOLINGS)
    known = [*names, *classifiers.KERAS_POOLINGS]
    add("--models", nargs="+", choices=known, default=names)
    add("--forget-bias", type=float, default=1.0, help="at first")
    add("--vanishing", action="store_true", help="ratio at ends of epochs")
    add("--vanishing-every", type=int, default=0, help="steps; 0: never")


PROGRAM = experiments.study(
    train_and_test,
    doc=__doc__,
    output="runs/pooling_compare.csv",
    options=options,
    seeds=(0, 1, 2),
)

if __name__ == "__main__":
    PROGRAM.main()
