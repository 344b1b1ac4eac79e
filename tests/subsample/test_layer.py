"""The layer `ExpectedSubsample` against all outcomes, and in its modes."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import DecisionPenalties
from keras_seqmech import ExpectedSubsample
from keras_seqmech import analysis
from keras_seqmech.subsample import drawn as drawn_emission
from keras_seqmech.training import collect_log_probabilities
from tests import references
from tests import subsample_references

ROWS, TIME, FEATURES = 3, 6, 2
MASK = np.array(
    [[1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0]], "bool"
)
# Both in expectation, unless an option says otherwise.
subsample_layer = functools.partial(
    ExpectedSubsample, estimator="expectation", inference="expectation"
)
MODES = ("expectation", "sample", "threshold", "running_sum")


def inputs(rows=ROWS, time=TIME, seed=0):
    generator = np.random.default_rng(seed)
    sequence = generator.normal(size=(rows, time, FEATURES))
    emission = generator.uniform(0.1, 0.9, size=(rows, time))
    return sequence, emission


def close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def numpy(outputs):
    return keras.tree.map_structure(lambda x: x.numpy(), outputs)


# Values.


@pytest.mark.parametrize("length", [None, 1, 4, 9])
@pytest.mark.parametrize("masked", [False, True])
def test_expectation_is_that_of_all_outcomes(length, masked):
    sequence, emission = inputs()
    mask = MASK if masked else None
    layer = subsample_layer(length, return_emission=True, dtype="float64")
    outputs, decisions = numpy(layer(sequence, emission, mask=mask))
    length = length or TIME
    assert outputs.shape == (ROWS, length, FEATURES)
    for b in range(ROWS):
        real = mask[b] if masked else np.ones(TIME, "bool")
        expected, lengths = subsample_references.brute_force(
            sequence[b][real], emission[b][real]
        )
        expected = np.pad(expected, [(0, 10), (0, 0)])[:length]
        more = lengths[length:].sum()
        lengths = np.append(np.pad(lengths, (0, 10))[:length], more)
        close(outputs[b], expected)
        close(decisions["length_distribution"][b], lengths)
        close(decisions["output_mask"][b], 1 - np.cumsum(lengths)[:-1])
        matrix = decisions["emission"][b]
        close(matrix @ sequence[b], expected)
        assert not matrix[:, ~real].any()


def test_threshold_is_above_one_half():
    layer = subsample_layer(inference="threshold")
    emission = np.array([[0.5, 0.500001, 0.499999, 0.9]], "float32")
    sequence = np.arange(1.0, 5.0)[None, :, None]
    np.testing.assert_array_equal(
        layer(sequence, emission)[0, :, 0], [2, 4, 0, 0]
    )


def test_inference_of_a_loaded_model_can_be_switched(tmp_path):
    x = keras.Input((6, 2))
    emission = keras.layers.Dense(1, "sigmoid")(x)[..., 0]
    short = subsample_layer(4, name="subsample")(x, emission)
    path = tmp_path / "model.keras"
    keras.Model(x, [short, emission]).save(path)
    model = keras.saving.load_model(path)
    layer = model.get_layer("subsample")
    data = np.random.default_rng(0).normal(size=(3, 6, 2)).astype("float32")
    soft, probabilities = model.predict(data, verbose=0)
    layer.inference = "threshold"
    hard = np.zeros_like(soft)
    for row, steps, e in zip(hard, data, probabilities):
        kept = steps[e > 0.5][:4]
        row[: len(kept)] = kept
    assert (hard != soft).any()
    np.testing.assert_array_equal(model(data)[0], hard)
    # What was traced before stays, until it is made anew.
    np.testing.assert_array_equal(model.predict(data, verbose=0)[0], soft)
    model.make_predict_function(force=True)
    np.testing.assert_array_equal(model.predict(data, verbose=0)[0], hard)
    found = analysis.decisions(model, data)["subsample"]["emission"]
    np.testing.assert_array_equal(found @ data, hard)
    assert layer.get_config()["inference"] == "threshold"
    with pytest.raises(ValueError, match="`inference` .*inference='hard'"):
        layer.inference = "hard"
    assert layer.inference == "threshold"


def test_a_running_sum_of_equal_probabilities_is_a_stride():
    """Of the real steps, which start in the middle of a stride."""
    sequence = np.arange(1.0, 18.0)[None, :, None]
    mask = np.arange(17) != 5
    layer = subsample_layer(inference="running_sum")
    outputs = layer(sequence, np.full((1, 17), 0.25), mask=mask[None])
    expected = sequence[0][mask][1::4]
    np.testing.assert_array_equal(outputs[0, : len(expected)], expected)
    assert not np.any(outputs[0, len(expected) :])


def test_mask_that_keras_attached_is_taken():
    sequence, emission = inputs()
    sequence[~MASK] = 0
    steps = keras.Input((TIME, FEATURES))
    probabilities = keras.Input((TIME,))
    masked = keras.layers.Masking()(steps)
    model = keras.Model(
        [steps, probabilities], subsample_layer()(masked, probabilities)
    )
    expected = subsample_layer()(sequence, emission, mask=MASK)
    without = subsample_layer()(sequence, emission)
    outputs = model.predict_on_batch([sequence, emission])
    close(outputs, expected, 1e-6)
    assert np.abs(outputs - without).max() > 0.01


# Bad input.


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.01, 1.01])
def test_bad_probabilities_are_refused_or_clipped(bad):
    sequence, emission = inputs()
    emission[1, 2] = bad
    layer = subsample_layer(dtype="float64")
    with pytest.raises(ValueError, match="Received: emission_probabilities="):
        layer(sequence, emission)
    clipped = emission.copy()
    clipped[1, 2] = 1 if bad > 0.5 else 0
    expected = layer(sequence, clipped)
    close(tf.function(layer)(sequence, emission), expected)
    # At masked steps any value is allowed.
    mask = np.ones((ROWS, TIME), "bool")
    mask[1, 2] = False
    expected = layer(sequence, clipped, mask=mask)
    close(layer(sequence, emission, mask=mask), expected)


def test_clipped_probabilities_have_finite_gradients():
    sequence, emission = inputs()
    emission[1, 2], emission[0, 0] = np.nan, 3.0
    layer = subsample_layer()

    @tf.function
    def gradient(sequence, emission):
        with tf.GradientTape() as tape:
            tape.watch(emission)
            total = tf.reduce_sum(layer(sequence, emission) ** 2)
        return tape.gradient(total, emission)

    result = gradient(tf.constant(sequence), tf.constant(emission)).numpy()
    assert np.isfinite(result).all()
    assert result[1, 2] == result[0, 0] == 0
    assert (result[2] != 0).all()


def test_probabilities_that_rounding_moved_are_probabilities():
    sequence, _ = inputs()
    emission = np.full((ROWS, TIME), 1 + 1e-6, "float32")
    outputs = subsample_layer()(sequence, emission)
    np.testing.assert_array_equal(outputs, sequence.astype("float32"))


@pytest.mark.parametrize("inference", MODES)
def test_a_subsample_of_decided_steps_in_all_modes(inference):
    """With probabilities of 0 and 1 a stack is a choice of a choice."""
    generator = np.random.default_rng(4)
    sequence, _ = inputs()
    first, second = generator.integers(0, 2, (2, ROWS, TIME)).astype("float32")
    options = {"inference": inference, "return_emission": True}
    outputs, decisions = subsample_layer(**options)(sequence, first, mask=MASK)
    outputs, decisions = subsample_layer(4, **options)(
        outputs, second, mask=decisions["output_mask"] > 0.5
    )
    for b in range(ROWS):
        between = sequence[b][(first[b] == 1) & MASK[b]]
        chosen = between[second[b][: len(between)] == 1]
        expected = np.zeros((4, FEATURES))
        expected[: len(chosen)] = chosen[:4]
        close(outputs[b], expected, 1e-6)
        close(decisions["output_mask"][b], np.arange(4) < len(chosen), 1e-6)


# Estimators.


@pytest.mark.parametrize("length", [1, 3, 7])
def test_straight_through_gradient(length):
    """Exact differences for each draw; in the mean the exact gradient."""
    sequence, emission = inputs(1, 5)
    weights = np.random.default_rng(3).normal(size=(length, FEATURES))

    def compacted(chosen):
        return subsample_references.compacted(sequence[0], chosen, length)

    mean = 0
    emission = tf.constant(emission)
    for p, chosen in subsample_references.outcomes(emission[0].numpy()):
        with tf.GradientTape() as tape:
            tape.watch(emission)
            outputs, _ = drawn_emission.compact(
                sequence, emission, chosen[None], length
            )
            loss = tf.reduce_sum(outputs * weights)
        close(outputs[0], compacted(chosen))
        gradient = tape.gradient(loss, emission)[0].numpy()
        for n in range(5):
            step = np.arange(5) == n
            change = compacted(chosen | step) - compacted(chosen & ~step)
            close(gradient[n], np.sum(change * weights))
        mean += p * gradient
    with tf.GradientTape() as tape:
        tape.watch(emission)
        outputs = subsample_layer(length, dtype="float64")(sequence, emission)
        loss = tf.reduce_sum(outputs * weights)
    close(mean, tape.gradient(loss, emission)[0])


def test_straight_through_is_a_draw_with_a_gradient_to_what_is_real():
    sequence, emission = (tf.constant(x) for x in inputs())
    layer = subsample_layer(
        4,
        estimator="straight_through",
        return_emission=True,
        dtype="float64",
        seed=2,
    )
    weights = np.random.default_rng(3).normal(size=(ROWS, 4, FEATURES))
    with tf.GradientTape() as tape:
        tape.watch((sequence, emission))
        outputs, decisions = layer(sequence, emission, mask=MASK, training=True)
        total = tf.reduce_sum(outputs * weights)
    gradients = tape.gradient(total, (sequence, emission))
    matrix = decisions["emission"].numpy()
    assert set(np.unique(matrix)) == {0, 1}
    close(outputs, matrix @ sequence.numpy())
    close(gradients[0], matrix.swapaxes(1, 2) @ weights)
    assert not gradients[1].numpy()[~MASK].any()
    assert gradients[1].numpy()[1][MASK[1]].all()


@pytest.mark.parametrize(
    "length, masked", [(1, True), (2, True), (2, False), (4, False)]
)
def test_reinforce_agrees_with_enumeration(length, masked):
    """Within 5 standard errors, of 20,000 draws.

    The loss is no function of expected outputs: it is a square, and the penalty
    of all that is read; where U outputs are full, nothing more is.
    """
    draws, time = 20_000, 4
    sequence, _ = inputs(1, time)
    logits = tf.constant([[0.3, -0.8, 1.2, 0.1]], "float64")
    real = np.array([1, 0, 1, 1] if masked else [1] * 4, "bool")
    target = np.random.default_rng(7).normal(size=(length, FEATURES))

    def squares(outputs):
        return tf.reduce_sum((outputs - target) ** 2, axis=(1, 2))

    with tf.GradientTape() as tape:
        tape.watch(logits)
        emission = tf.sigmoid(logits)[0]
        exact = exact_penalty = 0.0
        for choice in itertools.product([False, True], repeat=time):
            chosen = np.array(choice)
            if (chosen & ~real).any():
                continue
            p = tf.reduce_prod(tf.where(chosen, emission, 1 - emission)[real])
            outputs = subsample_references.compacted(
                sequence[0], chosen, length
            )
            penalty = min(chosen.sum(), length) / real.sum()
            exact += p * (squares(outputs[None])[0] + penalty)
            exact_penalty += p * penalty
    expected = tape.gradient(exact, logits)[0].numpy()

    layer = subsample_layer(
        length,
        estimator="reinforce",
        seed=5,
        penalties=DecisionPenalties(reading=1.0),
        dtype="float64",
    )
    many = tf.repeat(logits, draws, axis=0)
    with tf.GradientTape() as tape, collect_log_probabilities() as drawn:
        tape.watch(many)
        outputs = layer(
            np.repeat(sequence, draws, axis=0),
            tf.sigmoid(many),
            mask=np.repeat(real[None], draws, axis=0),
            training=True,
        )
        penalty = drawn[0].penalty
        loss = squares(outputs) + penalty
        surrogate = tf.reduce_sum(
            tf.stop_gradient(loss) * drawn[0].log_probability
        )
    samples = tape.gradient(surrogate, many).numpy()
    error = 5 * samples.std(0) / np.sqrt(draws)
    assert (error[real] > 0).all()
    assert (np.abs(samples.mean(0) - expected) <= error + 1e-12).all()
    assert not samples[:, ~real].any()
    for values, mean in ((loss, exact), (penalty, exact_penalty)):
        error = 5 * np.std(values) / np.sqrt(draws)
        assert abs(np.mean(values) - mean) <= error
    close(sum(layer.losses), np.mean(penalty), 1e-6)


def test_log_probability_is_that_of_what_was_decided():
    sequence, emission = inputs()
    layer = subsample_layer(
        2, estimator="reinforce", return_emission=True, seed=1, dtype="float64"
    )
    with collect_log_probabilities() as drawn:
        _, decisions = layer(sequence, emission, mask=MASK, training=True)
    decisions = numpy(decisions)
    keep = decisions["emission"].sum(1) > 0
    # Once two steps were emitted, nothing more is decided.
    open_ = (np.cumsum(keep, axis=1) - keep < 2) & MASK
    expected = np.log(np.where(keep, emission, 1 - emission)) * open_
    close(decisions["log_probability"], expected)
    close(drawn[0].log_probability, expected.sum(1))
    # In expectation nothing is.
    _, decisions = layer(sequence, emission)
    assert not decisions["log_probability"].numpy().any()


# Length: statistics, target, gradients.


@pytest.mark.parametrize("inference", MODES)
def test_length_is_a_metric(inference):
    """Of all that is emitted, though there is room for two."""
    sequence, emission = inputs()
    options = {"inference": inference, "return_emission": True, "seed": 3}
    layer = subsample_layer(2, track_statistics=True, name="short", **options)
    layer(sequence, emission, mask=MASK)
    _, decisions = subsample_layer(**options)(sequence, emission, mask=MASK)
    metrics = {
        metric.name: metric.result() for metric in layer.statistics.metrics
    }
    emitted = np.sum(decisions["output_mask"])
    close(metrics["short_length"], emitted / ROWS, 1e-6)
    close(metrics["short_kept"], emitted / MASK.sum(), 1e-6)
    if inference == "expectation":
        close(emitted, np.sum(emission * MASK), 1e-6)
    real = emission[MASK]
    certain = np.average(real > 0.9, weights=real)
    close(metrics["short_certain"], certain, 1e-6)
    deviation = np.std(np.log(real / (1 - real)))
    close(metrics["short_logit_deviation"], deviation, 1e-5)
    chosen = real > 0.5
    if inference == "running_sum":
        chosen = np.concatenate(
            [references.running_sum_gates(e) for e in emission * MASK]
        )[MASK.ravel()]
    share = np.mean(chosen)
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    close(metrics["short_choice_entropy"], entropy, 1e-5)


# Penalties.


@pytest.mark.parametrize("estimator", ["expectation", "straight_through"])
def test_penalties_are_those_of_the_probabilities(estimator):
    sequence, emission = inputs()
    layer = subsample_layer(
        2,
        estimator=estimator,
        penalties=DecisionPenalties(0.1, 0.2, 0.25, "batch", 0.3, 0.4),
        dtype="float64",
    )
    layer(sequence, emission, mask=MASK)
    assert not layer.losses
    layer(sequence, emission, mask=MASK, training=True)
    e = emission[MASK]
    entropy = -e * np.log(e) - (1 - e) * np.log(1 - e)
    expected = 0.1 * e.mean() + 0.25 * abs(e.mean() - 0.2)
    expected += 0.4 * np.mean(4 * e * (1 - e))
    expected += 0.3 * (np.log(2) - entropy.mean())
    # Weights, and what Keras adds up, are float32.
    close(sum(layer.losses), expected, 1e-6)


def test_penalties_follow_their_variables_without_retracing():
    sequence, emission = inputs()
    layer = subsample_layer(dtype="float64")
    layer.build(sequence.shape)

    @tf.function
    def run():
        layer(sequence, emission, training=True)
        return sum(layer.losses)

    for value in (0.0, 0.5):
        layer.penalty_weights.reading.assign(value)
        close(run(), value * emission.mean(), 1e-6)
    assert run.experimental_get_tracing_count() == 1


def test_policy_gradients_are_the_only_ones_of_drawn_steps():
    sequence, emission = inputs()
    emission = tf.constant(emission)
    layer = subsample_layer(2, estimator="reinforce", dtype="float64")
    with tf.GradientTape() as tape, collect_log_probabilities():
        tape.watch(emission)
        outputs = layer(sequence, emission, training=True)
    gradient = tape.gradient(outputs, emission, unconnected_gradients="zero")
    assert not np.any(gradient)


def test_probabilities_keep_their_precision():
    """Half precision has no number between 1 and 0.9995."""
    sequence = np.ones((1, 200, 1), "float32")
    emission = np.full((1, 200), 0.9999, "float32")
    outputs, decisions = subsample_layer(
        return_emission=True, dtype="mixed_float16"
    )(sequence, emission)
    assert outputs.dtype == "float16"
    assert decisions["output_mask"].dtype == "float32"
    close(decisions["output_mask"][0, -1], 0.9999**200, 1e-4)
