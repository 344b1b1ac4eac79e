"""Tags texts with one form of a model: a process of `benchmarks.on_device`.

`python on_device_worker.py PATH GIVEN ANSWERS`, pickles both. It runs on one
core, and imports what the form needs.
"""

import importlib.util
import os
import pathlib
import pickle
import statistics
import sys
import time

import numpy as np

STEP = (
    pathlib.Path(__file__).parents[1] / "keras_seqmech/serving/_fresh_step.py"
)


def portable(path, states):
    """A function from ids of a text to answers, of a LiteRT or ONNX file."""
    # By path: the package imports TensorFlow.
    spec = importlib.util.spec_from_file_location("fresh_step", STEP)
    fresh_step = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh_step)
    load = fresh_step.load(path)

    def run(given):
        if "state_passed" in given:
            return load(given)
        # PyTorch's LSTM, which answers each step at once.
        given = {name: given[name] for name in ("ids", *states)}
        return {**load(given), "emitted": [True], "pending": False}

    def tag(ids, others):
        state, found = dict(states), []
        for t in range(ids.shape[1]):
            step = {"ids": ids[:, t : t + 1], **others}
            end = np.array([t == ids.shape[1] - 1])
            for answer, emitted in fresh_step.answers(run, state, step, end):
                if emitted[0]:
                    found.append((np.argmax(answer["tags"]), t))
        return found

    return tag


def saved_model(path):
    """The same of a SavedModel, by TensorFlow."""
    import tensorflow as tf

    signatures = tf.saved_model.load(path).signatures
    start = dict(signatures["start"](batch_size=tf.constant(1)))
    del start["delay"]

    def tag(ids, others):
        state, found = start, []
        others = {name: tf.constant(x) for name, x in others.items()}
        for t in range(ids.shape[1]):
            answer = signatures["step"](
                ids=tf.constant(ids[:, t : t + 1]),
                end=tf.constant(t == ids.shape[1] - 1),
                **others,
                **state,
            )
            state = {name: answer[name] for name in state}
            tags = answer["tags"].numpy().argmax(axis=-1)[0]
            found += [(x, t) for x in tags]
        return found

    return tag


def main(path, given, answers):
    """Tags all texts; the first one warms up."""
    os.sched_setaffinity(0, {0})
    with open(given, "rb") as file:
        texts, others, states = pickle.load(file)
    is_portable = pathlib.Path(path).is_file()
    tag = portable(path, states) if is_portable else saved_model(path)
    tag(texts[0], others)
    found, ms = [], []
    for ids in texts:
        begun = time.perf_counter()
        found.append(tag(ids, others))
        ms.append(1000 * (time.perf_counter() - begun) / ids.shape[1])
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    with open(answers, "wb") as file:
        pickle.dump((found, statistics.median(ms), memory), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
