"""Does reading ahead end exactly where it must?

    python -m examples.receptive_field.look_ahead --seeds 0 1 2

Trains forward taggers on the look-ahead task (`examples.tasks.look_ahead`)
and prints, for each cell and way to choose sizes, the accuracy at keys and the
mean number of tokens read there, by the number of fillers before the value,
and elsewhere. What is needed is 2 to 5 at keys with 0 to 3 fillers, and 1
elsewhere. What is read goes into the `input` of the recurrent layer (by a
`LookAhead`), or through the gate of a receptive field into its `memory`. Where
the key does not tell how many fillers follow (`--keys alike`), a size that is
chosen before anything is read (`size_from="input"`) cannot be right;
`size_from="field"` reads on until it has found the value.
"""

import argparse
import itertools
import pathlib

import keras
import numpy as np

from examples.common import arguments
from examples.common import results
from examples.common import tables
from examples.receptive_field.cells import CELLS
from examples.tasks import look_ahead
from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis

MAX_SIZE, LONGEST_GAP = 6, 3
INTO = ("input", "memory")
SETTINGS = ("units", "epochs", "train_size", "learning_rate", "batch_size")
KEY = ("into", "cell", "size_from", "keys", "seed", "settings")
GAPS = tuple(f"size_gap_{gap}" for gap in range(LONGEST_GAP + 1))
MEASURED = ("accuracy", *GAPS, "size_elsewhere", "certain")


def main(argv: list[str] | None = None) -> None:
    """Runs what is not finished, and prints the table."""
    args = parse(argv)

    rows = results.ResultsFile(args.output, KEY).do_missing(
        keys(args), lambda key: train_and_measure(args, key)
    )
    print(tables.by_kind(rows, KEY[:4], MEASURED))


def keys(args: argparse.Namespace) -> list[results.Key]:
    """The `KEY` of each run."""
    settings = results.describe(args, SETTINGS)
    return [
        (*kind, str(seed), settings)
        for *kind, seed in itertools.product(
            args.into, args.cells, args.size_from, args.keys, args.seeds
        )
    ]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = arguments.parser(__doc__)
    add = parser.add_argument
    ways, keys = ["input", "field"], ["told", "alike"]
    fillers = "whether a key tells how many fillers follow it"
    add("--cells", nargs="+", choices=CELLS, default=["lstm", "gru"])
    add("--size-from", nargs="+", choices=ways, default=ways)
    add("--keys", nargs="+", choices=keys, default=keys, help=fillers)
    add("--into", nargs="+", choices=INTO, default=list(INTO))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--units", type=int, default=32)
    add("--epochs", type=int, default=20)
    add("--train-size", type=int, default=4000, help="sequences")
    add("--batch-size", type=int, default=100)
    add("--learning-rate", type=float, default=5e-3)
    output = pathlib.Path("runs/look_ahead.csv")
    add("--output", type=pathlib.Path, default=output)
    return parser.parse_args(argv)


def train_and_measure(
    args: argparse.Namespace, key: results.Row
) -> dict[str, str]:
    """Trains one model; returns what it does at keys and elsewhere."""
    seed, told = int(key["seed"]), key["keys"] == "told"
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)
    train, test = (
        look_ahead.examples(
            count, told=told, longest_gap=LONGEST_GAP, seed=2 * seed + part
        )
        for part, count in enumerate((args.train_size, 1000))
    )
    ids = keras.Input((None,), dtype="int32")
    vocabulary_size = look_ahead.vocabulary_size(longest_gap=LONGEST_GAP)
    x = keras.layers.Embedding(vocabulary_size, args.units)(ids)
    cell = CELLS[key["cell"]](args.units)
    how = {
        "size_from": key["size_from"],
        "track_statistics": True,
        "seed": seed,
        "name": "field",
    }
    if key["into"] == "input":
        x = LookAhead(MAX_SIZE, **how)(x)
        x = keras.layers.RNN(cell, return_sequences=True)(x)
    else:
        x = ReceptiveFieldRNN(cell, MAX_SIZE, return_sequences=True, **how)(x)
    values = keras.layers.Dense(4, activation="softmax")(x)
    model = keras.Model(ids, values)
    model.compile(
        keras.optimizers.Adam(args.learning_rate),
        "sparse_categorical_crossentropy",
    )
    history = model.fit(
        train.tokens,
        train.targets,
        sample_weight=train.keys.astype("float32"),
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=[ExploreThenCommit()],
        verbose=0,
    )
    found = model.predict(test.tokens, batch_size=500, verbose=0)
    sizes = analysis.decisions(model, test.tokens, 500)["field"]["size"]
    right = np.argmax(found, axis=-1) == test.targets
    return {
        "accuracy": f"{100 * right[test.keys].mean():.1f}",
        **{
            name: f"{sizes[test.gaps == gap].mean():.2f}"
            for gap, name in enumerate(GAPS)
        },
        "size_elsewhere": f"{sizes[~test.keys].mean():.2f}",
        "certain": f"{history.history['field_certain'][-1]:.3f}",
    }


if __name__ == "__main__":
    main()
