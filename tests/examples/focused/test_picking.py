"""The picking study, of tiny models: runs, resuming, longer tests, export."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_seqmech
from examples.common.networks import network_of
from examples.explorer.questions import EXPLORABLES
from examples.explorer.questions import pick
from examples.focused import experiments
from examples.focused import models
from examples.focused import picking
from keras_seqmech import DecisionPenalties
from tests.examples.files import read
from tests.examples.focused.small_models import small

pytestmark = [
    pytest.mark.long,
    # A few steps decide nothing.
    pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Options, output and tables of a study with and without gates."""
    output = tmp_path_factory.mktemp("study") / "p.csv"
    options = small(
        output,
        *("--test-lengths", 9, "--models", "lstm1", "fhe"),
        *("--openness-target", 0.3, "--estimators", "reinforce"),
    )
    return options, output, picking.main(options)


def trained(output, row):
    key = [row[name] for name in experiments.KEY]
    path = experiments.model_path(picking.parse(small(output)), key)
    return keras.models.load_model(path)


@pytest.mark.slow
def test_saved_models_give_what_rows_and_tables_say(study):
    _, output, content = study
    rows, tested = read(output), read(output.with_name("p-lengths.csv"))
    own, longer = (
        [row for row in tested if row["test_length"] == x] for x in "69"
    )
    assert [x["accuracy"] for x in own] == [x["accuracy"] for x in rows]
    assert [(row["model"], row["estimator"]) for row in rows] == [
        ("lstm1", ""),
        ("fhe", "reinforce"),
    ]
    first, second = content.strip().split("\n\n")
    assert f"| lstm1 |  |  | {float(rows[0]['accuracy']):.4g} |" in first
    assert "| fhe | reinforce | 0.3 | 9 |" in second
    for row, long in zip(rows, longer, strict=True):
        assert row["task"] == "picking-6" and row["steps"] == "4"
        assert float(row["train_ms"]) > 0 and float(row["inference_ms"]) > 0
        model = trained(output, row)
        asked, answers = picking.picking.examples(40, 6, 6, picking.TEST_SEED)
        found = models.probe(model).predict(asked, verbose=0)
        right = found["logits"].argmax(axis=-1) == answers
        asked, answers = picking.picking.examples(40, 9, 6, picking.TEST_SEED)
        says = model.predict(asked, verbose=0).argmax(axis=-1)
        clear = picking.is_clear(asked)
        assert clear.any() and not clear.all()
        for written, share in (
            (row["accuracy"], right.mean()),
            (long["accuracy"], (says == answers).mean()),
            (long["clear_accuracy"], (says == answers)[clear].mean()),
        ):
            assert 100 * share == pytest.approx(float(written), abs=0.01)
        if row["model"] == "lstm1":
            assert row["openness_target"] == ""
            assert row["openness"] == ""
            assert "read_out" not in row["settings"]
            continue
        share = 100 * found["gates"].mean()
        assert share == pytest.approx(float(row["openness"]), abs=0.01)
        assert 0 < float(row["drawn_openness"]) < 100
        assert "read_out=every" in row["settings"]
    suffixes = {x.suffix for x in output.with_name("p-models").iterdir()}
    assert suffixes == {".claim", ".keras"}


@pytest.mark.slow
def test_exports_answer_as_the_saved_model(study, tmp_path):
    options, output, _ = study
    picking.main([*options, "--export-dir", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
    model = trained(output, read(output)[1])
    asked = {"tokens": np.array([[3, 1, 4, 1]] * 2), "k": np.array([1, 4])}
    wanted = models.probe(model, focus=True).predict(asked, verbose=0)
    exported = EXPLORABLES["picking"].served_from(tmp_path)
    found, _ = exported.ask(
        **{name: tf.constant(value, "int32") for name, value in asked.items()}
    )
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, atol=1e-5)
    answers = wanted["logits"].argmax(axis=-1)
    says = pick(exported, "3141", "1 4").says
    assert says == f"k = 1: {answers[0]}; k = 4: {answers[1]}"


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not(tmp_path, monkeypatch):
    """Killed in a test, after a save, and after training: the same weights."""
    found = []
    parts = (
        (models, "measure"),
        (keras_seqmech.training.ExactBackupAndRestore, "on_epoch_end"),
        (models, "measure_drawn"),
    )
    for name, kills in (("whole", ()), ("killed", parts)):
        output = tmp_path / f"{name}.csv"
        options = small(output, "--models", "fhe", "--steps", 8)
        for owner, part in kills:
            done = getattr(owner, part)

            def killed(*args, done=done):
                done(*args)
                raise KeyboardInterrupt

            with monkeypatch.context() as patch:
                patch.setattr(owner, part, killed)
                with pytest.raises(SystemExit):
                    picking.main(options)
            assert not output.exists()
        picking.main(options)
        (row,) = read(output)
        assert row["steps"] == "8"
        found.append(trained(output, row).get_weights())
    for weights, expected in zip(*found, strict=True):
        np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-7)


def gate_callbacks(estimator, *options):
    args = picking.parse(small("unused", *options))
    model = picking.build("fhe", estimator, args)
    return model, experiments.gate_callbacks(model, args)


def test_what_gates_cost_by_share_of_the_steps():
    """Entropy's falls to 0 and sparsity's rises by then, indecision's later."""
    options = ["--steps", 60]
    _, (watching, schedule) = gate_callbacks("reinforce", *options)
    assert isinstance(watching, keras_seqmech.WarnOnDecisionCollapse)
    assert schedule.steps == 60
    found = [schedule.values(share) for share in (0, 0.15, 0.3, 0.6)]
    assert {name: [x[name] for x in found] for name in found[0]} == {
        "entropy": pytest.approx([1, 0.75, 0, 0]),
        "target_weight": pytest.approx([0, 0.5, 2, 2]),
        "indecision": pytest.approx([0, 1 / 256, 1 / 16, 1]),
    }
    _, (_, schedule) = gate_callbacks("relaxed", *options)
    found = [schedule.values(share)["temperature"] for share in (0, 1)]
    assert found == pytest.approx([1, 0.3])


def test_the_paper_has_policy_gradient_unique_states_and_no_commitment():
    args = picking.parse(small("unused", "--preset", "paper"))
    assert (args.estimators, args.openness_target) == (["reinforce"], 0.1)
    model, (_, schedule) = gate_callbacks("reinforce", "--preset", "paper")
    network = network_of(model)
    penalties = network.get_layer("encoder").gate.penalties
    assert (penalties.target, penalties.target_of) == (0.1, "row_above")
    assert network.get_layer("attention").states == "open"
    assert schedule.values(1.0)["indecision"] == 0


def test_a_schedule_takes_the_place_of_targets():
    options = ["--preset", "explored"]
    model, (_, schedule) = gate_callbacks("relaxed", *options)
    gate = model.get_layer("encoder").gate
    assert gate.penalties == DecisionPenalties()
    assert isinstance(schedule, keras_seqmech.ExploreThenCommit)
    assert schedule.values(1.0)["reading"] == 0.2


def test_clear_examples():
    asked, _ = picking.picking.examples(64, 6)
    clear = picking.is_clear(asked)
    rows = zip(asked["tokens"], asked["k"], strict=True)
    counted = [collections.Counter(row[:k].tolist()) for row, k in rows]
    ranked = [[*sorted(c.values(), reverse=True), 0] for c in counted]
    assert clear.tolist() == [first > second for first, second, *_ in ranked]


@pytest.mark.parametrize(
    "length, lengths", [("220", [50, 100, 100, 200, 220, 220]), ("5", [5] * 6)]
)
def test_growing_length(length, lengths):
    args = picking.parse(["--length", length, "--steps", "1000"])
    steps = (0, 200, 300, 400, 500, 999)
    assert [picking.growing_length(step, args) for step in steps] == lengths


def test_bad_options(capsys):
    with pytest.raises(SystemExit):
        picking.parse(["--length", "9", "--test-lengths", "8"])
    assert "--test-lengths: must be" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        picking.parse(["--preset", "explored", "--openness-target", "0.3"])
    assert "have no target. Received: 0.3" in capsys.readouterr().err
