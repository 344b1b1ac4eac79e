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
from collections.abc import Iterator

import keras
import numpy as np

from examples.common import program
from examples.receptive_field.cells import CELLS
from examples.tasks import look_ahead
from keras_seqmech import ExploreThenCommit
from keras_seqmech import LookAhead
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import analysis

MAX_SIZE, LONGEST_GAP = 6, 3
INTO = ("input", "memory")
GAPS = tuple(f"size_gap_{gap}" for gap in range(LONGEST_GAP + 1))


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    ways, keys = ["input", "field"], ["told", "alike"]
    fillers = "whether a key tells how many fillers follow it"
    add("--cells", nargs="+", choices=CELLS, default=["lstm", "gru"])
    add("--size-from", nargs="+", choices=ways, default=ways)
    add("--keys", nargs="+", choices=keys, default=keys, help=fillers)
    add("--into", nargs="+", choices=INTO, default=list(INTO))
    add("--units", type=int, default=32)
    add("--epochs", type=int, default=20)
    add("--train-size", type=int, default=4000, help="sequences")
    add("--batch-size", type=int, default=100)
    add("--learning-rate", type=float, default=5e-3)


def cases(args: argparse.Namespace) -> Iterator[program.Case]:
    return program.grid(
        into=args.into,
        cell=args.cells,
        size_from=args.size_from,
        keys=args.keys,
    )


def run(own: program.Run) -> dict[str, str]:
    """Trains one model; returns what it does at keys and elsewhere."""
    key, args, seed = own.key, own.args, own.seed
    train, test = (
        look_ahead.examples(
            count,
            told=key["keys"] == "told",
            longest_gap=LONGEST_GAP,
            seed=2 * seed + part,
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


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/look_ahead.csv",
    options=options,
    key=("into", "cell", "size_from", "keys", "seed", "settings"),
    cases=cases,
    settings=("units", "epochs", "train_size", "learning_rate", "batch_size"),
    run=run,
    measured=("accuracy", *GAPS, "size_elsewhere", "certain"),
)

if __name__ == "__main__":
    PROGRAM.main()
