"""The pooling study on a small made-up data set."""

import json
import re

import keras
import numpy as np
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.pooling import classifiers  # noqa: E402
from examples.pooling import compare  # noqa: E402
from examples.pooling import experiments  # noqa: E402
from examples.pooling import noise_sentences  # noqa: E402
from examples.pooling import noisy_texts  # noqa: E402
from tests.examples.pooling.small_study import BAD  # noqa: E402
from tests.examples.pooling.small_study import GOOD  # noqa: E402
from tests.examples.pooling.small_study import OTHER  # noqa: E402
from tests.examples.pooling.small_study import SMALL  # noqa: E402
from tests.examples.pooling.small_study import read  # noqa: E402
from tests.examples.pooling.small_study import run_small  # noqa: E402
from tests.examples.pooling.small_study import write  # noqa: E402
from tests.examples.pooling.small_study import write_imdb  # noqa: E402

pytestmark = pytest.mark.long

PLACES = ("left", "mid", "right")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    return root


@pytest.fixture(scope="module")
def corpus(folder):
    return noisy_texts.load("imdb", folder, min_words=4)


def arguments(folder, output, *more):
    return [
        *("--data-dir", str(folder), "--output", str(output)),
        *("--sizes", "20", "--settings", "mid", "--seeds", "0"),
        *("--epochs", "2", "--share", "0.5", *SMALL, *more),
    ]


def strings(data, ids):
    names = ["", "?", *data.words]
    return [names[i] for i in ids]


def is_noise(word):
    return word.startswith(("noise", "word"))


def test_texts_are_long_enough_and_subsets_always_the_same(folder, corpus):
    assert [len(part.ids) for part in corpus[2:5]] == [60, 20, 24]
    kept = [
        noisy_texts.load("imdb", folder, None, 7, validation_size, 5)
        for validation_size in (8, 8, None)
    ]
    for part in ("validation", "test"):
        first, second = (getattr(corpus, part) for corpus in kept[:2])
        for a, b in zip(first.ids, second.ids, strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(kept[0].test.ids) == 5
    # Validation texts that are left over may be trained on.
    totals = [len(c.train.ids) + len(c.validation.ids) for c in kept]
    assert len(kept[0].validation.ids) == 8 and len(set(totals)) == 1
    assert min(len(text) for text in kept[0].train.ids) == 8


@pytest.mark.parametrize("setting", PLACES)
def test_noise_has_its_share_and_the_text_its_place(corpus, setting):
    data = noisy_texts.prepare(corpus, setting, 60, 0, 20, share=0.75)
    assert len(data.train.ids) == 60
    for ids in data.train.ids:
        words = strings(data, ids)
        noise = [is_noise(word) for word in words]
        # Texts have 6 to 14 words, of which 20 / 4 stay.
        assert len(words) == 20 and sum(noise) == 15
        start = {"left": 0, "mid": 7, "right": 15}[setting]
        assert not any(noise[start : start + 5])
        assert set(words[start : start + 5]) <= {*GOOD, *BAD, *OTHER}
    for ids in (*data.validation.ids, *data.test.ids):
        assert len(ids) == 20


def test_the_share_of_the_paper_fills_the_length_exactly(corpus):
    text = np.zeros(500, dtype="int32")
    (ids,) = noisy_texts.arrange([text], [[1, 1, 1]], "mid", 400, 0.66, 0)
    assert len(ids) == 400 and (ids == 1).sum() == 264
    (ids,) = noisy_texts.arrange([text], [[1]], "standard", 400, 0.66, 0)
    assert len(ids) == 400 and not ids.any()


@pytest.mark.parametrize("place", ["left", "mid", "right"])
def test_short_texts_are_those_in_the_noise(corpus, place):
    short, noisy = (
        noisy_texts.arrange(
            corpus.test.ids, [[10**6]], setting, 20, 0.66, seed=0
        )
        for setting in ("short", place)
    )
    assert max(len(ids) for ids in short) == 6
    for own, ids in zip(short, noisy, strict=True):
        np.testing.assert_array_equal(own, ids[ids < 10**6])


def test_parts_share_no_noise(corpus):
    seen = {
        part: {tuple(sentence) for sentence in corpus.noise[part]}
        for part in noise_sentences.PARTS
    }
    sizes = [len(corpus.noise[part]) for part in noise_sentences.PARTS]
    assert sizes == [30, 10, 10]
    assert len(set().union(*seen.values())) == 50
    # What stands around test texts was never seen in training.
    data = noisy_texts.prepare(corpus, "mid", 60, 0, 20, 0.5)
    noise = [word for word in data.words if is_noise(word)]
    trained = {corpus.words[i] for s in corpus.noise["train"] for i in s}
    assert noise and set(noise) <= trained
    for ids in data.test.ids:
        words = strings(data, ids)
        kept = sum(word != "?" for word in words)
        assert kept == len(words) / 2


def test_the_seed_draws_nested_training_texts(corpus):
    def prepare(size, seed):
        data = noisy_texts.prepare(corpus, "standard", size, seed)
        return data, [" ".join(strings(data, ids)) for ids in data.train.ids]

    large, texts = prepare(30, seed=1)
    small, fewer = prepare(10, seed=1)
    assert texts[:10] == fewer
    assert prepare(30, seed=2)[1] != texts
    np.testing.assert_array_equal(small.train.labels, large.train.labels[:10])
    for words, ids in ((small.words, small.train.ids),):
        counts = np.bincount(np.concatenate(ids))
        assert len(counts) == len(words) + 2
        assert (counts[2:] > 0).all() and (np.diff(counts[2:]) <= 0).all()
        assert not counts[:2].any()


def test_rare_words_are_unknown(corpus, monkeypatch):
    monkeypatch.setattr(noisy_texts, "MAX_WORDS", 3)
    data = noisy_texts.prepare(corpus, "standard", 60, 0)
    assert len(data.words) == 3
    assert set(np.concatenate(data.train.ids)) == {1, 2, 3, 4}


def test_validation_and_test_texts_are_those_of_all_seeds(corpus, monkeypatch):
    # Ids depend on the seed: noise is told by the numbers of a corpus.
    monkeypatch.setattr(noisy_texts, "encode", lambda _, texts, words: texts)
    first, second = (
        noisy_texts.prepare(corpus, "right", 60, seed, 20, 0.5)
        for seed in (0, 3)
    )
    for part in ("validation", "test"):
        texts, others = (getattr(data, part) for data in (first, second))
        for a, b in zip(texts.ids, others.ids, strict=True):
            np.testing.assert_array_equal(a, b)
        assert texts.labels is others.labels is getattr(corpus, part).labels
    # What stands first is noise, of training texts another one.
    starts = [[ids[0] for ids in data.train.ids] for data in (first, second)]
    assert starts[0] != starts[1]
    assert all(is_noise(corpus.words[i]) for i in sum(starts, []))


def test_batches_hold_each_text_once(corpus):
    texts = noisy_texts.Texts(
        [np.full(n, n, dtype="int32") for n in range(1, 101)],
        np.arange(1, 101, dtype="int32"),
    )

    def epoch(dataset):
        return [(ids, labels) for ids, labels in dataset.as_numpy_iterator()]

    shuffled = noisy_texts.batches(texts, 3, np.random.default_rng(0))
    assert shuffled.cardinality() == 34
    first, second = epoch(shuffled), epoch(shuffled)
    again = epoch(noisy_texts.batches(texts, 3, np.random.default_rng(0)))
    orders = [
        [label for _, labels in batches for label in labels]
        for batches in (first, second, again)
    ]
    assert orders[0] == orders[2] != orders[1]
    for batches, order in zip((first, second), orders):
        assert sorted(order) == list(range(1, 101)) and len(batches) == 34
        for ids, labels in batches:
            assert ids.shape[1] % noisy_texts.STEP == 0
            assert ids.shape[1] - max(labels) < noisy_texts.STEP
            for row, length in zip(ids, labels):
                assert (row[:length] == length).all()
                assert not row[length:].any()
    by_length = epoch(noisy_texts.batches(texts, 3))
    assert [n for _, labels in by_length for n in labels] == sorted(orders[0])


@pytest.mark.parametrize("name", classifiers.BILSTMS)
def test_models_ignore_padding(name):
    matrix = np.random.default_rng(0).normal(size=(9, 5)).astype("float32")
    model = classifiers.bilstm_classifier(name, matrix, 3, 4)
    ids = np.array([[5, 8, 1, 2], [3, 2, 0, 0]])
    padded = np.pad(ids, ((0, 0), (0, 3)))
    expected = model(ids).numpy()
    np.testing.assert_allclose(model(padded), expected, atol=1e-6)
    assert expected.shape == (2, 3) and np.ptp(expected, axis=0).all()
    bias = model.get_layer("rnn").forward_layer.cell.bias.numpy()
    assert bias[4:8].tolist() == [float(name != "bilstm_lowf")] * 4
    np.testing.assert_array_equal(
        model.get_layer("embedding").weights[0], matrix
    )


def test_runs_are_kept_resumed_and_shown(folder, tmp_path, monkeypatch, capsys):
    run_small(monkeypatch)
    output, markdown = tmp_path / "new" / "r.csv", tmp_path / "t" / "t.md"
    options = arguments(folder, output, "--models", "bilstm", "maxatt")
    options += ["--markdown", str(markdown)]
    options += ["--save-models", str(tmp_path / "models")]
    run = compare.train_and_test

    def killed(name, *args):
        if name == "maxatt":
            raise KeyboardInterrupt
        return run(name, *args)

    monkeypatch.setattr(compare, "train_and_test", killed)
    with pytest.raises(KeyboardInterrupt):
        compare.main(options)
    assert [row["model"] for row in read(output)] == ["bilstm"]
    first_row = read(output)[0]
    assert not markdown.exists()

    capsys.readouterr()
    monkeypatch.setattr(compare, "train_and_test", run)
    shown = compare.main(options)
    rows = read(output)
    assert rows[0] == first_row
    assert [row["model"] for row in rows] == ["bilstm", "maxatt"]
    assert markdown.read_text(encoding="utf8") == shown
    lines = [
        line for line in capsys.readouterr().out.split("\n") if "[" in line
    ]
    assert [line.split(" ")[:4] for line in lines[:3]] == [
        ["[1/1]", "imdb-20-mid-maxatt-0", "epoch", "1/2"],
        ["[1/1]", "imdb-20-mid-maxatt-0", "epoch", "2/2"],
        ["[1/1]", "imdb-20-mid-maxatt-0", *lines[2].split(" ")[2:4]],
    ]
    assert "val_accuracy" in lines[0]

    # The model that was saved is the one that was tested.
    path = tmp_path / "models" / "imdb-20-mid-maxatt-0"
    model = keras.models.load_model(f"{path}.keras")
    corpus = noisy_texts.load("imdb", folder, min_words=4)
    data = noisy_texts.prepare(corpus, "mid", 20, 0, 20, 0.5)
    assert json.loads(path.with_suffix(".json").read_text()) == {
        "words": data.words
    }
    accuracy = 100 * classifiers.accuracy(model, data.test)
    assert float(rows[1]["test_accuracy"]) == pytest.approx(accuracy, abs=0.01)

    # 20 texts of 10 tokens of noise; 30 sentences of noise of 3 words.
    assert "cut to 10 tokens of the 20 " in shown
    assert "noise of 30 sentences" in shown
    assert ": 2.2 with 20 texts." in shown

    # All is done: nothing is trained, no text is read.
    monkeypatch.setattr(compare, "train_and_test", None)
    monkeypatch.setattr(noisy_texts, "load", None)
    assert compare.main(options) == shown
    with pytest.raises(ValueError, match="units=4 .* Received: 'units=5 "):
        compare.main([*options, "--units", "5"])
    assert read(output) == rows


def test_the_order_of_runs(folder, tmp_path, monkeypatch):
    """A study that is not finished has all models of some seeds."""
    seen = []

    def run(name, seed, data, args, line, curve):
        seen.append((seed, len(data.train.ids), name))
        row = dict.fromkeys(compare.FIELDS, 50)
        return {k: row[k] for k in row if k not in experiments.KEY}, None

    monkeypatch.setattr(compare, "train_and_test", run)
    options = arguments(folder, tmp_path / "r.csv", "--models", "bilstm", "att")
    options += ["--sizes", "10", "20", "--seeds", "2", "1"]
    compare.main(options)
    assert seen == [
        (seed, size, name)
        for seed in (2, 1)
        for size in (10, 20)
        for name in ("bilstm", "att")
    ]


class Answer(keras.callbacks.Callback):
    """Makes a model answer one class in each epoch."""

    def __init__(self, answers):
        super().__init__()
        self.answers = answers

    def on_epoch_begin(self, epoch, logs=None):
        kernel, bias = self.model.get_layer("classifier").weights
        kernel.assign(np.zeros(kernel.shape))
        bias.assign(9 * np.eye(2)[self.answers[epoch]])


def test_the_best_epoch_on_the_validation_part_stays(monkeypatch):
    run_small(monkeypatch)
    ids = [np.array([2, 3], dtype="int32")] * 4
    labels = np.array([[1, 1, 1, 1], [0, 0, 0, 1], [1, 1, 0, 1]])
    parts = [noisy_texts.Texts(ids, own) for own in labels.astype("int32")]
    data = noisy_texts.StudyData(("x", "y"), ["a", "b"], *parts)
    matrix = np.zeros((4, 3), dtype="float32")
    model = classifiers.bilstm_classifier("meanpool", matrix, 2, 1)
    classifiers.compile_classifier(model, learning_rate=0.0)
    answers = Answer([1, 0, 1])
    history = classifiers.fit(model, data, 0, 9, 4, 1, [answers])
    assert history["val_accuracy"] == [0.25, 0.75, 0.25]
    assert history["accuracy"] == [1, 0, 1]
    assert experiments.summary(history)["best_epoch"] == 2
    assert classifiers.accuracy(model, data.test) == 0.25
    assert classifiers.accuracy(model, data.train) == 0


def test_it_learns_words_in_the_middle(folder, tmp_path):
    options = arguments(folder, tmp_path / "r.csv", "--models", "maxpool")
    options += ["--epochs", "8", "--learning-rate", "0.03", "--units", "8"]
    options += ["--sizes", "60", "--max-length", "28", "--vanishing-every", "4"]
    compare.main(options)
    (row,) = read(tmp_path / "r.csv")
    assert float(row["test_accuracy"]) >= 90
    assert 1 <= int(row["best_epoch"]) <= int(row["epochs"]) == 8
    assert float(row["vanishing_ratio"]) > 0
    curve = read(tmp_path / "r-imdb-60-mid-maxpool-0.csv")
    # 60 texts in batches of 8: epochs end at steps 8, 16, and so on.
    assert [int(point["step"]) for point in curve] == list(range(0, 65, 4))
    best = next(
        p for p in curve if int(p["step"]) == 8 * int(row["best_epoch"])
    )
    for column, name in (("val", "validation"), ("", "train")):
        column = f"{column}_accuracy".strip("_")
        values = [point[column] for point in curve]
        assert all(values[2::2]) and not any([values[0], *values[1::2]])
        expected = float(row[f"{name}_accuracy"])
        assert 100 * float(best[column]) == pytest.approx(expected, abs=0.01)


def test_what_is_kept_of_a_history():
    history = {
        "accuracy": [0.5, 0.94, 0.96, 0.99],
        "val_accuracy": [0.5, 0.8, 0.7, 0.8],
    }
    assert experiments.summary(history) == {
        "best_epoch": 2,
        "epochs": 4,
        "train_accuracy": 94,
        "validation_accuracy": 80,
    }
    assert compare.fitted_ratio(history) == ""
    history["vanishing_ratio"] = [1, 2, 0.00031234, 4]
    assert compare.fitted_ratio(history) == "0.000312"
    history["accuracy"] = [0.5, 0.6, 0.7, 0.8]
    assert compare.fitted_ratio(history) == ""


def row(setting, size, model, accuracy, ratio=""):
    return {
        "setting": setting,
        "size": str(size),
        "model": model,
        "test_accuracy": str(accuracy),
        "vanishing_ratio": ratio,
    }


def test_table():
    rows = [
        row("mid", 1000, "maxatt", 80),
        row("standard", 10000, "bilstm", 86.04),
        row("mid", 1000, "maxatt", 82),
        row("standard", 300, "bilstm", 61),
    ]

    def paper(*key):
        return compare.paper_accuracy("imdb", *key)

    assert experiments.table(rows, compare.MODELS, paper) == (
        "| test accuracy % | standard 300 | paper | standard 10,000 | paper "
        "| mid 1,000 | paper |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| bilstm | 61.0 (1) |  | 86.0 (1) | 86.6 ± 0.8 |  | 49.6 ± 0.7 |\n"
        "| maxatt |  |  |  | 88.5 ± 0.5 | 81.0 ± 1.4 (2) | 75.4 ± 2.4 |"
    )
    assert compare.paper_accuracy("ag", "mid", 1000, "att") == ""
    assert compare.paper_accuracy("imdb", "mid", 1000, "other") == ""
    assert compare.paper_accuracy("imdb", "short", 1000, "att") == ""


def test_vanishing_table():
    rows = [
        row("standard", 1000, "bilstm", 60, "0.0001"),
        row("standard", 1000, "bilstm", 60, "0.01"),
        row("standard", 1000, "bilstm", 60),
        row("mid", 1000, "att", 60, "0.5"),
        row("mid", 5000, "att", 60),
    ]
    assert compare.vanishing_table("imdb", rows, compare.MODELS) == (
        "| vanishing ratio | standard 1,000 | paper | mid 1,000 | paper |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| bilstm | 0.001 (2) | 0.0003 |  |  |\n"
        "| att |  | 0.58 | 0.5 (1) |  |"
    )
    rows = [row("mid", 5000, "att", 60)]
    assert compare.vanishing_table("imdb", rows, ["att"]) == ""


def test_the_papers_numbers_are_complete():
    assert list(compare.PAPER) == ["standard", "left", "mid", "right"]
    assert noisy_texts.SETTINGS == ("standard", "short", *PLACES)
    for numbers in compare.PAPER.values():
        assert list(numbers) == list(compare.MODELS)
        for text in numbers.values():
            values = [part.split("±") for part in text.split()]
            assert len(values) == len(compare.PAPER_SIZES)
            assert all(45 < float(mean) < 91 for mean, _ in values)


SETTINGS = (
    "units=256 learning_rate=0.002 batch_size=32 epochs=12 patience=4 "
    "min_words=100 max_length=400 share=0.66 validation_size=500 "
    "test_size=2000 embedding_size=100 vectors=none noise=wiki"
)


def test_files_of_older_versions_are_read(tmp_path, monkeypatch, capsys):
    """Also by settings without noise, which need no data."""
    output = tmp_path / "r.csv"
    output.write_text(
        "dataset,size,setting,model,seed,settings,best_epoch,epochs,"
        "train_accuracy,validation_accuracy,test_accuracy,vanishing_ratio,"
        "parameters,seconds\n"
        f"imdb,1000,standard,bilstm,0,{SETTINGS},9,12,100,68,66.45,2e-4,9,1\n"
        f"imdb,1000,short,bilstm,0,{SETTINGS},9,12,100,68,64.5,,9,1\n"
    )
    monkeypatch.setattr(noisy_texts, "load", None)
    options = ["--data-dir", str(tmp_path), "--output", str(output)]
    options += ["--sizes", "1000", "--settings", "standard", "short"]
    options += ["--models", "bilstm", "--seeds", "0", "--epochs", "12"]
    options += ["--patience", "4", "--validation-size", "500"]
    shown = compare.main([*options, "--test-size", "2000"])
    assert "| bilstm | 66.5 (1) | 64.7 ± 2.3 | 64.5 (1) |  |" in shown
    assert "noise of" not in shown
    assert "finished runs" not in capsys.readouterr().out
    compare.main([*options, "--test-size", "2000", "--vanishing"])
    assert "1 of 2 finished runs have no" in capsys.readouterr().out


def test_noise_of_a_file(folder, tmp_path):
    path = tmp_path / "noise.txt"
    path.write_text("x1 x1\n\nx2 x2\nx3 x3\n")
    corpus = noisy_texts.load("imdb", folder, path, 4)
    found = {corpus.words[i] for s in corpus.noise.values() for i in s[0]}
    assert found == {"x1", "x2", "x3"}
    path.write_text("x1\nx1\nx2\n")
    with pytest.raises(ValueError, match="at least 3 .* Received: 2"):
        noisy_texts.load("imdb", folder, path, 4)
    (tmp_path / "wiki").mkdir()
    write(tmp_path / "wiki" / "sentences.jsonl.gz", [{"text": "a"}, {"b": 1}])
    with pytest.raises(ValueError, match="jsonl.gz, line 2: .*Received"):
        noise_sentences.read(tmp_path, None)
    with pytest.raises(FileNotFoundError, match="sentences.jsonl.gz"):
        noise_sentences.read(tmp_path / "none", None)


@pytest.mark.parametrize(
    "option, message",
    [
        ("--epochs=0", "at least 1"),
        ("--sizes=1.5", "at least 1"),
        ("--settings=middle", "middle"),
        ("--models=lstm", "lstm"),
        ("--vanishing-every=-1", "at least 0"),
        ("--share=1", r"--share: must be in \(0, 1\). Received: 1.0"),
        ("--share=0", "--share: must be in"),
    ],
)
def test_bad_options(capsys, option, message):
    with pytest.raises(SystemExit):
        compare.parse(["--data-dir", "data", option])
    error = capsys.readouterr().err
    assert option.split("=")[0] in error and re.search(message, error)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--sizes", "61"], "at most 60, .* Received: size=61"),
        (["--test-size", "25"], "from 1 to 24, .* Received: test_size=25"),
        (["--min-words", "99"], "Received: validation_size=0"),
    ],
)
def test_more_than_there_is(folder, tmp_path, options, message):
    output = tmp_path / "r.csv"
    with pytest.raises(ValueError, match=message):
        compare.main([*arguments(folder, output), *options])
    assert not output.exists()
