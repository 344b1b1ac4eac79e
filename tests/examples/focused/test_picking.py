"""The picking study, of tiny models: runs, resuming, longer tests, tables."""

import collections
import csv
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from examples.focused import indecision as focused_layers
from examples.focused import models as focused_models
from examples.focused import picking
from examples.focused import progress as focused_progress
from examples.focused import runs as focused_runs

pytestmark = pytest.mark.long

SMALL = [
    *("--batch-size", "16"),
    *("--units", "8"),
    *("--length", "6"),
    *("--steps", "4"),
    *("--evaluate-every", "2"),
    *("--test-size", "40"),
]


def read(path):
    with open(path, newline="", encoding="utf8") as file:
        return list(csv.DictReader(file))


def small(output, *more):
    return [*SMALL, *map(str, ["--output", output, *more])]


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
        assert 0 <= float(row["accuracy"]) <= float(row["best_accuracy"]) <= 100
        assert float(row["train_ms"]) > 0 and float(row["inference_ms"]) > 0
        if row["model"] == "fhe":
            assert 0 <= float(row["openness"]) <= 100
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
    for row in lengths:
        assert 0 <= float(row["clear_accuracy"]) <= 100
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

    monkeypatch.setattr(focused_runs, "run", refuse)
    monkeypatch.setattr(keras.models, "load_model", refuse)
    assert picking.main(options) == content
    assert (read(output), read(output.with_name("p-lengths.csv"))) == before
    monkeypatch.undo()
    monkeypatch.setattr(focused_runs, "run", refuse)
    picking.main([*options, "--models", "fhe", "--test-lengths", "11"])
    lengths = read(output.with_name("p-lengths.csv"))
    assert [row["test_length"] for row in lengths] == ["9"] * 2 + ["11"]


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
        assert [point["step"] for point in curve] == ["2", "4"]
    assert not list(folder.glob("*.json")) + list(folder.glob("*.h5"))


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
    assert float(gate.entropy_weight) == 0
    assert float(gate.sparsity_weight) == pytest.approx(1000 / 6)
    # Halfway to the epoch in which it is whole.
    charged = model.get_layer("indecision").indecision_weight
    assert float(charged) == pytest.approx(0.33 / 2**4)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_undecided_gates_cost(dtype):
    """A mean over steps and rows, and a gradient to the probabilities."""
    layer = focused_layers.IndecisionPenalty(dtype=dtype)
    states = np.ones((2, 2, 3))
    probabilities = tf.constant([[0.9, 0.5], [0.2, 1.0]], dtype)
    costs = {True: 3 * (0.36 + 1 + 0.64 + 0) / 4, False: 0}
    for training, cost in costs.items():
        layer(states, probabilities, training=training)
        layer.indecision_weight.assign(3)
        with tf.GradientTape() as tape:
            tape.watch(probabilities)
            found = layer(states, probabilities, training=training)
            total = tf.add_n([tf.zeros(()), *layer.losses])
        np.testing.assert_array_equal(found, states)
        assert float(total) == pytest.approx(cost, rel=1e-2)
        gradient = tape.gradient(total, probabilities)
        if training:
            slopes = 3 * (1 - 2 * probabilities.numpy())
            np.testing.assert_allclose(gradient, slopes, atol=1e-2)


def test_models_learn_in_mixed_precision():
    args = picking.parse(small("unused"))
    examples = picking.picking.examples(16, 6)
    keras.config.set_dtype_policy("mixed_float16")
    model = picking.build("fhe", "relaxed", args)
    focused_models.compile_model(model, 0.01, clip_norm=1.0, steps=2)
    model.get_layer("indecision").indecision_weight.assign(3)
    history = model.fit(*examples, batch_size=16, verbose=0).history
    assert np.isfinite(history["loss"]).all()


def test_what_undecided_gates_cost_is_of_their_probabilities():
    args = picking.parse(small("unused"))
    asked, _ = picking.picking.examples(16, 6)
    model = picking.build("fhe", "straight_through", args)
    gate = model.get_layer("encoder").gate
    for weight in (gate.sparsity_weight, gate.entropy_weight):
        weight.assign(0)
    model.get_layer("indecision").indecision_weight.assign(1)
    # Drawn gates are decided and would cost nothing.
    model(asked, training=True)
    assert float(sum(model.losses)) > 0.9


def test_weights_by_epoch():
    """Entropy's falls to 0 and sparsity's rises by then, indecision's later."""
    options = ["--steps", 80, "--evaluate-every", 4, "--ramp-share", 0.4]
    options += ["--sparsity-weight", 12, "--indecision-weight", 0.5]
    args = picking.parse(small("unused", *options))
    model = picking.build("fhe", "reinforce", args)
    found = {
        callback.target: [callback.value(epoch) for epoch in (0, 4, 8, 16)]
        for callback in focused_progress.gate_callbacks(model, args)
        if isinstance(callback, keras_seqmech.Curriculum)
    }
    assert found == {
        "entropy_weight": pytest.approx([1 / 6, 0.75 / 6, 0, 0]),
        "sparsity_weight": pytest.approx([0, 0.5, 2, 2]),
        "indecision_weight": pytest.approx([0, 0.5 / 256, 0.5 / 16, 0.5]),
    }
    watching = focused_progress.gate_callbacks(model, args)[0]
    assert isinstance(watching, keras_seqmech.WarnOnGateCollapse)


def test_temperature_moves_where_gates_are_soft():
    options = ["--temperature", "2", "--final-temperature", "0.25"]
    args = picking.parse(small("unused", *options))
    moves = {
        "reinforce": [],
        "straight_through": [],
        "relaxed": [2, 0.5**0.5, 0.25],
    }
    for estimator, moved in moves.items():
        callbacks = focused_progress.gate_callbacks(
            picking.build("fhe", estimator, args), args
        )
        found = [
            callback.value(step)
            for callback in callbacks
            if isinstance(callback, keras_seqmech.TemperatureAnnealing)
            for step in (0, args.steps // 2, args.steps)
        ]
        assert found == pytest.approx(moved)


def test_a_run_that_was_killed_goes_on(tmp_path, monkeypatch):
    output = tmp_path / "k.csv"
    options = small(output, "--models", "lstm1", "--steps", 8)
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

    restore = focused_progress.Progress.restore
    monkeypatch.setattr(focused_progress.Progress, "restore", resumed)
    monkeypatch.setattr(focused_progress.focused_models, "measure", measure)
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


def test_minutes_end_a_run(tmp_path):
    for minutes, is_over in (("2", False), ("1", True)):
        args = picking.parse(small("unused", "--minutes", minutes))
        progress = focused_progress.Progress(None, args, tmp_path, "")
        progress.state.update(step=2, seconds=60.0)
        assert progress.is_over() == is_over


def test_all_gates_open_are_two_lstms_and_none_reads_nothing():
    args = picking.parse(small("unused"))
    asked, _ = picking.picking.examples(40, 6)
    focused, plain = (
        picking.build(name, estimator, args)
        for name, estimator in (("fhe", "reinforce"), ("lstm2", ""))
    )
    focused = focused.network
    encoder = focused.get_layer("encoder")
    for name in ("lower", "upper"):
        weights = plain.get_layer(name).get_weights()
        getattr(encoder, name).set_weights(weights)
    for name in ("question", "digits", "query", "logits"):
        focused.get_layer(name).set_weights(plain.get_layer(name).get_weights())
    encoder.gate.output_bias.assign(1e6)
    logits = focused.predict(asked, verbose=0)
    np.testing.assert_allclose(
        logits, plain.predict(asked, verbose=0), atol=1e-5
    )
    other = {**asked, "tokens": 9 - asked["tokens"]}
    assert np.abs(logits - focused.predict(other, verbose=0)).max() > 1e-3
    encoder.gate.output_bias.assign(-1e6)
    np.testing.assert_array_equal(
        focused.predict(asked, verbose=0), focused.predict(other, verbose=0)
    )


def test_what_is_learned():
    """With k = 1 the first digit is the answer, gates or not."""
    costless = ["--sparsity-weight", 0, "--entropy-weight", 0]
    options = small("unused", "--max-k", 1, *costless)
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
    for estimator in ("reinforce", "relaxed"):
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


def test_gates_as_drawn():
    args = picking.parse(small("unused", "--initial-openness", 0.75))
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


def test_clear_accuracy(study):
    """That of the others and of these, by their share, is that of all."""
    _, output, _ = study
    (path,) = output.with_name("p-models").glob("*lstm1*.keras")
    model = focused_models.probe(keras.models.load_model(path))
    asked, answers = picking.picking.examples(64, 6)
    clear = picking.is_clear(asked)
    rows = zip(asked["tokens"], asked["k"], strict=True)
    counted = [collections.Counter(row[:k].tolist()) for row, k in rows]
    ranked = [[*sorted(c.values(), reverse=True), 0] for c in counted]
    assert clear.tolist() == [first > second for first, second, *_ in ranked]
    parts = {"clear": clear, "tied": ~clear}
    found = focused_models.measure(model, asked, answers, 64, parts)
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
