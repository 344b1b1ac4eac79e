"""`verify` passes what keeps its contracts, and names what is broken."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_seqmech.core import checks
from keras_seqmech.core import masks
from keras_seqmech.testing import contracts
from keras_seqmech.testing import verify

X = np.random.default_rng(0).normal(size=(5, 7, 3))
NAMES = [check.__name__ for check in contracts.CONTRACTS]


@keras.saving.register_keras_serializable(package="tests")
class RunningSum(keras.layers.Layer):
    """Adds up the real steps, in a stream too, through a kernel."""

    def __init__(self, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale
        self.supports_masking = True

    def build(self, input_shape):
        self.kernel = self.add_weight(name="kernel", shape=(3, 2))

    def call(self, sequence, mask=None):
        checks.check_mask("mask", mask, sequence.shape)
        steps = masks.zero_masked(sequence, mask)
        return self.scale * ops.cumsum(steps, axis=1) @ self.kernel

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}

    def stream_state(self, batch_size):
        return {"total": ops.zeros((batch_size, 3))}

    def stream_step(self, state, tick, sequence, mask=None):
        real = tick.real(mask)[:, None]
        total = state["total"] + ops.where(real, sequence[:, 0], 0.0)
        return (self.scale * total @ self.kernel)[:, None], {"total": total}


def test_a_layer_that_keeps_all():
    assert verify(lambda: RunningSum(scale=0.5), X) == NAMES


def test_a_layer_of_less():
    """Without a mask, weights or a step; the inputs have names."""
    found = verify(keras.layers.Identity, {"inputs": X}, skip=NAMES[3:])
    assert found == ["same_seed_gives_the_same"]


class FirstHalf(keras.layers.Layer):
    def call(self, sequence):
        return sequence[:, : -(-sequence.shape[1] // 2)]


def test_layers_that_shorten_are_refused():
    with pytest.raises(ValueError, match="as many steps.*output_0 has 4 of 7"):
        verify(FirstHalf, X)


@keras.saving.register_keras_serializable(package="tests")
class HardGates(keras.layers.Layer):
    def call(self, sequence):
        return ops.cast(sequence > 0, self.compute_dtype)


def test_whole_numbers_do_not_tell_how_wide_they_are():
    assert "dtype_policies_hold" in verify(HardGates, X)


def test_a_decision_that_half_precision_turns_is_explained():
    x = np.where(X == X[0, 0, 0], 1e-9, X)
    layer = lambda: HardGates()  # noqa: E731
    with pytest.raises(AssertionError) as error:
        verify(layer, x)
    message = str(error.value)
    assert "under mixed_float16" in message
    assert "nearly a tie" in message and "choose other inputs" in message


@keras.saving.register_keras_serializable(package="tests")
class MinusInfinity(RunningSum):
    """Whole numbers, and -inf where a step is below 0."""

    def call(self, sequence, mask=None):
        checks.check_mask("mask", mask, sequence.shape)
        whole = ops.where(sequence > 0, 1.0, -np.inf)
        whole = ops.cast(whole, self.compute_dtype)
        return masks.zero_masked(whole, mask)


def test_infinities_are_right_answers():
    found = verify(MinusInfinity, X, skip=["stream_gives_the_same"])
    assert {"masked_steps_reach_nothing", "dtype_policies_hold"} <= {*found}


class ReadsMasked(RunningSum):
    def call(self, sequence, mask=None):
        return super().call(sequence)


class GivesNaN(RunningSum):
    """Divides by the number of real steps, none of which may be there."""

    def call(self, sequence, mask=None):
        total = super().call(sequence, mask)
        if mask is None:
            return total / sequence.shape[1]
        count = ops.sum(ops.cast(mask, total.dtype), axis=1)
        return total / count[:, None, None]


class MeanOverPadding(RunningSum):
    def call(self, sequence, mask=None):
        total = super().call(sequence, mask)
        return total / ops.cast(ops.shape(sequence)[1], total.dtype)


class ForgetsToCast(RunningSum):
    def call(self, sequence, mask=None):
        return ops.cast(super().call(sequence, mask), "float32")


class StepDiffers(RunningSum):
    def stream_step(self, state, tick, sequence, mask=None):
        return super().stream_step(state, tick, sequence)


class StepForgets(RunningSum):
    """Begins anew where no step arrives."""

    def stream_step(self, state, tick, sequence, mask=None):
        y, state = super().stream_step(state, tick, sequence, mask)
        total = ops.where(tick.present[:, None], state["total"], 0.0)
        return y, {"total": total}


class ForgetsArgument(RunningSum):
    def __init__(self, scale=1.0, power=1, **kwargs):
        super().__init__(scale, **kwargs)


class ForgetsValue(RunningSum):
    def get_config(self):
        return {**super().get_config(), "scale": 1.0}


class TakesFloatMask(RunningSum):
    def call(self, sequence, mask=None):
        mask = None if mask is None else ops.cast(mask, "bool")
        return super().call(sequence, mask)


class DrawsAtInference(RunningSum):
    def call(self, sequence, mask=None):
        drawn = keras.random.uniform(())
        return drawn * super().call(sequence, mask)


class TrainsAlways(RunningSum):
    @property
    def trainable_variables(self):
        return [self.kernel]


class CountsInPython(RunningSum):
    calls = 0

    def call(self, sequence, mask=None):
        self.calls += 1
        return self.calls * super().call(sequence, mask)


class AnnouncesAnother(RunningSum):
    def compute_output_spec(self, sequence, mask=None):
        shape = (*sequence.shape[:2], 3)
        return keras.KerasTensor(shape, self.compute_dtype)


@pytest.mark.parametrize(
    "layer_class, contract",
    [
        (ReadsMasked, "masked_steps_reach_nothing"),
        (GivesNaN, "masked_steps_reach_nothing"),
        (MeanOverPadding, "padding_changes_nothing"),
        (ForgetsToCast, "dtype_policies_hold"),
        (StepDiffers, "stream_gives_the_same"),
        (StepForgets, "stream_gives_the_same"),
        (ForgetsArgument, "config_covers_arguments"),
        (ForgetsValue, "saved_file_gives_the_same"),
        (TakesFloatMask, "bad_masks_are_refused"),
        (DrawsAtInference, "same_seed_gives_the_same"),
        (CountsInPython, "graph_gives_the_same"),
        (AnnouncesAnother, "outputs_are_announced"),
        (TrainsAlways, "frozen_layer_stays_frozen"),
    ],
)
def test_what_is_broken_is_named(layer_class, contract):
    keras.saving.register_keras_serializable("tests")(layer_class)
    with pytest.raises(AssertionError) as error:
        verify(lambda: layer_class(scale=0.5), X)
    contract_line, layer, inputs, reason, *_ = str(error.value).splitlines()
    assert f"Contract `{contract}` does not hold" in contract_line
    assert layer.startswith(f"Layer: {layer_class.__name__}(")
    assert inputs == "Inputs: sequence: float32 (5, 7, 3); mask: mask"
    assert reason


@pytest.mark.parametrize(
    "name, call",
    [
        ("make", lambda: verify(RunningSum(), X)),
        ("inputs", lambda: verify(RunningSum, X[:4])),
        ("inputs", lambda: verify(RunningSum, X[:, :3])),
        ("skip", lambda: verify(RunningSum, X, skip=["masks"])),
    ],
)
def test_bad_arguments(name, call):
    with pytest.raises(ValueError, match=f"`{name}` must .*Received: {name}="):
        call()
