"""Expected subsampling against equation 1, all outcomes, and itself."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import ExpectedSubsample
from keras_seqmech.subsample import expectation
from keras_seqmech.subsample.convolution import convolve
from keras_seqmech.subsample.convolution import correlate
from keras_seqmech.subsample.convolution import inner_products
from tests import subsample_references
from tests.pairs import combinations
from tests.tolerances import tolerance
from tests.tolerances import within

FEATURES = 3
# Both in expectation, unless an option says otherwise.
subsample_layer = functools.partial(
    ExpectedSubsample, estimator="expectation", inference="expectation"
)


def random_inputs(time, batch=2, dtype="float64"):
    generator = np.random.default_rng(time)
    sequence = generator.normal(size=(batch, time, FEATURES))
    emission = generator.uniform(size=(batch, time))
    return sequence.astype(dtype), emission.astype(dtype)


PATHS = ("plain", "unrolled", "loop")


def take_path(path, monkeypatch):
    """One of the ways to compute the same; blocks of 8 steps at any size."""
    if path != "plain":
        monkeypatch.setattr(expectation, "BLOCK_STEPS", 8)
        monkeypatch.setattr(expectation, "PLAIN_STEPS", 0)
    if path == "loop":
        monkeypatch.setattr(expectation, "MOST_UNROLLED", 0)


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """Each way to compute the same, at any size."""
    take_path(request.param, monkeypatch)
    return request.param


def emission_matrix(emission, length):
    matrix, _ = expectation.recursion(tf.convert_to_tensor(emission), length)
    return matrix


def outputs_of(sequence, emission, length):
    return expectation.expected_subsample(
        *map(tf.convert_to_tensor, (sequence, emission)), length
    ).outputs


def lengths_of(emission, length):
    emission = tf.convert_to_tensor(emission)
    found = expectation.expected_subsample(
        emission[..., None], emission, length, distributions=True
    )
    return found.lengths


def product(sequence, emission, length):
    """The definition: matrix times sequence."""
    return tf.matmul(emission_matrix(emission, length), sequence)


def weighted(shape):
    return np.random.default_rng(5).normal(size=shape)


def results(function, sequence, emission, length):
    """Outputs and the gradients of a weighted sum of them."""
    sequence, emission = map(tf.convert_to_tensor, (sequence, emission))
    with tf.GradientTape() as tape:
        tape.watch((sequence, emission))
        outputs = function(sequence, emission, length)
        weights = tf.cast(weighted(outputs.shape[1:]), outputs.dtype)
        loss = tf.reduce_sum(outputs * weights)
    return outputs, *tape.gradient(loss, (sequence, emission))


def assert_close(actual, expected, tolerance=1e-11):
    actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_matrix_is_equation_1():
    _, emission = random_inputs(9)
    matrix = emission_matrix(emission, 9)
    for row, values in zip(matrix, emission):
        expected = subsample_references.triple_loop(values)
        assert_close(row, expected, 1e-14)
    for length in (1, 4, 12):
        truncated = emission_matrix(emission, length).numpy()
        assert truncated.shape == (2, length, 9)
        assert_close(truncated[:, :9], matrix[:, :length], 1e-15)
        assert not np.any(truncated[:, 9:])


SIZES = {"path": PATHS, "time": [1, 8, 9, 37], "length": [1, 11, 45]}


@pytest.mark.parametrize(
    "path, time, length, mode",
    [(*chosen.values(), "eager") for chosen in combinations(**SIZES)]
    + [
        pytest.param(*chosen.values(), marks=pytest.mark.slow)
        for chosen in combinations(**SIZES, mode=["unknown sizes", "XLA"])
    ],
)
def test_paths_agree_in_values_and_gradients(
    path, time, length, mode, monkeypatch
):
    take_path(path, monkeypatch)
    inputs = random_inputs(time)

    def run(sequence, emission):
        found = results(outputs_of, sequence, emission, length)
        return *found, lengths_of(emission, length)

    expected = results(product, *inputs, length)
    if mode == "unknown sizes":
        specs = [
            tf.TensorSpec((None, None, FEATURES), "float64"),
            tf.TensorSpec((None, None), "float64"),
        ]
        run = tf.function(run, autograph=False, input_signature=specs)
    elif mode == "XLA":
        run = tf.function(run, autograph=False, jit_compile=True)
    *found, lengths = run(*map(tf.constant, inputs))
    assert_close(found, expected)
    present = tf.reduce_sum(emission_matrix(inputs[1], length), axis=2)
    assert_close(expectation.output_mask(lengths), present)


@pytest.mark.parametrize("length", [11, 45])
def test_decisions_are_those_of_the_matrix(path, length):
    sequence, emission = map(tf.constant, random_inputs(37))
    layer = subsample_layer(length, return_emission=True, dtype="float64")

    def plain():
        matrix = emission_matrix(emission, length)
        outputs = tf.matmul(matrix, sequence)
        present = tf.reduce_sum(matrix, axis=2)
        more = tf.pad(present, [[0, 0], [1, 0]], constant_values=1)
        return outputs, {
            "emission": matrix,
            "length_distribution": more - tf.pad(present, [[0, 0], [0, 1]]),
            "output_mask": present,
        }

    def values_and_gradients(function):
        with tf.GradientTape() as tape:
            tape.watch((sequence, emission))
            found = function()
            loss = sum(
                tf.reduce_sum(x * weighted(x.shape))
                for x in tf.nest.flatten(found)
            )
        return found, tape.gradient(loss, (sequence, emission))

    actual = values_and_gradients(lambda: layer(sequence, emission))
    assert_close(actual, values_and_gradients(plain))


def test_decisions_come_of_the_recursion_of_the_outputs(path):
    def loops(**options):
        layer = subsample_layer(dtype="float64", **options)
        specs = [
            tf.TensorSpec((2, 37, FEATURES), "float64"),
            tf.TensorSpec((2, 37), "float64"),
        ]
        run = tf.function(layer, autograph=False, input_signature=specs)
        operations = run.get_concrete_function().graph.get_operations()
        return [x.type for x in operations if x.type.endswith("While")]

    alone = loops()
    assert alone
    assert loops(return_emission=True) == alone


@pytest.mark.slow
@pytest.mark.parametrize("time, length", [(150, 150), (150, 70), (1100, 20)])
def test_blocks_of_their_own_size(time, length):
    inputs = random_inputs(time)
    actual = results(outputs_of, *inputs, length)
    assert_close(actual, results(product, *inputs, length))


def second_derivatives(function, inputs):
    with tf.GradientTape() as outer:
        outer.watch(inputs)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            loss = tf.reduce_sum(tf.sin(function(*inputs, 15)))
        gradients = inner.gradient(loss, inputs)
        penalty = sum(tf.reduce_sum(g**2) for g in gradients)
    return outer.gradient(penalty, inputs)


@pytest.mark.long
@pytest.mark.parametrize("compiled", [False, True])
def test_second_derivatives_are_right_or_refused(path, compiled):
    inputs = [tf.constant(x) for x in random_inputs(19)]
    run = second_derivatives
    if compiled:
        run = tf.function(run, autograph=False)
    if path == "loop":
        with pytest.raises(LookupError, match="no second gradient"):
            run(outputs_of, inputs)
        return
    expected = second_derivatives(product, inputs)
    assert_close(run(outputs_of, inputs), expected, 1e-9)


def test_convolution_and_all_its_derivatives():
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(2, 4))
    vectors = generator.normal(size=(2, 3, 2))
    upstream = generator.normal(size=(2, 6, 2))
    outputs = convolve(weights, vectors, 6)
    expected = [
        [np.convolve(w, z) for z in zs.T] for w, zs in zip(weights, vectors)
    ]
    assert_close(outputs, np.swapaxes(expected, 1, 2), 1e-14)
    # One number, written with each of the three.
    number = np.sum(upstream * outputs)
    moved = correlate(weights, upstream, 3)
    assert_close(np.sum(vectors * moved), number, 1e-13)
    sums = inner_products(vectors, upstream, 4)
    assert_close(np.sum(weights * sums), number, 1e-13)
    for function, arguments in (
        (lambda w, z: convolve(w, z, 5), (weights, vectors)),
        (lambda w, y: correlate(w, y, 3), (weights, upstream[:, :5])),
        (lambda z, y: inner_products(z, y, 4), (vectors, upstream[:, :5])),
    ):
        theoretical, numerical = tf.test.compute_gradient(
            function, arguments, delta=1e-4
        )
        assert_close(theoretical, numerical, 1e-9)


def test_sure_emissions_compact_without_error(path):
    sequence, _ = random_inputs(37, batch=3, dtype="float32")
    chosen = np.random.default_rng(3).uniform(size=(3, 37)) < 0.5
    chosen[:2] = [[False], [True]]
    emission = chosen.astype("float32")
    for length in (5, 37, 40):
        outputs, *gradients = results(outputs_of, sequence, emission, length)
        lengths = lengths_of(emission, length)
        for b in range(3):
            np.testing.assert_array_equal(
                outputs[b],
                subsample_references.compacted(sequence[b], chosen[b], length),
            )
            count = min(int(np.sum(chosen[b])), length)
            np.testing.assert_array_equal(
                lengths[b], np.arange(length + 1) == count
            )
        assert all(np.all(np.isfinite(g)) for g in gradients)


@pytest.mark.slow
def test_long_sequences_in_float32():
    """The same rounding at each step, of equal ones, would add up."""
    rows, time = 7, 2000
    generator = np.random.default_rng(0)
    emission = generator.uniform(size=(rows, time))
    emission[0] *= 1e-6
    emission[1] = 1 - 1e-6 * emission[1]
    sure = generator.uniform(size=time) < 0.3
    emission[2] = np.where(sure, np.round(emission[2]), emission[2])
    emission[3:] = np.array([1e-3, 0.05, 0.4, 0.99])[:, None]
    emission = tf.constant(emission, "float32")
    ones = tf.ones((rows, time, 1))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((ones, emission))
        outputs = outputs_of(ones, emission, time)
        total = tf.reduce_sum(outputs)
        middle = tf.reduce_sum(outputs[:, 400:600])
    lengths = lengths_of(emission, time)
    mask = expectation.output_mask(lengths)
    # Rows of the matrix, then columns: each step is emitted somewhere.
    np.testing.assert_allclose(outputs[..., 0], mask, atol=1e-5)
    columns = tape.gradient(total, ones)[..., 0]
    np.testing.assert_allclose(columns, emission, atol=1e-5)
    np.testing.assert_allclose(np.sum(lengths, axis=1), 1, atol=1e-5)
    # An emission counts one more output, wherever it stands. A gradient is a
    # difference of sums of 2,000 outputs, in float32.
    np.testing.assert_allclose(tape.gradient(total, emission), 1, atol=5e-4)
    assert np.all(np.isfinite(tape.gradient(middle, emission)))
    assert np.min(outputs) >= 0 and np.min(lengths) >= 0


@pytest.mark.parametrize(
    "probability",
    [
        pytest.param(1e-10, marks=pytest.mark.slow),
        1e-7,
        pytest.param(1e-4, marks=pytest.mark.slow),
    ],
)
def test_lengths_of_rare_emissions_in_float32(probability):
    """Each block rounds alike: over the blocks, errors would add up."""
    time = 20_000
    emission = np.full((1, time), probability, "float32")
    (lengths,) = lengths_of(emission, 3).numpy()
    rare = float(emission[0, 0])
    none = np.exp(time * np.log1p(-rare))
    odds = rare / (1 - rare)
    one = none * time * odds
    two = one * (time - 1) / 2 * odds
    expected = [none, one, two, 1 - none - one - two]
    np.testing.assert_allclose(
        lengths,
        expected,
        **within("float32", 3 * time / expectation.BLOCK_STEPS),
    )
    # Of one block: products of its counts, their sum, and the scale.
    np.testing.assert_allclose(
        np.sum(lengths, dtype="float64"),
        1,
        rtol=tolerance("float32", expectation.BLOCK_STEPS + 2),
    )


def test_sums_of_a_long_matrix_in_float32():
    """In a graph, which simplifies what should be the same."""
    emission = np.full((1, 1000), 0.4, "float32")
    run = tf.function(emission_matrix, autograph=False)
    matrix = run(emission, 1000).numpy().astype("float64")
    lengths = lengths_of(emission.astype("float64"), 1000)
    mask = expectation.output_mask(lengths)
    np.testing.assert_allclose(matrix.sum(2), mask, atol=1e-5)
    np.testing.assert_allclose(matrix.sum(1), emission, atol=1e-5)


def test_masked_steps_are_not_there(path):
    sequence, emission = random_inputs(23, batch=4)
    generator = np.random.default_rng(1)
    mask = generator.uniform(size=(4, 23)) < 0.6
    mask[0], mask[1] = False, np.arange(23) >= 9
    sequence[~mask], emission[~mask] = np.nan, np.nan
    layer = subsample_layer(20, return_emission=True, dtype="float64")
    decisions = {}

    def masked_layer(sequence, emission, length):
        outputs, found = layer(sequence, emission, mask=mask)
        decisions.update(found)
        return outputs

    outputs, *gradients = results(masked_layer, sequence, emission, 20)
    lengths = decisions["length_distribution"]
    matrix = decisions["emission"].numpy()
    weights = weighted((20, FEATURES))
    assert not np.any(outputs[0]) and lengths[0, 0] == 1
    for b in range(1, 4):
        alone = [
            tf.constant(x[b : b + 1, mask[b]]) for x in (sequence, emission)
        ]
        with tf.GradientTape() as tape:
            tape.watch(alone)
            expected = product(*alone, 20)
            loss = tf.reduce_sum(expected * weights)
        assert_close(outputs[b], expected[0])
        assert_close(
            [g[b][mask[b]] for g in gradients],
            [g[0] for g in tape.gradient(loss, alone)],
        )
        assert_close(lengths[b], lengths_of(alone[1], 20)[0])
        assert_close(matrix[b][:, mask[b]], emission_matrix(alone[1], 20)[0])
    for masked in (*gradients, np.swapaxes(matrix, 1, 2)):
        assert not np.any(np.asarray(masked)[~mask])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_keeps_probabilities_wide(dtype, monkeypatch):
    take_path("unrolled", monkeypatch)
    sequence, emission = random_inputs(37, dtype="float32")
    sequence = tf.cast(sequence, dtype)
    layer = subsample_layer(37, dtype=f"mixed_{dtype}")
    outputs, of_sequence, of_emission = results(
        lambda x, e, length: layer(x, e), sequence, emission, 37
    )
    assert outputs.dtype == of_sequence.dtype == dtype
    assert of_emission.dtype == "float32"
    expected = product(tf.cast(sequence, "float32"), emission, 37)
    np.testing.assert_array_equal(
        tf.cast(outputs, "float32"),
        tf.cast(tf.cast(expected, dtype), "float32"),
    )


def test_no_examples(path):
    sequence, emission = random_inputs(19, batch=0)
    outputs = outputs_of(sequence, emission, 5)
    assert outputs.shape == (0, 5, FEATURES)
    assert lengths_of(emission, 5).shape == (0, 6)


def test_nothing_of_time_times_outputs_is_held():
    time, batch = 1000, 2

    @tf.function(autograph=False)
    def run(sequence, emission):
        with tf.GradientTape() as tape:
            tape.watch((sequence, emission))
            outputs = outputs_of(sequence, emission, time)
            loss = tf.reduce_sum(outputs**2)
        return tape.gradient(loss, (sequence, emission))

    graph = run.get_concrete_function(
        *[tf.constant(x) for x in random_inputs(time, batch)]
    ).graph
    sizes = [
        output.shape.num_elements() or 0
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.shape.rank is not None
    ]
    assert len(sizes) > 500
    assert max(sizes) < batch * time * time / 4
