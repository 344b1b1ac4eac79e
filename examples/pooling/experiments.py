"""Runs of the pooling studies: options, what is done, tables."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from examples.common import presets
from examples.common import program
from examples.common import whole_files
from examples.common import word_vectors
from examples.pooling import classifiers
from examples.pooling import noisy_texts

# Size of embeddings that start from no vectors.
EMBEDDING_SIZE = 100
NUMBERS = {
    "units": 256,
    "learning_rate": 2e-3,
    "batch_size": 32,
    "epochs": 20,
    "max_length": 400,  # Tokens, with noise.
    "validation_size": int,  # By default all.
    "test_size": int,
}


def options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of both studies."""
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=[1000, 10000])
    settings, default = noisy_texts.SETTINGS, ["standard", "mid"]
    add("--settings", nargs="+", choices=settings, default=default)
    add("--save-models", type=Path, help="folder for the trained models")
    parser.set_defaults(preset="ours")


def study(run_one: Callable, **own: Any) -> program.Program:
    """The program of a study.

    `run_one(name, seed, data, args, curve)` trains and tests a model, and
    returns what it measures and the model; it may write a CSV file `curve`.
    `own` is more of `Program`.
    """

    def more(args: argparse.Namespace, case: program.Case) -> program.Case:
        vectors = word_vectors.find_vectors(args.data_dir)
        return {"vectors": Path(vectors).name if vectors else "none"}

    def load(args: argparse.Namespace) -> noisy_texts.Corpus:
        return noisy_texts.load(
            args.data_dir,
            args.validation_size,
            args.test_size,
            presets.TEXTS[args.preset].is_lower,
        )

    def run(own: program.Run) -> dict[str, Any]:
        key, args = own.key, own.args
        data = noisy_texts.prepare(
            *(own.data, key["setting"], int(key["size"]), own.seed),
            args.max_length,
        )
        curve = own.file("csv")
        measured, model = run_one(key["model"], own.seed, data, args, curve)
        if args.save_models:
            path = args.save_models / f"{own.place.name}.keras"
            described = {"words": data.words, **key}
            whole_files.write_json(path.with_suffix(".json"), described)
            model.save(path)
        return {**measured, "parameters": model.count_params()}

    return program.Program(
        **own,
        key=("size", "setting", "model", "seed", "settings"),
        cases=lambda args: program.grid(
            size=args.sizes, setting=args.settings, model=args.models
        ),
        needs_data=lambda args: True,
        numbers=NUMBERS,
        settings=("forget_bias", "preset"),
        more=more,
        load=load,
        run=run,
    )


def start(
    seed: int,
    data: noisy_texts.StudyData,
    args: argparse.Namespace,
    drawn: bool = False,
) -> np.ndarray:
    """Begins a run; returns the starting values of its embeddings.

    `drawn` is that of `embedding_matrix`.
    """
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    vectors = word_vectors.find_vectors(args.data_dir)
    return word_vectors.embedding_matrix(
        data.words, vectors, EMBEDDING_SIZE, seed, drawn
    )


def fit(
    model: keras.Model,
    seed: int,
    data: noisy_texts.StudyData,
    args: argparse.Namespace,
    callbacks: list[keras.callbacks.Callback],
) -> dict[str, list[float]]:
    """Trains a compiled model; the seed orders its texts."""
    order = np.random.default_rng([seed, 2])
    training = noisy_texts.batches(data.train, args.batch_size, order)
    validation = noisy_texts.batches(data.validation, args.batch_size)
    return classifiers.fit(model, training, validation, args.epochs, callbacks)


def accuracy(model: keras.Model, texts: noisy_texts.Texts) -> float:
    """Percentage of texts whose most probable class is right."""
    right = classifiers.accuracy(model, noisy_texts.batches(texts, 64))
    return percent(right)


def summary(history: dict[str, list[float]]) -> dict:
    """The epoch of the best validation accuracy, and the accuracies there."""
    best = int(np.argmax(history["val_accuracy"]))
    return {
        "best_epoch": best + 1,
        "epochs": len(history["val_accuracy"]),
        "train_accuracy": percent(history["accuracy"][best]),
        "validation_accuracy": percent(history["val_accuracy"][best]),
    }


def percent(share: float) -> float:
    return round(100 * share, 2)
