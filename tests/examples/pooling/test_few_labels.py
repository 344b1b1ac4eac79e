"""The study of few labels on a small made-up data set."""

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
pytest.importorskip("sklearn", reason="needs keras_seqmech[examples]")

from examples.common import datasets  # noqa: E402
from examples.pooling import classifiers  # noqa: E402
from examples.pooling import contextual_vectors  # noqa: E402
from examples.pooling import few_labels  # noqa: E402
from examples.pooling import few_texts  # noqa: E402
from examples.pooling import thesis  # noqa: E402
from examples.pooling import vector_files  # noqa: E402
from tests.examples.csv_files import read  # noqa: E402
from tests.examples.pooling.small_study import BAD  # noqa: E402
from tests.examples.pooling.small_study import GOOD  # noqa: E402
from tests.examples.pooling.small_study import run_small  # noqa: E402
from tests.examples.pooling.small_study import write_imdb  # noqa: E402

pytestmark = pytest.mark.long

SIZES = "--per-class 3 --validation-size 8 --test-size 9".split()


def encode(texts):
    """Vectors that tell good words from bad ones."""
    return [
        np.array([[w in GOOD, w in BAD, 1] for w in text.split()], "float16")
        for text in texts
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    args = contextual_vectors.parse(
        ["--data-dir", str(root), *SIZES, "--seeds", "0", "1"]
    )
    parts = contextual_vectors.wanted(datasets.load("imdb", root), args)
    contextual_vectors.encode_all(parts, encode, "made up", root / "c.npz")
    (root / "glove").mkdir()
    words = np.array([*GOOD, "film"])
    vectors = np.arange(8, dtype="float32").reshape(4, 2) + 1
    np.savez(root / "glove" / "g.npz", words=words, vectors=vectors)
    return root


def arguments(folder, *more):
    return [
        *("--data-dir", str(folder), "--contextual", str(folder / "c.npz")),
        *(*SIZES, "--seeds", "0", "--units", "2", "--epochs", "1", *more),
    ]


def loaded(folder, inputs, seed=0, *more):
    args = few_labels.parse(arguments(folder, *more))
    return few_labels.load(inputs, seed, args)


def test_both_inputs_are_of_the_same_texts(folder):
    glove, contextual = (
        loaded(folder, x, 1, "--max-length", "6") for x in few_labels.INPUTS
    )
    data = datasets.load("imdb", folder)
    train = few_texts.draw(data.train, 3, 1)
    parts = (train, *few_texts.held_out(data, 8, 9))
    table = {"good": [1, 2], "fine": [3, 4], "lovely": [5, 6], "film": [7, 8]}
    for part, words, vectors in zip(parts, glove, contextual):
        assert words.labels.tolist() == part.labels.tolist()
        assert vectors.labels.tolist() == part.labels.tolist()
        for text, row, other in zip(part.texts, words.rows, vectors.rows):
            known = [table.get(word, [0, 0]) for word in text.split()[:6]]
            np.testing.assert_array_equal(row, known)
            np.testing.assert_array_equal(other, encode([text])[0][:6])
    other = loaded(folder, "glove", 0).train.rows
    assert [len(row) for row in other] != [len(row) for row in glove.train.rows]


def test_files_of_other_texts_are_refused(folder):
    with pytest.raises(ValueError, match="c.npz: .* train texts"):
        loaded(folder, "contextual", 7)
    with pytest.raises(ValueError, match="c.npz: .* test texts"):
        loaded(folder, "contextual", 0, "--test-size", "10")
    args = few_labels.parse(arguments(folder))
    args.vectors = None
    with pytest.raises(ValueError, match="--vectors: must be given"):
        few_labels.load("glove", 0, args)
    with pytest.raises(FileNotFoundError, match="contextual_vectors"):
        loaded(folder, "contextual", 0, "--contextual", "none.npz")


def test_batches_are_padded_and_say_so():
    rows = [np.full((n, 2), n, "float16") for n in (3, 1, 2)]
    texts = vector_files.TokenVectors(rows, np.array([1, 0, 1], "int32"))
    found = list(few_labels.batches(texts, 2).as_numpy_iterator())
    (inputs, labels), (longest, label) = found
    assert labels.tolist() == [0, 1] and label.tolist() == [1]
    assert inputs["mask"].tolist() == [[True, False], [True, True]]
    ends = inputs["vectors"][:, 1].tolist()
    assert ends == [[0, 0], [2, 2]] and longest["mask"].all()
    assert inputs["vectors"].dtype == "float32"
    random = np.random.default_rng(0)
    shuffled = few_labels.batches(texts, 1, random)
    orders = {
        tuple(
            len(inputs["mask"][0]) for inputs, _ in shuffled.as_numpy_iterator()
        )
        for _ in range(9)
    }
    assert len(orders) > 2


@pytest.mark.parametrize("name", thesis.MODELS)
def test_models_ignore_padding(name):
    model = classifiers.vector_classifier(name, 5, 3, 4, forget_bias=2.0)
    random = np.random.default_rng(0)
    vectors = random.normal(size=(2, 4, 5)).astype("float32")
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    expected = model({"vectors": vectors, "mask": mask}).numpy()
    other = vectors.copy()
    other[1, 2:] = 9
    found = model({"vectors": other, "mask": mask}).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    alone = {"vectors": vectors[1:, :2], "mask": mask[1:, :2]}
    np.testing.assert_allclose(model(alone)[0], expected[1], atol=1e-6)
    rnn = model.get_layer("rnn")
    for lstm in (rnn.forward_layer, rnn.backward_layer):
        assert lstm.cell.bias.numpy().tolist() == [0] * 4 + [2] * 4 + [0] * 8
    kinds = {type(layer).__name__ for layer in model.layers}
    assert "Embedding" not in kinds


def test_read_outs_are_those_over_words():
    """Over the vectors of words, a model is the one that embeds them."""
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    for name in thesis.MODELS:
        words = classifiers.bilstm_classifier(name, matrix, 3, 4)
        given = classifiers.vector_classifier(name, 5, 3, 4)
        given.set_weights(words.get_weights()[1:])
        inputs = {"vectors": matrix[ids], "mask": ids != 0}
        np.testing.assert_allclose(given(inputs), words(ids), atol=1e-6)


def test_the_last_epoch_is_tested_too(folder, monkeypatch):
    """The best of the validation part, and the last, which nobody chose."""
    run_small(monkeypatch)
    args = few_labels.parse(
        arguments(folder, "--epochs", "3", "--learning-rate", "0.001")
    )
    data = few_labels.load("contextual", 0, args)

    class Answer(keras.callbacks.Callback):
        """Makes a model answer 1, then 0, then 1 again."""

        def on_train_batch_end(self, batch, logs=None):
            classifier = self.model.get_layer("classifier")
            classifier.kernel.assign(0 * classifier.kernel)
            classifier.bias.assign(self.bias)

        def on_epoch_begin(self, epoch, logs=None):
            self.bias = [[0.0, 9.0], [9.0, 0.0], [0.0, 9.0]][epoch]

    labels = np.zeros(8, "int32")
    data = data._replace(validation=data.validation._replace(labels=labels))
    monkeypatch.setattr(few_labels, "EpochLine", lambda line: Answer())
    row = few_labels.train_and_test("meanpool", 0, data, args, "")
    ones = 100 * data.test.labels.mean()
    assert 0 < ones < 100 and ones != 50
    assert (row["best_epoch"], row["epochs"]) == (2, 3)
    assert row["test_accuracy"] == pytest.approx(100 - ones, abs=0.01)
    assert row["last_accuracy"] == pytest.approx(ones, abs=0.01)


def test_logistic_regression_learns_the_words(folder):
    row = few_labels.fit_logistic(loaded(folder, "contextual"))
    assert row["train_accuracy"] == row["test_accuracy"] == 100
    assert row["parameters"] == 4
    data = loaded(folder, "contextual")
    wrong = data.test._replace(labels=1 - data.test.labels)
    row = few_labels.fit_logistic(data._replace(test=wrong))
    assert row["test_accuracy"] == row["last_accuracy"] == 0
    assert row["validation_accuracy"] == 100


def test_validation_texts_choose_the_regularisation():
    """With much of it, all texts get the label that is the most frequent."""
    kinds = np.eye(2, dtype="float16")[:, np.newaxis]
    labels = np.array([0, 1], "int32")
    plain = vector_files.TokenVectors(list(kinds), labels)
    train = vector_files.TokenVectors(
        [*kinds, kinds[0], kinds[0]], np.array([0, 1, 0, 0], "int32")
    )
    row = few_labels.fit_logistic(few_labels.FewData(train, plain, plain))
    assert row["test_accuracy"] == row["validation_accuracy"] == 100
    zeros = plain._replace(labels=0 * labels)
    other = few_labels.fit_logistic(few_labels.FewData(train, zeros, plain))
    assert other["test_accuracy"] == 50
    assert other["last_accuracy"] == row["last_accuracy"]


def test_runs_are_done_once(folder, tmp_path, capsys, monkeypatch):
    run_small(monkeypatch)
    output, markdown = tmp_path / "r.csv", tmp_path / "t.md"
    options = arguments(folder, "--output", str(output))
    few_labels.main([*options, "--models", "maxatt", "--inputs", "glove"])
    assert (
        "[1/1] imdb, 3, glove, maxatt, seed 0 epoch 1/1"
        in capsys.readouterr().out
    )
    options += ["--markdown", str(markdown)]
    shown = few_labels.main([*options, "--models", "maxatt", "logistic"])
    assert (
        "[4/4] imdb, 3, contextual, logistic, seed 0 "
        in capsys.readouterr().out
    )
    rows = read(output)
    found = [(row["inputs"], row["model"]) for row in rows]
    assert found == [
        ("glove", "maxatt"),
        ("glove", "logistic"),
        ("contextual", "maxatt"),
        ("contextual", "logistic"),
    ]
    assert all(row["test_accuracy"] and row["seconds"] for row in rows)
    assert markdown.read_text(encoding="utf8") == shown
    monkeypatch.setattr(few_labels, "load", None)
    assert few_labels.main([*options, "--models", "maxatt"]) == shown
    wanted = few_labels.keys(few_labels.parse(options))
    found = [tuple(row[name] for name in few_labels.KEY) for row in rows]
    assert sorted(key for key in wanted if key in found) == sorted(found)


def test_runs_of_other_settings_are_others(folder, tmp_path, monkeypatch):
    """Each pair of inputs and seed is read once, and tables do not mix."""
    read_inputs, load = [], few_labels.load

    def noted(inputs, seed, args):
        read_inputs.append((inputs, seed))
        return load(inputs, seed, args)

    def train(name, seed, data, args, line):
        return {"test_accuracy": args.units}

    monkeypatch.setattr(few_labels, "load", noted)
    monkeypatch.setattr(few_labels, "train_and_test", train)
    output = tmp_path / "r.csv"
    options = arguments(folder, "--output", str(output), "--models", "att")
    options += ["maxatt", "--seeds", "0", "1"]
    first = few_labels.main([*options, "--units", "3"])
    assert read_inputs == [
        (inputs, seed) for seed in (0, 1) for inputs in ("glove", "contextual")
    ]
    second = few_labels.main([*options, "--units", "4"])
    assert "| att | 3.0 ± 0.0 (2) | 3.0 ± 0.0 (2) |" in first
    assert "| att | 4.0 ± 0.0 (2) | 4.0 ± 0.0 (2) |" in second
    assert len(read(output)) == 16


def test_table():
    args = few_labels.parse(["--data-dir", "data"])
    row = {"dataset": "imdb", "per_class": "10", "model": "maxatt"}
    rows = [
        {**row, "inputs": inputs, "test_accuracy": value}
        for inputs, value in (("contextual", "70"), ("glove", "60"))
    ]
    rows += [{**rows[0], "test_accuracy": "71"}, {**rows[0], "per_class": "5"}]
    lines = few_labels.table(rows, args).split("\n")
    assert lines[0] == "| test accuracy % | glove | contextual | paper |"
    assert lines[2] == "| maxatt | 60.0 (1) | 70.5 ± 0.7 (2) | 75.6 |"
    assert lines[4] == "| BERT, fine-tuned |  |  | 67.5 |"
    assert len(lines) == 8
    args.per_class = 5
    lines = few_labels.table(rows, args).split("\n")
    assert lines[2:] == ["| maxatt | 70.0 (1) |  |"]


def test_vectors_of_a_data_set_are_read_where_they_are_written():
    for dataset in ("imdb", "mr"):
        options = ["--data-dir", "data", "--dataset", dataset]
        path = f"runs/contextual/{dataset}.npz"
        assert contextual_vectors.parse(options).output == path
        assert few_labels.parse(options).contextual == path


@pytest.mark.parametrize(
    "option",
    ["--models=lstm", "--inputs=bert", "--per-class=0", "--learning-rate=nan"],
)
def test_bad_options(capsys, option):
    with pytest.raises(SystemExit):
        few_labels.parse(["--data-dir", "data", option])
    name, value = option.split("=")
    error = capsys.readouterr().err
    assert name in error and value in error
