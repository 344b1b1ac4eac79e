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
    """The first state of a LiteRT or ONNX file, and its step.

    It updates a state; inputs may be the last; it returns the tags that leave.
    """
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

    def step(state, inputs, end):
        found = fresh_step.answers(run, state, inputs, np.array([end]))
        return [answer["tags"][0, 0] for answer, (left,) in found if left]

    return states, step


def saved_model(path):
    """The same of a SavedModel, by TensorFlow."""
    import tensorflow as tf

    signatures = tf.saved_model.load(path).signatures
    start = dict(signatures["start"](batch_size=tf.constant(1)))
    del start["delay"]

    def step(state, inputs, end):
        given = {name: tf.constant(x) for name, x in inputs.items()}
        answer = signatures["step"](**given, end=tf.constant(end), **state)
        state.update({name: answer[name] for name in state})
        return answer["tags"].numpy()[0]

    return start, step


def main(path, given, answers):
    """Tags all texts; the first one warms up."""
    os.sched_setaffinity(0, {0})
    texts, others, states = pickle.loads(pathlib.Path(given).read_bytes())
    is_portable = pathlib.Path(path).is_file()
    start, step = portable(path, states) if is_portable else saved_model(path)
    found, ms = [], []
    for ids in (texts[0], *texts):
        begun, state, tags = time.perf_counter(), dict(start), []
        for t, last in enumerate(range(ids.shape[1])[::-1]):
            inputs = {"ids": ids[:, t : t + 1], **others}
            left = step(state, inputs, last == 0)
            tags += [(np.argmax(tag), t) for tag in left]
        found.append(tags)
        ms.append(1000 * (time.perf_counter() - begun) / ids.shape[1])
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    result = (found[1:], statistics.median(ms[1:]), memory)
    pathlib.Path(answers).write_bytes(pickle.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
