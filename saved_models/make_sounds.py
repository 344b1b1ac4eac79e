"""Trains the model of `sounds/`: letters to sounds while a word is typed.

    python -m saved_models.make_sounds

As the last model of `examples.quickstart`, on more words. Writes it as a
`.keras` file of strings, and as a step for devices; and the page that says what
it is, how often it is right, and what it answers for some words. Run it on the
oldest versions (`make test-versions` makes `.venv-oldest`), as older ones of
Keras do not load what newer ones saved.
"""

import json
import pathlib
import textwrap

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

from examples import quickstart
from examples.common import arguments
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from examples.receptive_field.sounds import END
from examples.study.rows import origin
from keras_seqmech import serving

SHOWN = ("decision", "special", "phone", "thoroughly")
PAGE = """\
# Letters to sounds while a word is typed

Made, this page too, by

    python -m saved_models.make_sounds --words {words} --epochs {epochs} \\
      --units {units} --seed {seed}

at commit {commit}, {date}; {versions}; {machine}.

An LSTM behind a `LookAhead`, which reads {most} letters at most, trained on
words of the CMU pronouncing dictionary and tested on {test_words} others. A
weight is what a letter of waiting must save, in nats; waits are in letters:

{table}

```python
import keras
import keras_seqmech  # Its layers are in the file.
import tensorflow as tf

model = keras.saving.load_model("saved_models/sounds/sounds.keras")
letters = tf.constant([[*"decision "]])
found = model({{"letters": letters, "weight": tf.constant([0.05])}})
print(found["sounds"][0].numpy(), found["size"][0].numpy())
```

- `sounds.keras` takes strings: `letters`, `(batch, time)`, a space behind each
  word, and `weight`, `(batch,)`, from {least} to {largest}. It returns the
  `sounds` of each letter, and `size`, the number of letters read there. It can
  be [streamed](../../docs/streaming.md).
- `sounds.tflite` is its step for [devices](../../docs/on_a_device.md), from
  `ids` and `weight` to probabilities of `tags`, with weights of 8 bits;
  `sounds.json` has the ids of letters and the names of tags.

Some words, which may be among those of training:

| word | weight | sounds |
| --- | ---: | --- |
{answers}
"""


def main(argv: list[str] | None = None) -> None:
    """Trains, tests and writes."""
    parser = arguments.parser(__doc__)
    quickstart.add_training(
        parser, words=100000, test_words=4000, epochs=6, units=48
    )
    folder = pathlib.Path(__file__).with_name("sounds")
    parser.add_argument("--folder", type=pathlib.Path, default=folder)
    args = parser.parse_args(argv)
    texts = streams.load(
        "sounds", args.words, args.test_words, 64, args.data_dir
    )
    tagger, rows = quickstart.train_and_test("LookAhead, LSTM", texts, args)
    model = quickstart.make_speller(tagger, "letters")
    args.folder.mkdir(parents=True, exist_ok=True)
    model.save(args.folder / "sounds.keras")
    ids = tagger.tests.ids[:4]
    serving.export_step(
        # How long a sound waits is seen when it comes.
        keras.Model(tagger.model.input, {"tags": tagger.model.output["tags"]}),
        args.folder / "sounds.tflite",
        {"ids": ids, "weight": np.full(len(ids), quickstart.WEIGHTS[1])},
        quantize=True,
        batch_size=1,
    )
    numbers = enumerate(tagger.vocabulary, stream_taggers.FIRST)
    known = {"ids": {x: i for i, x in numbers}, "tags": [*texts.tags]}
    (args.folder / "sounds.json").write_text(f"{json.dumps(known)}\n", "utf8")
    table = pd.DataFrame(rows).drop(columns="model").to_string(index=False)
    answers = [
        f"| {word} | {weight} | {answer(model, word, weight)} |"
        for word in SHOWN
        for weight in (quickstart.WEIGHTS[0], quickstart.WEIGHTS[-1])
    ]
    page = PAGE.format(
        **vars(args),
        **origin(),
        most=quickstart.MOST_READ,
        least=quickstart.WEIGHTS[-1],
        largest=quickstart.WEIGHTS[0],
        table=textwrap.indent(table, "    "),
        answers="\n".join(answers),
    )
    (args.folder / "README.md").write_text(page, "utf8")


def answer(model: keras.Model, word: str, weight: float) -> str:
    """The sounds of a word."""
    letters, weights = tf.constant([[*word, END]]), tf.constant([weight])
    found = model({"letters": letters, "weight": weights})
    return " ".join(x.decode() for x in found["sounds"][0].numpy() if x)


if __name__ == "__main__":
    main()
