"""Packed loops against the plain loop, which holds states at other steps."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech.core.kept_steps import pack
from keras_seqmech.core.loop import Constant
from keras_seqmech.core.loop import ScanOptions
from keras_seqmech.core.loop import can_pack
from keras_seqmech.core.loop import scan
from tests.core.recurrence import SPECS
from tests.core.recurrence import assert_same
from tests.core.recurrence import differentiated
from tests.core.recurrence import make_arguments
from tests.core.recurrence import operands_of
from tests.core.recurrence import step


def run_plain(arguments, keep):
    """All rows do all steps, and keep their states at those not kept."""
    inputs, parameters, states = arguments
    mask = tf.transpose(keep)

    def hold(operands, states):
        keep = operands["keep"]
        outputs, new = step(operands, states)
        outputs = {
            k: tf.where(keep[:, None], x, tf.zeros_like(x))
            for k, x in outputs.items()
        }
        return outputs, (
            tf.where(keep[:, None], new[0], states[0]),
            tf.where(keep[:, None, None], new[1], states[1]),
        )

    operands = {**operands_of(inputs, parameters), "keep": Constant(mask)}
    return scan(hold, operands, states, SPECS)


def run_packed(arguments, keep, recompute_gradient, step=step):
    inputs, parameters, states = arguments
    packing = pack(keep)
    inputs = tf.nest.map_structure(lambda x: packing.gather(swap(x)), inputs)
    outputs, states = scan(
        step,
        operands_of(inputs, parameters),
        states,
        SPECS,
        ScanOptions(recompute_gradient),
        layout=packing,
    )
    return {k: swap(packing.scatter(x)) for k, x in outputs.items()}, states


def swap(x):
    """Time first to batch first, and back."""
    return tf.transpose(x, (1, 0, 2))


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


def test_every_pattern_of_a_small_batch(plain, packed):
    """And random ones of any size, all in one trace."""
    patterns = [
        np.reshape(bits, (2, 3))
        for bits in itertools.product([False, True], repeat=6)
    ]
    generator = np.random.default_rng(0)
    for rate in (0.1, 0.5, 0.9, 1.0):
        shape = generator.integers(1, 9), generator.integers(1, 12)
        patterns.append(generator.random(shape) < rate)
    for keep in patterns:
        arguments = make_arguments(*keep.shape)
        assert_same(packed(arguments, keep), plain(arguments, keep))
    assert packed.experimental_get_tracing_count() == 1


KEEP = np.array([[0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]], bool)


def test_only_rows_that_have_a_step_take_part():
    rows = []

    def noting(operands, states):
        rows.append((len(operands["scale"]), len(states[0]), len(states[1])))
        return step(operands, states)

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


@pytest.mark.parametrize(
    "traced", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_recomputing_gradient_refuses_to_be_differentiated_again(traced):
    arguments = make_arguments(*KEEP.shape)

    def run():
        return penalty(
            lambda *a: run_packed(*a, recompute_gradient=True), arguments, KEEP
        )

    with pytest.raises(LookupError, match="differentiated twice"):
        tf.function(run, autograph=False)() if traced else run()


def test_packing_is_refused_where_sizes_are_static():
    inputs, parameters, states = make_arguments(*KEEP.shape)

    def run():
        scan(
            step,
            operands_of(inputs, parameters),
            states,
            SPECS,
            layout=pack(KEEP),
        )

    run = tf.function(run, jit_compile=True, autograph=False)
    with pytest.raises(ValueError, match="`layout`.*Received: options="):
        run()


def test_it_is_possible_where_sizes_may_depend_on_values():
    possible = {}

    def note(place, options=ScanOptions()):  # noqa: B008
        possible[place] = can_pack(options)

    note("eager")
    note("eager, compiled loop", ScanOptions(jit_compile=True))
    tf.function(lambda: note("graph"))()
    tf.function(lambda: note("compiled loop", ScanOptions(jit_compile=True)))()
    tf.function(lambda: note("compiled"), jit_compile=True)()
    assert possible == {
        "eager": True,
        "eager, compiled loop": True,
        "graph": True,
        "compiled loop": False,
        "compiled": False,
    }
