"""What moves between the epochs of a run."""

import pytest

import keras_seqmech
from examples.focused import picking
from examples.focused import progress
from tests.examples.focused.small_models import small


def test_weights_by_epoch():
    """Entropy's falls to 0 and sparsity's rises by then, indecision's later."""
    options = ["--steps", 80, "--evaluate-every", 4, "--ramp-share", 0.4]
    options += ["--sparsity-weight", 12, "--indecision-weight", 0.5]
    args = picking.parse(small("unused", *options))
    model = picking.build("fhe", "reinforce", args)
    found = {
        callback.target: [callback.value(epoch) for epoch in (0, 4, 8, 16)]
        for callback in progress.gate_callbacks(model, args)
        if isinstance(callback, keras_seqmech.Curriculum)
    }
    assert found == {
        "entropy_weight": pytest.approx([1, 0.75, 0, 0]),
        "sparsity_weight": pytest.approx([0, 0.5, 2, 2]),
        "indecision_weight": pytest.approx([0, 0.5 / 256, 0.5 / 16, 0.5]),
    }
    watching = progress.gate_callbacks(model, args)[0]
    assert isinstance(watching, keras_seqmech.WarnOnDecisionCollapse)


def test_temperature_moves_where_gates_are_soft():
    options = ["--temperature", "2", "--final-temperature", "0.25"]
    args = picking.parse(small("unused", *options))
    moves = {
        "reinforce": [],
        "straight_through": [],
        "relaxed": [2, 0.5**0.5, 0.25],
    }
    for estimator, moved in moves.items():
        callbacks = progress.gate_callbacks(
            picking.build("fhe", estimator, args), args
        )
        found = [
            callback.value(step)
            for callback in callbacks
            if isinstance(callback, keras_seqmech.TemperatureAnnealing)
            for step in (0, args.steps // 2, args.steps)
        ]
        assert found == pytest.approx(moved)


def test_a_schedule_takes_the_place_of_charges():
    args = picking.parse(small("unused", "--explore", "--price", "0.3"))
    model = picking.build("fhe", "relaxed", args)
    encoder = model.get_layer("encoder")
    assert encoder.gate.initial_sparsity_weight == 0
    assert not any(encoder.gate.costs.initial.values())
    watching, schedule = progress.gate_callbacks(model, args)
    assert isinstance(watching, keras_seqmech.WarnOnDecisionCollapse)
    assert isinstance(schedule, keras_seqmech.ExploreThenCommit)
    assert schedule.values(1.0)["cost_weight"] == 0.3


@pytest.mark.parametrize("name", ["openness-target", "sparsity-weight"])
def test_charges_beside_a_schedule_are_refused(name, capsys):
    given = [f"--{name}", "0.5"]
    assert picking.parse(small("unused", *given))
    with pytest.raises(SystemExit):
        picking.parse(small("unused", "--explore", *given))
    error = capsys.readouterr().err
    assert f"--{name}: not together with --explore. Received: 0.5" in error


def test_minutes_end_a_run(tmp_path):
    for minutes, is_over in (("2", False), ("1", True)):
        args = picking.parse(small("unused", "--minutes", minutes))
        watched = progress.Progress(None, args, tmp_path, "")
        watched.state.update(step=2, seconds=60.0)
        assert watched.is_over() == is_over
