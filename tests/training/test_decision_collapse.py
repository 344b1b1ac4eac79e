"""The warning: decisions that are all alike, or undecided at the end."""

import math
import re
import warnings

import keras
import numpy as np
import pytest

from keras_seqmech import BoundaryGate
from keras_seqmech import DecisionPenalties
from keras_seqmech import EarlyPooling
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import ExploreThenCommit
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReceptiveFieldRNN
from keras_seqmech import WarnOnDecisionCollapse

ALIKE, UNDECIDED = "have collapsed", "are undecided"


def caught(function, *args, **kwargs):
    """Texts of the warnings that a call gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    return [str(x.message) for x in found if x.category is UserWarning]


def field(**options):
    return ReceptiveFieldRNN(
        keras.layers.SimpleRNNCell(2),
        seed=1,
        name="field",
        **{"max_size": 3, "track_statistics": True, **options},
    )


def target(target, weight=1.0):
    return {"penalties": DecisionPenalties(target=target, target_weight=weight)}


def reading(weight):
    return DecisionPenalties(reading=weight)


def model_of_sizes(**options):
    """Sizes."""
    layers = [keras.Input((6, 2)), field(**options), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def model_of_gates(**options):
    """Gates."""
    x, context = keras.Input((6, 2)), keras.Input((2,))
    gate = BoundaryGate(
        4, track_statistics=True, seed=1, name="gate", **options
    )
    y = keras.layers.Dense(1)(gate(x, context))
    return keras.Model([x, context], y)


def model_of_emissions(share=0.5, scale=1.0, **options):
    """Kept steps."""
    keras.utils.set_random_seed(0)
    x = keras.Input((6, 2))
    e = EmissionProbabilities(share, scale, name="emission")(x)
    options = {"estimator": "expectation", **options}
    y = ExpectedSubsample(
        3, track_statistics=True, seed=1, name="kept", **options
    )(x, e)
    return keras.Model(x, keras.layers.Dense(1)(keras.layers.Flatten()(y)))


def data(model):
    """Sequences whose second feature is constant, and labels."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(32, 6, 2)).astype("float32")
    x[..., 1] = 1
    inputs = [x, np.ones((32, 2), "float32")][: len(model.inputs)]
    return inputs if len(inputs) > 1 else x, x[:, :1, 0]


def fit(model, *callbacks, rate=0.0, epochs=2):
    """Texts of the warnings of a small fit; without a rate nothing moves."""
    if not getattr(model, "optimizer", None):
        optimizer = keras.optimizers.Adam(rate or 1e-9)
        model.compile(optimizer, "mse", jit_compile=False)
    return caught(
        model.fit,
        *data(model.network if hasattr(model, "network") else model),
        batch_size=16,
        epochs=epochs,
        verbose=0,
        callbacks=list(callbacks),
    )


def follow(logs, model=None, epochs=None, **arguments):
    """Texts of the warnings by epoch, then those at the end of training."""
    callback = WarnOnDecisionCollapse(**arguments)
    callback.set_model(model or model_of_sizes())
    callback.set_params({"epochs": epochs or len(logs)})
    callback.on_train_begin()
    found = [
        caught(callback.on_epoch_end, epoch, values)
        for epoch, values in enumerate(logs)
    ]
    return [*found, caught(callback.on_train_end, {})]


def seen(choice_entropy, certain=1.0, size=1.0):
    """Logs of an epoch; validation's say that all is well."""
    return {
        "loss": 1.0,
        "field_mean_size": size,
        "field_choice_entropy": choice_entropy,
        "field_certain": certain,
        "field_size_entropy": 1.0,
        "val_field_mean_size": 2.0,
        "val_field_choice_entropy": 1.0,
        "val_field_certain": 0.9,
    }


def test_alike_is_told_once_with_numbers_and_remedies():
    texts = follow([seen(0.7), seen(0.01), seen(0.5), seen(0.0)], begin=0)
    assert [len(found) for found in texts] == [0, 1, 0, 0, 0]
    (text,) = texts[1]
    assert text.startswith("The decisions of layer 'field' have collapsed")
    assert (
        "after epoch 2 (mean_size=1, choice_entropy=0.01 nats, certain=1)"
    ) in text
    assert "`entropy`" in text and "`target`" in text


@pytest.mark.parametrize(
    "size, remedy", [(1.0, "lower the weight"), (9.0, "raise the weight")]
)
def test_an_early_answer_has_no_largest_size(size, remedy):
    x, stop = keras.Input((20, 2)), keras.Input((20,))
    early = EarlyPooling(reading(0.1), track_statistics=True, name="field")
    model = keras.Model([x, stop], early(x, stop))
    (text,) = follow([seen(0.01, size=size)], model)[0]
    # It has no exploration.
    assert remedy in text and "explore" not in text


@pytest.mark.parametrize(
    "options, size, remedy, absent",
    [
        # What is in force is not advised.
        (target(1.5, 3.0), 1.0, "raise `target_weight`, now 3", "set a"),
        (
            {"penalties": reading(0.5)},
            1.0,
            "lower the weight of .*0.5",
            "raise",
        ),
        (
            {"penalties": reading(0.5)},
            3.0,
            "raise the weight of .*0.5",
            "lower",
        ),
        ({}, 1.0, "set a `target`", "`reading`"),
    ],
)
def test_advice_is_not_in_force(options, size, remedy, absent):
    model = model_of_sizes(**options)
    (text,) = follow([seen(0.01, size=size)], model)[0]
    assert re.search(remedy, text) and absent not in text


@pytest.mark.parametrize(
    "with_both", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_probabilities_that_are_certain_at_first(with_both):
    """And miss their target: also where `ExploreThenCommit` alone is given."""
    callbacks = [ExploreThenCommit(), WarnOnDecisionCollapse()][: 1 + with_both]
    for scale, estimator, expected in (
        (100.0, "expectation", ["from the first step", "miss their target"]),
        (100.0, "straight_through", ["miss their target"]),
        (1.0, "expectation", []),
    ):
        model = model_of_emissions(
            share=0.1, scale=scale, estimator=estimator, **target(0.1)
        )
        texts = fit(model, *callbacks)
        assert len(texts) == len(expected)
        for text, verdict in zip(texts, expected):
            assert verdict in text and "`scale`" in text
            assert ("straight_through" in text) == (estimator == "expectation")
    # A model that was trained before may be certain.
    model = model_of_emissions(scale=100.0)
    assert fit(model) == [] and fit(model, *callbacks[:1], epochs=2) == []


@pytest.mark.parametrize(
    "options, size, is_far",
    [
        (target(2.0), 3.0, False),
        (target(1.4), 3.0, True),
        (target(2.5), 1.0, True),
        (target(2.5, 0.0), 1.0, False),
        (
            {
                "penalties": DecisionPenalties(
                    target=2.5, target_weight=1.0, target_of="row_above"
                )
            },
            1.0,
            False,
        ),
    ],
)
def test_targets_that_are_far_off(options, size, is_far):
    *_, last = follow([seen(1.0, size=size)], model_of_sizes(**options))
    assert bool(last) == is_far
    # What is not decided has no amount yet.
    logs = [seen(1.0, certain=0.2, size=size)]
    assert follow(logs, model_of_sizes(**options))[-1] == []


def test_exploration_at_the_start_does_not_count():
    logs = [seen(0.0)] * 8
    for begin, first in ((0, 0), (0.5, 3), (0.55, 4), (1, 7)):
        texts = follow(logs, begin=begin)
        assert [i for i, found in enumerate(texts) if found] == [first]
    # The share is of the epochs of the fit, however many there are.
    assert follow(logs[:3], epochs=8) == [[]] * 4


@pytest.mark.parametrize(
    "losses, is_warned",
    [
        # Since half of the epochs so far, by no less than 5 %.
        ([1.0, 0.9, 0.8, 0.7], False),
        ([1.0, 0.99, 0.98, 0.97], True),
        ([1.0, 0.5, 0.2, 0.2, 0.2], True),
        ([-1.0, -1.1], False),
        ([1.0, math.nan], True),
    ],
)
@pytest.mark.parametrize("name", ["loss", "val_loss"])
def test_alike_decisions_are_left_alone_while_the_loss_falls(
    losses, is_warned, name
):
    logs = [
        {**seen(0.0), "loss": 1 / (1 + epoch), name: loss}
        for epoch, loss in enumerate(losses)
    ]
    *_, last, _ = follow(logs, begin=1)
    assert bool(last) == is_warned


def test_penalties_of_decisions_are_no_part_of_the_loss_that_falls():
    logs = [
        {**seen(0.0), "loss": 1 + penalty, "field_penalty": penalty}
        for penalty in (1.0, 0.5, 0.1)
    ]
    *_, last, _ = follow(logs, begin=1)
    assert last


@pytest.mark.parametrize(
    "openness, certain, is_alike",
    [(0.005, 0.9, False), (0.005, 0.1, True), (0.995, 0.99, True)],
)
def test_a_few_that_are_open_for_certain_are_not_like_the_rest(
    openness, certain, is_alike
):
    logs = {"gate_openness": openness, "gate_certain": certain}
    logs |= {"gate_gate_entropy": 0.02, "gate_choice_entropy": 0.02}
    first, _ = follow([logs], model_of_gates())
    assert bool(first) == is_alike


def test_closed_gates_at_chance_are_told_by_the_schedule_itself():
    """At its end, not while it lasts, nor after few epochs."""
    for steps, epochs, expected in ((None, 4, 1), (None, 3, 0), (100, 4, 0)):
        model = model_of_gates(
            initial_openness=1e-4, kernel_initializer="zeros"
        )
        texts = fit(model, ExploreThenCommit(steps), epochs=epochs)
        assert sum(ALIKE in text for text in texts) == expected


def test_the_scale_that_helps_is_named():
    model = model_of_emissions(share=0.3, scale=0.01, **target(0.3))
    texts = fit(model, ExploreThenCommit(), epochs=4)
    (text,) = [x for x in texts if ALIKE in x]
    x, _ = data(model)
    e = np.array(model.get_layer("emission")(x[:16]))
    deviation = np.std(np.log(e / (1 - e)))
    found = re.search(r"(\S+) times its `scale`.* was (\S+) at first", text)
    np.testing.assert_allclose(
        [*map(float, found.groups())],
        [2 / deviation, deviation],
        rtol=0.3,  # The first batch is another one.
    )


def test_undecided_is_told_at_the_end_alone():
    logs = [seen(1.0, certain=0.0), seen(1.0, certain=0.05)]
    texts = follow(logs, begin=0)
    assert [len(found) for found in texts] == [0, 0, 1]
    (text,) = texts[2]
    assert "'field' are undecided at the end of training" in text
    assert "certain=0.05" in text and "`indecision`" in text
    assert "running_sum" not in text
    assert follow([logs[0], seen(1.0, certain=0.1)])[-1] == []


@pytest.mark.parametrize("openness, is_told", [(1e-6, False), (0.06, True)])
def test_gates_that_are_closed_for_certain_are_decided(openness, is_told):
    logs = {
        "gate_openness": openness,
        "gate_choice_entropy": 0.0,
        "gate_certain": 0.0,
        "gate_gate_entropy": 0.01,
    }
    falling = [{"loss": loss, **logs} for loss in (1.0, 0.5)]
    *_, texts = follow(falling, model_of_gates(), begin=1)
    assert bool(texts) is is_told
    assert all('`inference="running_sum"`' in text for text in texts)
    summed = model_of_gates(inference="running_sum")
    assert follow(falling, summed, begin=1)[-1] == []


def test_bounds_nan_and_none_are_no_collapse():
    logs = [seen(math.nan, math.nan), seen(0.05, 0.1), {"loss": 1.0}]
    assert follow(logs, begin=0) == [[]] * 4
    off = {"min_choice_entropy": 0, "min_certain": 0}
    assert follow([seen(0.0, 0.0)], **off) == [[]] * 2


@pytest.mark.parametrize(
    ("options", "entropy", "is_alike"),
    [
        ({}, 0.049, True),
        ({"max_size": 1}, 0.0, False),
        # All sizes of 2, or of S, are what was asked for.
        (target(2.0), 0.0, False),
        (target(3), 0.0, False),
        (target(2.5), 0.049, True),
        # One size in 250 of 2, the others of 1: 0.026 nats, half is 0.013.
        (target(1.004), 0.02, False),
        (target(1.004), 0.01, True),
    ],
)
def test_targets_that_alike_decisions_meet(options, entropy, is_alike):
    first, _ = follow([seen(entropy)], model_of_sizes(**options))
    assert bool(first) == is_alike


def test_two_layers_are_followed_apart():
    inner = model_of_emissions(**target(0.5))
    x = keras.Input((6, 2))
    y = field(return_sequences=True)(x)
    model = keras.Model(x, inner(y))
    logs = {"kept_kept": 0.0, "kept_certain": 0.0, "kept_choice_entropy": 0.0}
    logs["kept_emission_entropy"] = 0.0
    texts = follow([{**seen(1.0), **logs}, seen(0.0)], model, begin=0)
    assert [len(found) for found in texts] == [1, 1, 0]
    assert "'kept'" in texts[0][0] and "EmissionProbabilities" in texts[0][0]
    assert "'field'" in texts[1][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_choice_entropy": -0.1}, "min_choice_entropy=-0.1"),
        ({"min_certain": 1.1}, "min_certain=1.1"),
        ({"begin": 2}, "begin=2"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        WarnOnDecisionCollapse(**arguments)


def test_a_model_without_statistics_is_refused_before_it_trains():
    for layer, named in (
        (keras.layers.SimpleRNN(2), r"\[\]"),
        (field(track_statistics=False), r"\['field'\]"),
    ):
        model = keras.Sequential([keras.Input((6, 2)), layer])
        model.compile("sgd", "mse")
        before = model.get_weights()
        message = f"track_statistics=True.*{named}"
        with pytest.raises(ValueError, match=message):
            fit(model, WarnOnDecisionCollapse())
        for one, other in zip(before, model.get_weights()):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("length", [2, 6])
def test_one_size_everywhere_but_near_the_end(length):
    """All read three positions, or what is left of them."""
    model = model_of_sizes(size_from="field")
    cell = model.get_layer("field").cell
    for kernel in (cell.stop_kernel, cell.stop_recurrent_kernel):
        kernel.assign(0 * kernel)
    cell.stop_bias.assign(0 * cell.stop_bias - 20)
    model = keras.Sequential([keras.Input((length, 2)), *model.layers])
    model.compile("sgd", "mse", run_eagerly=True)
    x, y = data(model)
    callback = WarnOnDecisionCollapse()
    texts = caught(model.fit, x[:, :length], y, verbose=0, callbacks=[callback])
    # Of two positions none can show whether it would read three.
    assert [ALIKE in text for text in texts] == [True] * (length == 6)


MODELS = [model_of_sizes, model_of_gates, model_of_emissions]
NAMES = {"model_of_sizes": "field", "model_of_gates": "gate"}


@pytest.mark.long
@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    "penalty, verdict, remedy",
    [("reading", ALIKE, "`reading`"), ("entropy", UNDECIDED, "`indecision`")],
)
def test_a_penalty_that_is_too_high_is_told(make, penalty, verdict, remedy):
    """Nothing but the penalty moves decisions: to their least, or to chance."""
    model = make(penalties=DecisionPenalties(**{penalty: 10.0}))
    texts = fit(model, WarnOnDecisionCollapse(), rate=0.2, epochs=20)
    name = NAMES.get(make.__name__, "kept")
    (text,) = [text for text in texts if verdict in text]
    assert f"'{name}'" in text and remedy in text
    if verdict == ALIKE:
        assert not any(UNDECIDED in text for text in texts)


@pytest.mark.long
@pytest.mark.parametrize("make", MODELS)
def test_decisions_that_differ_and_are_made_give_no_alarm(make):
    """Trained with a budget in the middle, explored and committed."""
    middle = 1.5 if make is model_of_sizes else 0.5
    model = make(**target(middle, 3.0))
    schedule = ExploreThenCommit(indecision=(0.0, 1.0, 0.4, 0.5))
    texts = fit(model, schedule, WarnOnDecisionCollapse(), rate=0.2, epochs=20)
    assert texts == []


@pytest.mark.long
def test_drawn_gates_in_a_policy_gradient_model():
    """Alike gates are, also where one in 14 is drawn closed."""
    varied = keras.initializers.RandomNormal(stddev=3.0, seed=1)
    for openness, kernels in ((0.5, varied), (0.93, "zeros")):
        network = model_of_gates(
            estimator="reinforce",
            initial_openness=openness,
            kernel_initializer=kernels,
        )
        texts = fit(PolicyGradientModel(network), WarnOnDecisionCollapse())
        assert any(ALIKE in text for text in texts) == (kernels == "zeros")


@pytest.mark.long
def test_an_encoder_is_named_as_it_is_called():
    x, context = keras.Input((6, 2)), keras.Input((2,))
    encoder = FocusedHierarchicalEncoder(
        2, initial_openness=0.9999, track_statistics=True, name="encoder"
    )
    y = keras.layers.Dense(1)(encoder(x, context))
    texts = fit(keras.Model([x, context], y), WarnOnDecisionCollapse())
    assert ["layer 'encoder' have collapsed" in text for text in texts] == [
        True
    ]


def test_a_new_training_counts_afresh():
    callback = WarnOnDecisionCollapse()
    callback.set_model(model_of_sizes())
    for _ in range(2):
        callback.on_train_begin()
        (text,) = caught(callback.on_epoch_end, 0, seen(0.0))
        assert ALIKE in text
