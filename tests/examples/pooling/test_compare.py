"""The comparison of poolings on a small made-up data set."""

import json
import re

import keras
import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")

from examples.pooling import classifiers  # noqa: E402
from examples.pooling import compare  # noqa: E402
from examples.pooling import experiments  # noqa: E402
from examples.pooling import noisy_texts  # noqa: E402
from examples.pooling import thesis  # noqa: E402
from tests.examples.csv_files import read  # noqa: E402
from tests.examples.pooling.small_study import SMALL  # noqa: E402
from tests.examples.pooling.small_study import run_small  # noqa: E402
from tests.examples.pooling.small_study import write_imdb  # noqa: E402

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    write_imdb(root)
    return root


def arguments(folder, output, *more):
    return [
        *("--data-dir", str(folder), "--output", str(output)),
        *("--sizes", "20", "--settings", "mid", "--seeds", "0"),
        *("--epochs", "2", "--share", "0.5", *SMALL, *more),
    ]


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
    starts = [
        f"[2/2] imdb, 20, mid, maxatt, seed 0 epoch {i}/2 " for i in (1, 2)
    ]
    starts.append("[2/2] imdb, 20, mid, maxatt, seed 0 {'best_epoch': ")
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start)
    assert "val_accuracy" in lines[0]

    # The model that was saved is the one that was tested.
    (path,) = (tmp_path / "models").glob("imdb-20-mid-maxatt-0-*.keras")
    model = keras.models.load_model(path)
    corpus = noisy_texts.load("imdb", folder, min_words=4)
    data = noisy_texts.prepare(corpus, "mid", 20, 0, 20, 0.5)
    described = json.loads(path.with_suffix(".json").read_text())
    assert described["words"] == data.words
    assert described["settings"] == rows[1]["settings"]
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
    assert read(output) == rows


def train_nothing(name, seed, data, args, line, curve):
    """Stands in for the training: what a run is, but its accuracy, is 50."""
    row = dict.fromkeys(set(compare.FIELDS) - set(compare.KEY), 50)
    return {**row, "test_accuracy": args.units, "vanishing_ratio": ""}, None


def test_runs_of_other_settings_are_others(folder, tmp_path, monkeypatch):
    """They have rows of their own in the file, and are not shown."""
    monkeypatch.setattr(compare, "train_and_test", train_nothing)
    output = tmp_path / "r.csv"
    options = arguments(folder, output, "--models", "bilstm")
    first = compare.main([*options, "--units", "70"])
    second = compare.main([*options, "--units", "80"])
    assert "| bilstm | 70.0 (1) |" in first
    assert "| bilstm | 80.0 (1) |" in second
    assert [row["test_accuracy"] for row in read(output)] == ["70", "80"]
    monkeypatch.setattr(noisy_texts, "load", None)
    assert compare.main([*options, "--units", "70"]) == first
    # Other runs of the same settings are shown, be they asked for or not.
    more = [*options, "--units", "80", "--models", "att"]
    monkeypatch.undo()
    monkeypatch.setattr(compare, "train_and_test", train_nothing)
    assert "| bilstm | 80.0 (1) |" in compare.main(more)


def test_models_of_other_settings_are_others():
    key = dict.fromkeys(experiments.KEY, "x") | {"settings": "units=7"}
    stem = experiments.stem_of(key)
    assert stem.startswith("x-x-x-x-x-")
    assert stem == experiments.stem_of(dict(key))
    assert stem != experiments.stem_of(key | {"settings": "units=8"})


def test_texts_are_made_once_for_runs_in_a_row(folder, tmp_path, monkeypatch):
    events = []

    def note(function):
        def noted(*args):
            events.append(function.__name__)
            return function(*args)

        monkeypatch.setattr(noisy_texts, function.__name__, noted)

    note(noisy_texts.load)
    note(noisy_texts.prepare)
    monkeypatch.setattr(compare, "train_and_test", train_nothing)
    options = arguments(folder, tmp_path / "r.csv", "--sizes", "8", "9")
    compare.main([*options, "--models", "bilstm", "att"])
    assert events == ["load", "prepare", "prepare"]


def test_a_run_has_its_key(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "train_and_test", train_nothing)
    options = arguments(folder, tmp_path / "r.csv", "--models", "bilstm", "att")
    compare.main(options)
    keys = compare.keys(compare.parse(options))
    rows = read(tmp_path / "r.csv")
    assert [tuple(row[name] for name in compare.KEY) for row in rows] == keys


def test_the_forget_bias_is_a_setting(folder, tmp_path, monkeypatch):
    """It reaches the model; files from before there was one are read."""
    run_small(monkeypatch)
    found, build = [], classifiers.bilstm_classifier

    def keep(*args):
        found.append(build(*args))
        return found[-1]

    monkeypatch.setattr(classifiers, "bilstm_classifier", keep)
    options = ["--models", "bilstm", "--epochs", "1"]
    for bias, more in ((1, []), (-9, ["--forget-bias", "-9"])):
        output = tmp_path / f"{bias}.csv"
        compare.main(arguments(folder, output, *options, *more))
        (row,) = read(output)
        named = f" forget_bias={bias:.1f} " in row["settings"]
        assert named == (bias != 1)
        assert ("forget_bias" in row["settings"]) == named
        cell = found[-1].get_layer("rnn").forward_layer.cell
        assert cell.bias.numpy()[cell.units] == pytest.approx(bias, abs=0.5)


def test_the_order_of_runs(folder, tmp_path, monkeypatch):
    """A study that is not finished has all models of some seeds."""
    seen = []

    def run(name, seed, data, args, line, curve):
        seen.append((seed, len(data.train.ids), name))
        row = dict.fromkeys(compare.FIELDS, 50)
        return {k: row[k] for k in row if k not in compare.KEY}, None

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


def test_it_learns_words_in_the_middle(folder, tmp_path):
    options = arguments(folder, tmp_path / "r.csv", "--models", "maxpool")
    options += ["--epochs", "8", "--learning-rate", "0.03", "--units", "8"]
    options += ["--sizes", "60", "--max-length", "28", "--vanishing-every", "4"]
    compare.main(options)
    (row,) = read(tmp_path / "r.csv")
    assert float(row["test_accuracy"]) >= 90
    assert 1 <= int(row["best_epoch"]) <= int(row["epochs"]) == 8
    assert float(row["vanishing_ratio"]) > 0
    (path,) = tmp_path.glob("r-imdb-60-mid-maxpool-0-*.csv")
    curve = read(path)
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
        return thesis.pooling_accuracy("imdb", *key)

    assert experiments.table(rows, thesis.MODELS, paper) == (
        "| test accuracy % | standard 300 | paper | standard 10,000 | paper "
        "| mid 1,000 | paper |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| bilstm | 61.0 (1) |  | 86.0 (1) | 86.6 ± 0.8 |  | 49.6 ± 0.7 |\n"
        "| maxatt |  |  |  | 88.5 ± 0.5 | 81.0 ± 1.4 (2) | 75.4 ± 2.4 |"
    )


def test_vanishing_table():
    rows = [
        row("standard", 1000, "bilstm", 60, "0.0001"),
        row("standard", 1000, "bilstm", 60, "0.01"),
        row("standard", 1000, "bilstm", 60),
        row("mid", 1000, "att", 60, "0.5"),
        row("mid", 5000, "att", 60),
    ]
    assert compare.vanishing_table("imdb", rows, thesis.MODELS) == (
        "| vanishing ratio | standard 1,000 | paper | mid 1,000 | paper |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| bilstm | 0.001 (2) | 0.0003 |  |  |\n"
        "| att |  | 0.58 | 0.5 (1) |  |"
    )
    rows = [row("mid", 5000, "att", 60)]
    assert compare.vanishing_table("imdb", rows, ["att"]) == ""


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


@pytest.mark.parametrize(
    "option, message",
    [
        ("--epochs=0", "at least 1"),
        ("--sizes=1.5", "at least 1"),
        ("--settings=middle", "middle"),
        ("--models=lstm", "lstm"),
        ("--vanishing-every=-1", "at least 0"),
        ("--share=1", r"must be a number in \(0, 1\). Received: '1'"),
        ("--share=0", "must be a number in"),
        ("--learning-rate=nan", "must be a number in"),
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
