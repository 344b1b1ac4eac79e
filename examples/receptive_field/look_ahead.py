"""Does reading ahead end exactly where it must?

    python -m examples.receptive_field.look_ahead --seeds 0 1 2

Trains forward taggers on the look-ahead task (`examples.tasks.look_ahead`)
and prints the accuracy at keys and the mean number of tokens read there, by the
number of fillers before the value, and elsewhere. What is read goes into the
`input` of the recurrent layer (by a `LookAhead`), or through the gate of a
receptive field into its `memory`. Where the key does not tell how many fillers
follow (`--keys alike`), a size that is chosen before anything is read
(`size_from="input"`) cannot be right.
"""

import argparse

import keras
import numpy as np

import keras_seqmech as seqmech
from examples.common import program
from examples.receptive_field.cells import CELLS
from examples.tasks import look_ahead

MAX_SIZE, LONGEST_GAP = 6, 3
INTO = ("input", "memory")


def options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    ways, keys = ["input", "field"], ["told", "alike"]
    add("--cells", nargs="+", choices=CELLS, default=["lstm", "gru"])
    add("--size-from", nargs="+", choices=ways, default=ways)
    add("--keys", nargs="+", choices=keys, default=keys)
    add("--into", nargs="+", choices=INTO, default=list(INTO))


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
        x = seqmech.LookAhead(MAX_SIZE, **how)(x)
        x = keras.layers.RNN(cell, return_sequences=True)(x)
    else:
        x = seqmech.ReceptiveFieldRNN(
            cell, MAX_SIZE, return_sequences=True, **how
        )(x)
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
        callbacks=[seqmech.ExploreThenCommit()],
        verbose=0,
    )
    found = model.predict(test.tokens, batch_size=500, verbose=0)
    decided = seqmech.analysis.decisions(model, test.tokens, 500)
    sizes = decided["field"]["size"]
    right = np.argmax(found, axis=-1) == test.targets
    return {
        "accuracy": f"{100 * right[test.keys].mean():.1f}",
        **{
            f"size_gap_{gap}": f"{sizes[test.gaps == gap].mean():.2f}"
            for gap in range(LONGEST_GAP + 1)
        },
        "size_elsewhere": f"{sizes[~test.keys].mean():.2f}",
        "certain": f"{history.history['field_certain'][-1]:.3f}",
    }


PROGRAM = program.Program(
    doc=__doc__,
    output="runs/look_ahead.csv",
    options=options,
    key=("into", "cell", "size_from", "keys", "seed", "settings"),
    cases=lambda args: program.grid(
        into=args.into,
        cell=args.cells,
        size_from=args.size_from,
        keys=args.keys,
    ),
    numbers={
        "units": 32,
        "epochs": 20,
        "train_size": 4000,
        "learning_rate": 5e-3,
        "batch_size": 100,
    },
    run=run,
)

if __name__ == "__main__":
    PROGRAM.main()
