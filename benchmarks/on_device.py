"""A step on a device: size, time, memory and answers, by format.

    python -m benchmarks.on_device

Taggers of `examples.receptive_field.stream_taggers`, and one with a
`FocusedHierarchicalEncoder`, trained alike, tag texts character by character,
one row at a time, on one core: as a SavedModel in TensorFlow, and as steps in
LiteRT and ONNX, with weights of 32 and of 8 bits. Each form runs in a process
of its own; LiteRT and ONNX without TensorFlow. With PyTorch installed, its LSTM
runs in ONNX, too, untrained, as what others would ship.

Prints kB on disk; ms a character, the median of texts, with all answers that it
lets leave; MB of resident memory; F1 in %; how many characters a tag waits for,
on average.
"""

import itertools
import pathlib
import pickle
import subprocess
import sys
import tempfile
from importlib.util import find_spec

import keras
import numpy as np
from keras import layers
from keras import ops

from benchmarks import timing
from examples.receptive_field import stream_taggers
from examples.receptive_field import streams
from keras_seqmech import ExploreThenCommit
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import serving
from keras_seqmech.serving import StreamingModel
from keras_seqmech.serving import portable

# Names and settings of `stream_taggers`.
MODELS = {
    "lstm": 0,
    "window+dense": 2,
    "one_look_ahead+dense": 0.02,
    "encoder": 0.02,
}
FORMS = {"LiteRT": ".tflite", "ONNX": ".onnx"}
UNITS = 64
# What a row is given beside its characters.
OTHERS = {
    "one_look_ahead+dense": {"weight": np.array([0.02], "float32")},
    "encoder": {"question": np.ones((1, 1), "float32")},
}


def train(name, texts, epochs):
    """Trains one of `MODELS`."""
    if name != "encoder":
        return stream_taggers.train(name, MODELS[name], texts, epochs, seed=0)
    plain = stream_taggers.train("lstm", 0, texts, 1, seed=0, units=1)
    ids = keras.Input((None,), dtype="int32", name="ids")
    question = keras.Input((1,), name="question")
    size = len(plain.vocabulary) + stream_taggers.FIRST
    x = layers.Embedding(size, stream_taggers.EMBEDDING)(ids)
    upper = FocusedHierarchicalEncoder(UNITS, return_sequences=True)
    lower = layers.LSTM(UNITS, return_sequences=True)(x)
    read = upper(lower, question)
    tags = layers.Dense(len(texts.tags), activation="softmax", name="tags")
    model = keras.Model(
        {"ids": ids, "question": question},
        {"tags": tags(ops.concatenate([read, lower], axis=-1))},
    )
    train = stream_taggers.encode(texts.train, plain.vocabulary, texts.tags)
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(
        {"ids": train.ids, "question": np.ones((len(train.ids), 1))},
        train.tags,
        stream_taggers.BATCH,
        epochs,
        sample_weight=train.mask.astype("float32"),
        callbacks=[ExploreThenCommit(reading=MODELS[name])],
        verbose=0,
    )
    return plain._replace(name=name, model=model)


def measured(path, tagger, states=None):
    """What a form of a model measures on the test texts."""
    mask = tagger.tests.mask
    texts = [x[real][None] for x, real in zip(tagger.tests.ids, mask)]
    states = states or portable.Step(StreamingModel(tagger.model), 1).states
    given, answers = path.with_name("given"), path.with_name("answers")
    others = OTHERS.get(tagger.name, {})
    given.write_bytes(pickle.dumps((texts, others, states)))
    worker = pathlib.Path(__file__).with_name("on_device_worker.py")
    subprocess.run([sys.executable, worker, path, given, answers], check=True)
    found, ms, memory = pickle.loads(answers.read_bytes())
    tags = np.zeros_like(tagger.tests.tags)
    for row, answer in zip(tags, found):
        row[: len(answer)] = [tag for tag, _ in answer]
    f1 = stream_taggers.f1(tags, tagger.tests, tagger.texts)
    waits = [at - i for x in found for i, (_, at) in enumerate(x)]
    files = [path] if path.is_file() else path.rglob("*")
    size = sum(x.stat().st_size for x in files if x.is_file()) / 1000
    return {
        "kB": f"{size:.0f}",
        "ms": f"{ms:.3f}",
        "MB": f"{memory:.0f}",
        "F1 %": f"{f1:.2f}",
        "waits": f"{np.mean(waits):.2f}",
    }


def rows(options):
    """Trains, exports and measures."""
    texts = streams.load("spaces", options.texts, options.tests, 64)
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            tagger = train(name, texts, options.epochs)
            yield from forms(pathlib.Path(folder), tagger)


def forms(folder, tagger):
    """A row for every form of a model."""
    name = tagger.name
    tags = {"tags": tagger.model.output["tags"]}
    model = keras.Model(tagger.model.input, tags)
    tagger = tagger._replace(model=model)
    path = serving.export_model(model, folder / name, streaming=True)
    yield {"model": name, "form": "SavedModel", **measured(path, tagger)}
    inputs = {"ids": tagger.tests.ids[:8]}
    for other, x in OTHERS.get(name, {}).items():
        inputs[other] = np.repeat(x, len(inputs["ids"]), 0)
    for (form, ending), quantize in itertools.product(
        FORMS.items(), (False, True)
    ):
        path = folder / f"{name}{ending}"
        form += ", 8 bits" if quantize else ""
        serving.export_step(model, path, inputs, quantize, batch_size=1)
        yield {"model": name, "form": form, **measured(path, tagger)}
    if name == "lstm" and find_spec("torch"):
        path = folder / "torch.onnx"
        found = measured(path, tagger, torch_lstm(path, tagger))
        found["F1 %"] = "-"
        yield {"model": "PyTorch's LSTM", "form": "ONNX", **found}


def torch_lstm(path, tagger):
    """Writes a step of PyTorch's LSTM tagger; returns its first states."""
    import torch

    class Tagger(torch.nn.Module):
        def __init__(self, ids, width, tags):
            super().__init__()
            self.embedding = torch.nn.Embedding(ids, width)
            self.lstm = torch.nn.LSTM(width, UNITS, batch_first=True)
            self.dense = torch.nn.Linear(UNITS, tags)

        def forward(self, ids, h, c):
            y, (h, c) = self.lstm(self.embedding(ids), (h, c))
            return torch.softmax(self.dense(y), -1), h, c

    size = len(tagger.vocabulary) + stream_taggers.FIRST
    model = Tagger(size, stream_taggers.EMBEDDING, len(tagger.texts.tags))
    state = torch.zeros(1, 1, UNITS)
    torch.onnx.export(
        model,
        (torch.ones(1, 1, dtype=torch.int32), state, state),
        str(path),
        input_names=["ids", "state_h", "state_c"],
        output_names=["tags", "next_state_h", "next_state_c"],
        dynamo=False,
    )
    return dict.fromkeys(("state_h", "state_c"), state.numpy())


if __name__ == "__main__":
    timing.run(__doc__, rows, texts=4000, tests=300, epochs=8)
