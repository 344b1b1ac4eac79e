"""Packed loops against the plain loop, which holds states at other steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.scan.loop import scan
from keras_seqmech.core.scan.packing import pack
from keras_seqmech.core.scan.protocol import Operands
from keras_seqmech.core.scan.protocol import ScanOptions

WIDTH = 3
SPECS = {
    "sum": tf.TensorSpec((None, WIDTH), "float64"),
    "narrow": tf.TensorSpec((None, 1), "float64"),
}


def make_arguments(batch, steps, seed=0):
    """Inputs, time first; parameters; states."""
    generator = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(generator.normal(size=shape) / 2)

    inputs = {
        "scale": normal(steps, batch, WIDTH),
        "gates": [normal(steps, batch, WIDTH), normal(steps, batch, 1)],
        "noise": normal(steps, batch, WIDTH),
    }
    parameters = {
        "gates": normal(WIDTH, WIDTH + 1),
        "closing": normal(WIDTH, WIDTH),
        "alone": normal(WIDTH, 1),
        "bias": normal(WIDTH),
    }
    return inputs, parameters, (normal(batch, WIDTH), normal(batch, 2, WIDTH))


def step(inputs, states, affine):
    """A step that uses every kind of input and of product."""
    first, second = states
    wide, narrow = affine("gates", first * inputs["scale"])
    (closing,) = affine("closing", tf.tanh(wide) * second[:, 0])
    (alone,) = affine("alone", second[:, 1])
    first = tf.tanh(closing + inputs["noise"]) + narrow
    outputs = {"sum": alone + first, "narrow": narrow}
    return outputs, (first, second + tf.tanh(narrow)[:, None])


def operands_of(inputs, parameters):
    inputs = dict(inputs)
    constants = {"noise": inputs.pop("noise")}
    weights = {k: parameters[k] for k in ("gates", "closing", "alone")}
    return Operands(inputs, weights, {"closing": parameters["bias"]}, constants)


def run_plain(arguments, keep):
    """All rows do all steps, and keep their states at those not kept."""
    inputs, parameters, states = arguments
    mask = tf.transpose(keep)

    def hold(inputs, states, affine):
        keep = inputs["keep"]
        outputs, new = step(inputs, states, affine)
        outputs = {
            k: tf.where(keep[:, None], x, tf.zeros_like(x))
            for k, x in outputs.items()
        }
        return outputs, (
            tf.where(keep[:, None], new[0], states[0]),
            tf.where(keep[:, None, None], new[1], states[1]),
        )

    operands = operands_of(inputs, parameters)
    operands.constants["keep"] = mask
    return scan(hold, operands, states, SPECS)


def run_packed(arguments, keep, recompute_gradient, step=step):
    inputs, parameters, states = arguments
    packing = pack(keep)
    inputs = tf.nest.map_structure(lambda x: packing.gather(x, True), inputs)
    outputs, states = scan(
        step,
        operands_of(inputs, parameters),
        states,
        SPECS,
        ScanOptions(recompute_gradient),
        packing=packing,
    )
    return {k: packing.scatter(x, True) for k, x in outputs.items()}, states


def differentiated(run):
    """Outputs, final states, and gradients of a loss of all of them."""

    def outcome(arguments, keep):
        with tf.GradientTape() as tape:
            tape.watch(arguments)
            outputs, states = run(arguments, keep)
            loss = tf.reduce_sum(outputs["sum"] ** 2)
            loss += tf.reduce_sum(tf.sin(outputs["narrow"]))
            loss += sum(tf.reduce_sum(tf.cos(x)) for x in states)
        gradients = tape.gradient(loss, arguments, unconnected_gradients="zero")
        # The loop gives constants no gradient.
        del gradients[0]["noise"]
        return outputs, states, gradients

    return outcome


def traced_for_all_sizes(function):
    def unknown(x):
        return tf.TensorSpec((None, None, *x.shape[2:]), x.dtype)

    inputs, parameters, states = make_arguments(2, 2)
    signature = (
        tf.nest.map_structure(unknown, inputs),
        tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape, x.dtype), parameters
        ),
        tuple(tf.TensorSpec((None, *x.shape[1:]), x.dtype) for x in states),
    )
    keep = tf.TensorSpec((None, None), "bool")
    return tf.function(function, input_signature=[signature, keep])


@pytest.fixture(scope="module")
def plain():
    return traced_for_all_sizes(differentiated(run_plain))


@pytest.fixture(
    scope="module", params=[False, True], ids=["plain", "recompute"]
)
def packed(request):
    def run(arguments, keep):
        return run_packed(arguments, keep, request.param)

    return traced_for_all_sizes(differentiated(run))


def assert_same(actual, expected):
    tf.nest.assert_same_structure(actual, expected)
    for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_every_pattern_of_a_small_batch(plain, packed):
    arguments = make_arguments(2, 3)
    for bits in itertools.product([False, True], repeat=6):
        keep = np.reshape(bits, (2, 3))
        assert_same(packed(arguments, keep), plain(arguments, keep))


@pytest.mark.slow
def test_random_patterns_of_any_size(plain, packed):
    """Gates, some of rows with none, and lengths; all sizes in one trace."""
    for seed in range(36):
        generator = np.random.default_rng(seed)
        batch, steps = generator.integers(1, 9), generator.integers(1, 12)
        rate = generator.choice([0.1, 0.5, 0.9, 1.0])
        keep = generator.random((batch, steps)) < rate
        if seed % 3 == 1:
            keep &= generator.random((batch, 1)) < 0.5
        if seed % 3 == 2:
            keep = np.sort(keep, axis=1)[:, ::-1]
        arguments = make_arguments(batch, steps, seed)
        assert_same(packed(arguments, keep), plain(arguments, keep))
    assert packed.experimental_get_tracing_count() == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (1, 0)])
@pytest.mark.parametrize("eager", [False, True])
def test_nothing_to_do_leaves_the_states(packed, shape, eager):
    """No row, no step: states pass through, and so do their gradients."""
    run = packed.python_function if eager else packed
    arguments = make_arguments(*shape)
    outputs, states, gradients = run(arguments, np.zeros(shape, bool))
    assert outputs["sum"].shape == (shape[1], shape[0], WIDTH)
    assert_same(states, arguments[2])
    assert_same(gradients[2], tuple(-tf.sin(x) for x in arguments[2]))
    assert_same(
        gradients[1], tf.nest.map_structure(tf.zeros_like, arguments[1])
    )


KEEP = np.array([[0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]], bool)


def test_only_rows_that_have_a_step_take_part():
    rows = []

    def noting(inputs, states, affine):
        rows.append((len(inputs["scale"]), len(states[0]), len(states[1])))
        return step(inputs, states, affine)

    run_packed(make_arguments(*KEEP.shape), KEEP, False, noting)
    assert rows == [(2, 2, 2), (2, 2, 2), (1, 1, 1)]


def penalty(run, arguments, keep):
    """The gradient of the norms of gradients."""
    with tf.GradientTape() as outer:
        outer.watch(arguments)
        *_, gradients = differentiated(run)(arguments, keep)
        norms = sum(tf.reduce_sum(g**2) for g in tf.nest.flatten(gradients))
    return outer.gradient(norms, arguments, unconnected_gradients="zero")


@pytest.mark.slow
@pytest.mark.parametrize("traced", [False, True])
def test_plain_gradient_has_a_gradient(traced):
    arguments = make_arguments(*KEEP.shape)
    expected = penalty(run_plain, arguments, KEEP)

    def run():
        return penalty(
            lambda *a: run_packed(*a, recompute_gradient=False), arguments, KEEP
        )

    actual = tf.function(run)() if traced else run()
    assert_same(actual, expected)


@pytest.mark.parametrize("traced", [False, True])
def test_recomputing_gradient_refuses_to_be_differentiated_again(traced):
    arguments = make_arguments(*KEEP.shape)

    def run():
        return penalty(
            lambda *a: run_packed(*a, recompute_gradient=True), arguments, KEEP
        )

    with pytest.raises(LookupError, match="differentiable_twice"):
        tf.function(run, autograph=False)() if traced else run()


@pytest.mark.parametrize(
    "options",
    [ScanOptions(unroll=True), ScanOptions(steps=2), ScanOptions()],
    ids=["unroll", "steps", "xla"],
)
def test_packing_is_refused_where_sizes_are_static(options):
    inputs, parameters, states = make_arguments(*KEEP.shape)

    def run():
        scan(
            step,
            operands_of(inputs, parameters),
            states,
            SPECS,
            options,
            packing=pack(KEEP),
        )

    if options == ScanOptions():
        run = tf.function(run, jit_compile=True, autograph=False)
    with pytest.raises(ValueError, match="`packing`.*Received: options="):
        run()


def test_states_of_unknown_sizes_are_refused():
    inputs, parameters, states = make_arguments(*KEEP.shape)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None] * s.shape.rank, s.dtype) for s in states
        ],
        autograph=False,
    )
    def run(*states):
        return run_packed((inputs, parameters, states), KEEP, False)

    with pytest.raises(ValueError, match="`states`.*Received: shapes="):
        run(*states)
