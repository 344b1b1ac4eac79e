"""The picking study: what gates cost, longer tests, growing sequences."""

import pytest

import keras_seqmech
from examples.common.networks import network_of
from examples.focused import experiments
from examples.focused import picking
from tests.examples.focused.small_models import small

pytestmark = [
    pytest.mark.long,
    # A few steps decide nothing.
    pytest.mark.filterwarnings("ignore:The decisions of layer 'encoder'"),
]


def gate_callbacks(estimator, *options):
    args = picking.PROGRAM.parse(small("unused", *options))
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
    args = picking.PROGRAM.parse(small("unused", "--preset", "paper"))
    assert (args.estimators, args.openness_target) == (["reinforce"], 0.1)
    model, (_, schedule) = gate_callbacks("reinforce", "--preset", "paper")
    network = network_of(model)
    penalties = network.get_layer("encoder").gate.penalties
    assert (penalties.target, penalties.target_of) == (0.1, "row_above")
    assert network.get_layer("attention").states == "open"
    assert schedule.values(1.0)["indecision"] == 0


def test_accuracies_on_longer_sequences():
    args = picking.PROGRAM.parse(small("unused"))
    model = picking.build("fhe", "relaxed", args)
    found = picking.measure_length(model, 9, args)
    asked, answers = picking.picking.examples(40, 9, 6, picking.TEST_SEED)
    right = model.predict(asked, verbose=0).argmax(axis=-1) == answers
    clear = picking.is_clear(asked)
    assert clear.any() and not clear.all()
    assert found["accuracy"] == f"{100 * right.mean():.2f}"
    assert found["clear_accuracy"] == f"{100 * right[clear].mean():.2f}"


@pytest.mark.parametrize(
    "options, lengths",
    [
        ("220", [50, 100, 100, 200, 220, 220]),
        ("220 --growing-share 0.2", [50, 220, 220, 220, 220, 220]),
        ("220 --growing-share 0", [220] * 6),
        ("5", [5] * 6),
    ],
)
def test_growing_length(options, lengths):
    args = picking.PROGRAM.parse(f"--steps 1000 --length {options}".split())
    steps = (0, 200, 300, 400, 500, 999)
    assert [picking.growing_length(step, args) for step in steps] == lengths
