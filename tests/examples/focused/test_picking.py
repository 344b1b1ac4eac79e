"""The picking study, of tiny models: runs, resuming, longer tests, tables."""

import collections
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.common import locks
from examples.common import results
from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import pick
from examples.focused import experiments
from examples.focused import models
from examples.focused import picking
from examples.focused import progress
from tests.examples.csv_files import read
from tests.examples.focused.small_models import small

pytestmark = [
    pytest.mark.long,
    # A few steps decide nothing.
    pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Options, output and table of a study with and without gates."""
    output = tmp_path_factory.mktemp("study") / "p.csv"
    options = small(
        output,
        *("--test-lengths", 9),
        *("--openness-target", 0.3, "--sparsity-weight", 1000),
        *("--entropy-weight", 1000, "--ramp-share", 0.5),
        *("--models", "lstm1", "fhe"),
        *("--estimators", "reinforce", "--indecision-weight", 0.33),
    )
    return options, output, picking.main(options)


def test_rows_and_tables(study):
    _, output, content = study
    rows = read(output)
    kinds = [(row["model"], row["estimator"]) for row in rows]
    assert kinds == [("lstm1", ""), ("fhe", "reinforce")]
    for row in rows:
        assert row["task"] == "picking-6" and row["steps"] == "4"
        assert float(row["train_ms"]) > 0 and float(row["inference_ms"]) > 0
        if row["model"] == "fhe":
            assert 0 < float(row["drawn_openness"]) < 100
            assert 0 < float(row["drawn_accuracy"]) < 100
            assert float(row["gate_variance_start"]) > 0
            assert float(row["gate_variance_end"]) > 0
            assert row["openness_target"] == "0.3"
            assert "sparsity_weight=1000" in row["settings"]
        else:
            assert row["gate_variance_start"] == ""
            assert row["openness"] == "nan" and row["openness_target"] == ""
            assert "sparsity_weight" not in row["settings"]
    lengths = read(output.with_name("p-lengths.csv"))
    assert [row["test_length"] for row in lengths] == ["9"] * 2
    first, longer = content.split("\n\n")[:2]
    assert len(first.split("\n")) == len(longer.split("\n")) == 2 + 2
    assert "| fhe, reinforce, target 0.3 |" in first
    assert f"| lstm1 | {float(rows[0]['accuracy']):.1f} |" in first
    accuracy = float(lengths[0]["accuracy"])
    assert f" {accuracy:.1f} |" in longer.split("\n")[2]


def test_nothing_is_done_twice(study, monkeypatch):
    options, output, content = study
    before = read(output), read(output.with_name("p-lengths.csv"))

    def refuse(*args, **kwargs):
        raise AssertionError("trains or loads")

    monkeypatch.setattr(experiments, "train_and_test", refuse)
    monkeypatch.setattr(keras.models, "load_model", refuse)
    assert picking.main(options) == content
    assert (read(output), read(output.with_name("p-lengths.csv"))) == before
    monkeypatch.undo()
    monkeypatch.setattr(experiments, "train_and_test", refuse)
    picking.main([*options, "--models", "fhe", "--test-lengths", "11"])
    lengths = read(output.with_name("p-lengths.csv"))
    assert [row["test_length"] for row in lengths] == ["9"] * 2 + ["11"]


def test_exports_answer_as_the_saved_model(study, tmp_path):
    options, output, _ = study
    picking.main([*options, "--export-dir", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    row = next(row for row in read(output) if row["model"] == "fhe")
    key = [row[field] for field in experiments.KEY]
    path = output.with_name("p-models") / f"{experiments.stem(key)}.keras"
    probed = models.probe(keras.models.load_model(path), focus=True)
    asked = {"tokens": np.array([[3, 1, 4, 1]] * 2), "k": np.array([1, 4])}
    wanted = probed.predict(asked, verbose=0)
    exported = EXPLORABLES["picking"].served_from(tmp_path)
    found = exported.ask(
        **{name: tf.constant(value, "int32") for name, value in asked.items()}
    )
    assert found.values.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found.values[name], values, atol=1e-5)
    answers = wanted["logits"].argmax(axis=-1)
    says = pick(exported, "3141", "1 4").says
    assert says == f"k = 1: {answers[0]}; k = 4: {answers[1]}"


def test_saved_models_give_the_accuracies(study):
    _, output, _ = study
    test = picking.picking.examples(40, 6, 6, picking.TEST_SEED)
    folder = output.with_name("p-models")
    for row in read(output):
        key = [row[field] for field in experiments.KEY]
        path = folder / f"{experiments.stem(key)}.keras"
        model = keras.models.load_model(path)
        guesses = model.predict(test[0], verbose=0).argmax(axis=-1)
        accuracy = 100 * (guesses == test[1]).mean()
        assert accuracy == pytest.approx(float(row["accuracy"]), abs=0.01)
        curve = read(path.with_suffix(".csv"))
        assert [point["step"] for point in curve] == ["2", "4"]
        best = max(float(point["accuracy"]) for point in curve)
        assert 100 * best == pytest.approx(
            float(row["best_accuracy"]), abs=0.01
        )
        if row["model"] == "fhe":
            gates = models.probe(model).predict(test[0], verbose=0)["gates"]
            openness = pytest.approx(float(row["openness"]), abs=0.01)
            assert 100 * gates.mean() == openness
        check_longer(model, row, read(output.with_name("p-lengths.csv")))
    assert not list(folder.glob("*.json")) + list(folder.glob("*.h5"))


def check_longer(model, row, lengths):
    """What is said of a model on longer sequences is what it answers there."""
    (longer,) = [
        r
        for r in lengths
        if r["settings"] == row["settings"] and r["test_length"] == "9"
    ]
    asked, answers = picking.picking.examples(40, 9, 6, picking.TEST_SEED)
    right = model.predict(asked, verbose=0).argmax(axis=-1) == answers
    clear = picking.is_clear(asked)
    assert clear.any() and not clear.all()
    for name, share in (
        ("accuracy", right.mean()),
        ("clear_accuracy", right[clear].mean()),
    ):
        assert 100 * share == pytest.approx(float(longer[name]), abs=0.01)


def test_weights_of_the_gates_move(study):
    """What open gates cost, and what undecided ones earn, is in the loss."""
    _, output, _ = study
    (path,) = output.with_name("p-models").glob("*-fhe-*.csv")
    losses = [float(point["loss"]) for point in read(path)]
    # The bonus is up to 693, in the first epoch alone. The cost, 1/6 a gate
    # above 1.8 of 6, is there in the second alone.
    assert losses[0] < -100
    assert losses[1] > 10
    model = keras.models.load_model(path.with_suffix(".keras")).network
    gate = model.get_layer("encoder").gate
    assert float(gate.costs.entropy_weight) == 0
    assert float(gate.sparsity_weight) == pytest.approx(1000 / 6)
    # Halfway to the epoch in which it is whole.
    charged = gate.costs.indecision_weight
    assert float(charged) == pytest.approx(0.33 / 2**4)


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    output = tmp_path / "k.csv"
    options = small(output, "--models", "lstm1", "--steps", 8)
    measure, seen, starts = models.measure, [], []

    def killed(probed, *test):
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(keras.tree.map_structure(np.array, probed.get_weights()))
        return measure(probed, *test)

    monkeypatch.setattr(models, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        picking.main(options)
    assert not output.exists()
    (state,) = (tmp_path / "k-models").glob("*.json")
    kept = json.loads(state.read_text())
    assert kept["step"] == 4 and len(kept["curve"]) == 2

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

    restore = progress.Progress.restore
    monkeypatch.setattr(progress.Progress, "restore", resumed)
    monkeypatch.setattr(models, "measure", measure)
    picking.main(options)
    (start,) = starts
    assert start[:2] == (4, 4)
    trained = {array.tobytes() for array in seen[1] if array.size > 10}
    assert trained <= {array.tobytes() for array in start[2]}
    (row,) = read(output)
    assert row["steps"] == "8"
    (path,) = (tmp_path / "k-models").glob("*.csv")
    curve = read(path)
    assert [int(point["step"]) for point in curve] == [2, 4, 6, 8]
    for point, old in zip(curve, kept["curve"]):
        assert float(point["loss"]) == old["loss"]
    assert len(list(path.parent.iterdir())) == 2


def test_a_killed_run_draws_the_gates_of_one_that_was_not(
    tmp_path, monkeypatch
):
    """Killed after an epoch, then after training: the same weights."""
    found = []
    for name, parts in (("whole", ()), ("killed", ("_save", "write_curve"))):
        options = small(
            tmp_path / f"{name}.csv", "--models", "fhe", "--estimators"
        )
        options += ["relaxed", "--steps", "8"]
        for part in parts:
            owner = progress.Progress if part == "_save" else experiments
            done = getattr(owner, part)

            def killed(*args, done=done):
                done(*args)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(owner, part, killed)
                with pytest.raises(KeyboardInterrupt):
                    picking.main(options)
        picking.main(options)
        folder = tmp_path / f"{name}-models"
        assert len(list(folder.iterdir())) == 2
        (path,) = folder.glob("*.keras")
        found.append(keras.models.load_model(path).get_weights())
    for weights, expected in zip(*found, strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)


def test_runs_of_other_processes_are_left_to_them(tmp_path):
    """What another process is doing has no model yet that could be tested."""
    output = tmp_path / "p.csv"
    args = picking.parse(small(output, "--models", "lstm1"))
    wanted = picking.keys(args)
    file = results.ResultsFile(output, experiments.FIELDS, experiments.KEY)
    (claim,) = map(file.claim_of, wanted)

    def after(key, path):
        pytest.fail("has no model")

    with locks.claimed(claim):
        assert experiments.do_runs(args, wanted, None, after) == []


def test_a_limit_of_time_is_a_setting():
    """Runs without one keep the settings that they had."""

    def settings(*options):
        args = picking.parse(["--models", "lstm1", "fhe", *options])
        return [key[-1] for key in picking.keys(args)]

    for plain, cut in zip(settings(), settings("--minutes", "3"), strict=True):
        assert "minutes" not in plain
        assert cut.replace(" minutes=3.0", "") == plain != cut


def test_what_is_learned():
    """With k = 1 the first digit is the answer, gates or not."""
    costless = ["--sparsity-weight", 0, "--entropy-weight", 0]
    options = small("unused", "--max-k", 1, *costless)
    args = picking.parse([*options, "--length", "3"])
    data = picking.picking.dataset(3, 64, max_k=1)
    test = picking.picking.examples(100, 3, max_k=1, seed=9)
    model = picking.build("fhe", "reinforce", args)
    models.compile_model(model, 0.03, 1.0, steps=200)
    model.fit(data, steps_per_epoch=150, shuffle=False, verbose=0)
    probed = models.probe(model)
    measured = models.measure(probed, *test, batch_size=100)
    assert measured["accuracy"] > 0.6


def test_clear_accuracy(study):
    """That of the others and of these, by their share, is that of all."""
    _, output, _ = study
    (path,) = output.with_name("p-models").glob("*lstm1*.keras")
    model = models.probe(keras.models.load_model(path))
    asked, answers = picking.picking.examples(64, 6)
    clear = picking.is_clear(asked)
    rows = zip(asked["tokens"], asked["k"], strict=True)
    counted = [collections.Counter(row[:k].tolist()) for row, k in rows]
    ranked = [[*sorted(c.values(), reverse=True), 0] for c in counted]
    assert clear.tolist() == [first > second for first, second, *_ in ranked]
    parts = {"clear": clear, "tied": ~clear}
    found = models.measure(model, asked, answers, 64, parts)
    both = clear.mean() * found["clear_accuracy"]
    both += (1 - clear.mean()) * found["tied_accuracy"]
    assert both == pytest.approx(found["accuracy"])
    assert found["clear_accuracy"] != found["tied_accuracy"]


def test_near_numbers_are_near_vectors():
    table = picking.waves(51, 32)
    assert table.shape == (51, 32) and picking.waves(3, 7).shape == (3, 7)
    likeness = table @ table.T
    np.testing.assert_allclose(likeness.diagonal(), 16)
    for k in (1, 20, 49):
        found = np.argsort(-likeness[k])
        assert found[0] == k and set(found[1:3]) == {k - 1, k + 1}


def test_growing_length():
    growing = ["--steps", "1000", "--growing-share", "0.1"]
    args = picking.parse(["--length", "50", "--start-length", "10", *growing])
    lengths = [picking.growing_length(n, args) for n in (0, 50, 99, 100, 200)]
    assert lengths == [10, 20, 40, 50, 50]
    args = picking.parse(["--length", "5", *growing])
    assert {picking.growing_length(n, args) for n in range(0, 200, 20)} == {5}


@pytest.mark.parametrize(
    "options, message",
    [
        (["--length", "5", "--max-k", "6"], "--max-k: must be at most"),
        (["--length", "9", "--test-lengths", "8"], "--max-k: must be at most"),
        (["--steps", "15", "--evaluate-every", "10"], "--steps: .* multiple"),
        (["--ramp-share", "0.6"], r"--ramp-share: must be .* \(0, 0.5\]"),
        (["--growing-share", "1"], r"--growing-share: must be .* \[0, 1\)"),
        (["--minutes", "0"], r"--minutes: must be .* \(0, inf\)"),
        (["--openness-target", "x"], "--openness-target: must be a number"),
        (["--clip-norm", "nan"], "--clip-norm: must be a number"),
        (["--estimators", "best"], "--estimators"),
    ],
)
def test_bad_options(options, message, capsys):
    with pytest.raises(SystemExit):
        picking.parse(options)
    assert re.search(message, capsys.readouterr().err)
