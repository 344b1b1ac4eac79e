"""Exports of each mechanism: loaded from C, under load, asked for nonsense."""

import collections
import pathlib
import threading
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import MaxAttentionPooling
from keras_seqmech import serving
from keras_seqmech.serving import export
from tests.conformance.registry import ENTRIES
from tests.serving import export_tools
from tests.serving import malformed

pytestmark = pytest.mark.long

MECHANISMS = (
    "ReceptiveFieldRNN-lstm-relaxed-mean",
    "FocusedHierarchicalEncoder-reinforce",
    "PointerSoftmax-words",
    "MaxAttentionPooling",
    "ExpectedSubsample-reinforce",
)
MASK = np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [0, 0, 0, 0, 0]], "bool")
THREADS, REQUESTS = 8, 500
MALFORMED = 1000


def text_model():
    """Strings in, a label and where it came from out."""
    text = keras.Input((), dtype="string", name="text")
    ids = keras.layers.TextVectorization(
        standardize=None, split="character", vocabulary=list("abcdefghowr 字")
    )(text)
    embedded = keras.layers.Embedding(20, 3)(ids)
    sentence, scores = MaxAttentionPooling(return_attention_scores=True)(
        embedded, mask=keras.ops.not_equal(ids, 0)
    )
    label = keras.layers.StringLookup(
        vocabulary=["yes", "no"], num_oov_indices=0, invert=True
    )(keras.ops.argmax(keras.layers.Dense(2)(sentence), axis=-1))
    return keras.Model({"text": text}, {"label": label, **scores})


class Case(NamedTuple):
    """An export, a request, and the answers of `predict`."""

    path: pathlib.Path
    inputs: dict[str, tf.TensorSpec]
    request: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]


def make_case(model, directory):
    inputs = {
        x.name: tf.TensorSpec(x.shape, x.dtype) for x in model.input.values()
    }
    request = malformed.regular(inputs, np.random.default_rng(4), 3, 5)
    request = {k: MASK if x.dtype == bool else x for k, x in request.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            export, "_serve_in_fresh_process", export_tools.answer_here
        )
        path = serving.export_model(model, directory, None, request)
    return Case(path, inputs, request, predict(model, request))


def predict(model, request):
    tensors = {name: tf.constant(value) for name, value in request.items()}
    return model.predict(tensors, verbose=0)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Exports by name, all made by `export_model`."""
    directory = tmp_path_factory.mktemp("models")
    models = {e.id: e.model() for e in ENTRIES if e.id in MECHANISMS}
    assert len(models) == len(MECHANISMS)
    models["text"] = text_model()
    return {n: make_case(model, directory / n) for n, model in models.items()}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return export_tools.compile_loader(tmp_path_factory.mktemp("program"))


def check_answers(answers, expected):
    assert sorted(answers) == sorted(expected)
    for name, value in expected.items():
        if value.dtype == object:
            np.testing.assert_array_equal(answers[name], value)
        else:
            np.testing.assert_allclose(
                answers[name], value, rtol=1e-6, atol=1e-6, err_msg=name
            )


def test_loads_and_runs_from_c(cases, program):
    talk = export_tools.Conversation()
    for case in cases.values():
        talk.load(case.path)
        talk.ask(case.request)
    for answer, case in zip(talk.run(program), cases.values(), strict=True):
        check_answers(answer, case.expected)


def requests_of_mixed_lengths(inputs):
    generator = np.random.default_rng(8)
    requests = []
    for _ in range(50):
        rows, steps = generator.integers(1, [4, 17])
        feeds = malformed.regular(inputs, generator, rows, steps)
        for name, value in feeds.items():
            if value.dtype == bool:
                feeds[name] = generator.random(value.shape) < 0.7
        requests.append({k: tf.constant(v) for k, v in feeds.items()})
    return requests


def test_threads_get_the_answers_of_one(cases):
    case = cases["ExpectedSubsample-reinforce"]
    serve = export_tools.load(case.path)
    requests = requests_of_mixed_lengths(case.inputs)
    expected = [
        {k: v.numpy() for k, v in serve(**feeds).items()} for feeds in requests
    ]
    wrong, answered = [], []

    def work(thread):
        for i in np.random.default_rng(thread).integers(50, size=REQUESTS):
            answer = serve(**requests[i])
            for key, value in expected[i].items():
                if not np.array_equal(answer[key], value):
                    wrong.append((thread, i, key))
            answered.append(i)

    threads = [threading.Thread(target=work, args=[n]) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(answered) == THREADS * REQUESTS


def malformed_requests(cases):
    """As many for each model, and of each kind, as for the others."""
    generator = np.random.default_rng(9)
    names = list(cases)
    for i in range(MALFORMED):
        name = names[i % len(names)]
        kind = malformed.KINDS[i // len(names) % len(malformed.KINDS)]
        inputs = cases[name].inputs
        yield name, kind, malformed.malformed(inputs, kind, generator)


def test_malformed_requests_do_not_end_a_session(cases, program):
    """Here no Python stands between a request and the graph."""
    requests = list(malformed_requests(cases))
    talk = export_tools.Conversation()
    asked = []
    for name, case in cases.items():
        mine = [request for request in requests if request[0] == name]
        talk.load(case.path)
        for _, _, feeds in mine:
            talk.ask(feeds)
        talk.ask(case.request)
        asked += [*mine, case]
    verdicts = collections.Counter()
    for request, answer in zip(asked, talk.run(program), strict=True):
        if isinstance(request, Case):
            check_answers(answer, request.expected)
        else:
            verdicts[request[1], isinstance(answer, dict)] += 1
    assert verdicts.total() == MALFORMED
    assert {answered for _, answered in verdicts} == {True, False}
    for kind in ("rank", "dtype", "missing"):
        assert verdicts[kind, False] and not verdicts[kind, True]
