"""The picking study, of tiny models: runs, resuming, longer tests, tables."""

import csv
import json
import re

import keras
import numpy as np
import pytest

from examples import focused_models
from examples import focused_progress
from examples import focused_runs
from examples import picking

SMALL = [
    *("--batch-size", "16"),
    *("--units", "8"),
    *("--length", "6"),
    *("--steps", "20"),
    *("--evaluate-every", "10"),
    *("--test-size", "40"),
]


def read(path):
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def small(output, *more):
    options = ["--settle-share", 0, "--growing-share", 0, "--output", output]
    return [*SMALL, *map(str, [*options, *more])]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Options, output and table of a study of soft and hard gates."""
    output = tmp_path_factory.mktemp("study") / "p.csv"
    options = small(
        output,
        *("--test-lengths", 9, 14),
        *("--openness-target", 0.3, "--sparsity-weight", 0.5),
        *("--models", "lstm1", "fhe"),
        *("--estimators", "reinforce", "straight_through"),
    )
    return options, output, picking.main(options)


def test_rows_and_tables(study):
    _, output, content = study
    rows = read(output)
    kinds = [(row["model"], row["estimator"]) for row in rows]
    fhe = [("fhe", "reinforce"), ("fhe", "straight_through")]
    assert kinds == [("lstm1", ""), *fhe]
    for row in rows:
        assert row["task"] == "picking-6" and row["steps"] == "20"
        assert 0 <= float(row["accuracy"]) <= float(row["best_accuracy"]) <= 100
        assert float(row["train_ms"]) > 0 and float(row["inference_ms"]) > 0
        if row["model"] == "fhe":
            assert 0 <= float(row["openness"]) <= 100
            assert 0 < float(row["drawn_openness"]) < 100
            assert 0 < float(row["drawn_accuracy"]) < 100
            assert float(row["gate_variance_start"]) > 0
            assert float(row["gate_variance_end"]) > 0
            assert row["openness_target"] == "0.3"
            assert "sparsity_weight=0.5" in row["settings"]
        else:
            assert row["gate_variance_start"] == ""
            assert row["openness"] == "nan" and row["openness_target"] == ""
            assert "sparsity_weight" not in row["settings"]
    lengths = read(output.with_name("p-lengths.csv"))
    assert [row["test_length"] for row in lengths] == ["9", "14"] * 3
    first, longer = content.split("\n\n")[:2]
    assert len(first.split("\n")) == len(longer.split("\n")) == 2 + 3
    assert "| fhe, straight_through, target 0.3 |" in first
    assert f"| lstm1 | {float(rows[0]['accuracy']):.1f} |" in first
    accuracy = float(lengths[1]["accuracy"])
    assert f" {accuracy:.1f} |" in longer.split("\n")[2]


def test_nothing_is_done_twice(study, monkeypatch):
    options, output, content = study
    before = read(output), read(output.with_name("p-lengths.csv"))

    def refuse(*args, **kwargs):
        raise AssertionError("trains or loads")

    monkeypatch.setattr(focused_runs, "run", refuse)
    monkeypatch.setattr(keras.models, "load_model", refuse)
    assert picking.main(options) == content
    assert (read(output), read(output.with_name("p-lengths.csv"))) == before
    monkeypatch.undo()
    monkeypatch.setattr(focused_runs, "run", refuse)
    picking.main([*options, "--models", "fhe", "--test-lengths", "11"])
    lengths = read(output.with_name("p-lengths.csv"))
    assert [row["test_length"] for row in lengths] == ["9", "14"] * 3 + [
        "11"
    ] * 2


def test_saved_models_give_the_accuracies(study):
    _, output, _ = study
    test = picking.picking.examples(40, 6, 6, picking.TEST_SEED)
    folder = output.with_name("p-models")
    for row in read(output):
        key = [row[field] for field in focused_runs.KEY]
        path = folder / f"{focused_runs.stem(key)}.keras"
        model = keras.models.load_model(path)
        guesses = model.predict(test[0], verbose=0).argmax(axis=-1)
        accuracy = 100 * (guesses == test[1]).mean()
        assert accuracy == pytest.approx(float(row["accuracy"]), abs=0.01)
        curve = read(path.with_suffix(".csv"))
        assert [point["step"] for point in curve] == ["10", "20"]
    assert not list(folder.glob("*.json")) + list(folder.glob("*.h5"))


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    output = tmp_path / "k.csv"
    options = small(output, "--models", "fhe", "--steps", 40)
    measure, seen, starts = focused_models.measure, [], []

    def killed(probed, *test):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(keras.tree.map_structure(np.array, probed.get_weights()))
        return measure(probed, *test)

    monkeypatch.setattr(focused_progress.focused_models, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        picking.main(options)
    assert not output.exists()
    (state,) = (tmp_path / "k-models").glob("*.json")
    kept = json.loads(state.read_text())
    assert kept["step"] == 20 and len(kept["curve"]) == 2

    def resumed(self, model):
        state = restore(self, model)
        starts.append(
            (
                state["step"],
                int(model.optimizer.iterations),
                model.get_weights(),
            )
        )
        return state

    restore = focused_progress.Progress.restore
    monkeypatch.setattr(focused_progress.Progress, "restore", resumed)
    monkeypatch.setattr(focused_progress.focused_models, "measure", measure)
    picking.main(options)
    (start,) = starts
    assert start[:2] == (20, 20)
    trained = {array.tobytes() for array in seen[1] if array.size > 10}
    assert trained <= {array.tobytes() for array in start[2]}
    (row,) = read(output)
    assert row["steps"] == "40"
    (path,) = (tmp_path / "k-models").glob("*.csv")
    curve = read(path)
    assert [int(point["step"]) for point in curve] == [10, 20, 30, 40]
    for point, old in zip(curve, kept["curve"]):
        assert float(point["loss"]) == old["loss"]
    assert len(list(path.parent.iterdir())) == 2


def test_minutes_end_a_run(tmp_path):
    output = tmp_path / "m.csv"
    options = small(output, "--models", "lstm1", "--minutes", 1e-6)
    picking.main(options)
    (row,) = read(output)
    assert row["steps"] == "10"


def test_what_is_learned():
    """With k = 1 the first digit is the answer; gates see to it."""
    options = small("unused", "--max-k", 1, "--learning-rate", 0.03)
    args = picking.parse([*options, "--length", "3"])
    data = picking.picking.dataset(3, 64, max_k=1)
    test = picking.picking.examples(100, 3, max_k=1, seed=9)
    model = picking.build("fhe", "reinforce", args)
    focused_models.compile_model(model, 0.03, 1.0, steps=200)
    model.fit(data, steps_per_epoch=150, shuffle=False, verbose=0)
    probed = focused_models.probe(model)
    measured = focused_models.measure(probed, *test, batch_size=100)
    assert measured["accuracy"] > 0.6


def test_gradient_variance_is_that_of_the_draws():
    args = picking.parse(small("unused"))
    asked, answers = picking.picking.examples(32, 6)
    found = {}
    for estimator in focused_models.ESTIMATORS:
        keras.utils.set_random_seed(0)
        model = picking.build("fhe", estimator, args)
        focused_models.compile_model(model, 0.01, clip_norm=1.0, steps=9)
        before = model.get_weights()
        gradient = focused_models.GateGradient(model)
        found[estimator] = gradient.variance(asked, answers, draws=8)
        for a, b in zip(before, model.get_weights()):
            np.testing.assert_array_equal(a, b)
    # The reward of one draw tells little of one gate.
    assert found["reinforce"] > 10 * found["relaxed"] > 0
    lstm = picking.build("lstm1", "", args)
    gradient = focused_models.GateGradient(lstm)
    assert gradient.variance(asked, answers, draws=8) == ""


def test_the_entropy_bonus_ends(tmp_path):
    output = tmp_path / "s.csv"
    options = ["--models", "fhe", "--entropy-weight", 1000, "--steps", 30]
    picking.main(small(output, *options, "--settle-share", 0.4))
    (path,) = (tmp_path / "s-models").glob("*.csv")
    losses = [float(point["loss"]) for point in read(path)]
    # A gate that is undecided is worth up to 693.
    assert losses[0] < -100 and losses[1] > 0 and losses[2] > 0
    (row,) = read(output)
    assert "settle_share=0.4" in row["settings"]


def test_gates_as_drawn():
    args = picking.parse(small("unused"))
    test = picking.picking.examples(200, 6)
    model = picking.build("fhe", "reinforce", args)
    probed, drawn = focused_models.probe(model), focused_models.probe(model)
    for _ in range(2):
        found = focused_models.measure_drawn(model, drawn, *test, 100)
        # Six standard deviations, and what the weights do at first.
        assert found["drawn_openness"] == pytest.approx(0.75, abs=0.15)
        assert 0 < found["drawn_accuracy"] < 1
        measured = focused_models.measure(probed, *test, 100)
        assert measured["openness"] > 0.97
    lstm = picking.build("lstm1", "", args)
    probed = focused_models.probe(lstm)
    assert focused_models.measure_drawn(lstm, probed, *test, 100) == {}


def test_growing_length():
    growing = ["--steps", "1000", "--growing-share", "0.1"]
    args = picking.parse(["--length", "50", "--start-length", "10", *growing])
    lengths = [picking.growing_length(n, args) for n in (0, 50, 99, 100, 200)]
    assert lengths == [10, 30, 49, 50, 50]
    args = picking.parse(["--length", "5", *growing])
    assert {picking.growing_length(n, args) for n in range(0, 200, 20)} == {5}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--length", "5", "--max-k", "6"], "--max-k: must be at most"),
        (["--length", "9", "--test-lengths", "8"], "--max-k: must be at most"),
        (["--steps", "15", "--evaluate-every", "10"], "--steps: .* multiple"),
        (["--growing-share", "2"], "--growing-share: must be from 0 to 1"),
        (["--minutes", "0"], "--minutes: must be above 0"),
        (["--estimators", "best"], "--estimators"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit):
        picking.parse(options)
    assert re.search(message, capsys.readouterr().err)
