"""The contracts of layers over sequences, one function each.

Each is given a `Subject`, and says in one message which contract fails, of
which layer, on which inputs.
"""

import functools
import inspect
import json
import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_seqmech.core.graph import sublayers
from keras_seqmech.core.stream import steps_of
from keras_seqmech.serving._fresh_process import in_chunks
from keras_seqmech.testing import tolerances
from keras_seqmech.testing.subject import Subject
from keras_seqmech.testing.subject import call_layer
from keras_seqmech.testing.subject import constructor_defaults
from keras_seqmech.testing.subject import dtype_policy
from keras_seqmech.testing.subject import functional_model
from keras_seqmech.testing.subject import name_outputs

# All contracts, each with a function that says whether it is for a layer.
CONTRACTS: dict[Callable, Callable[[Subject], bool]] = {}
# What stands at masked steps, by kind of number: first what is harmless.
FILLS: dict[str, Any] = {
    "f": ([0.0], [np.nan, np.inf, -np.inf, 3e38]),
    "i": ([0], [np.iinfo("int32").min, np.iinfo("int32").max]),
}


def contract(applies: Callable[[Subject], bool] = lambda _: True) -> Callable:
    """Makes a function a contract, whose failures say what it is about."""

    def decorate(check: Callable) -> Callable:
        @functools.wraps(check)
        def checked(subject: Subject, *args: Any, **options: Any) -> None:
            try:
                check(subject, *args, **options)
            except Exception as error:
                meaning = " ".join((inspect.getdoc(check) or "").split())
                raise AssertionError(
                    f"Contract `{check.__name__}` does not hold: {meaning}\n"
                    f"{subject.describe()}\n"
                    f"{type(error).__name__}: {str(error).strip()}"
                ) from error

        CONTRACTS[checked] = applies
        return checked

    return decorate


def require(holds: Any, message: str) -> None:
    """Asserts that something holds, with a message that says what does not."""
    if not holds:
        raise AssertionError(message)


def assert_equal(found: Any, expected: Any) -> None:
    """Asserts that no number differs."""
    keras.tree.map_structure(np.testing.assert_array_equal, found, expected)


def takes_mask(subject: Subject) -> bool:
    """Returns whether the layer has a mask."""
    return subject.mask is not None


def streams(subject: Subject) -> bool:
    """Returns whether the layer declares a step that can be streamed."""
    steps = steps_of(subject.layer)
    refusal = getattr(steps, "stream_refusal", None)
    return steps is not None and refusal is None


@contract()
def same_seed_gives_the_same(subject: Subject) -> None:
    """Seeds decide weights and draws; inference draws nothing."""

    def run() -> Any:
        keras.utils.set_random_seed(3)
        layer = subject.make()
        call_layer(layer, subject.sample(2))
        weights = [v.value for v in layer.variables]
        subject.restore(weights)
        return weights, [
            subject.go_on(subject.graph(training), subject.inputs)[0]
            for training in (True, True, False, False)
        ]

    (weights, results), again = run(), run()
    assert_equal((weights, results), again)
    assert_equal(results[2], results[3])


@contract(takes_mask)
def masked_steps_reach_nothing(
    subject: Subject, trainings: Sequence[bool] = (False, True)
) -> None:
    """Values at masked steps, NaN too, reach no output and no gradient.

    Outputs of a row without a real step are zero.
    """
    masked, empty = ~subject.masks, ~subject.masks.any(axis=1)
    for training in trainings:
        results = []
        for kind in (0, 1):
            filled = {name: x.copy() for name, x in subject.inputs.items()}
            for name in subject.timed:
                values = filled[name][masked]
                fill = FILLS[values.dtype.kind][kind]
                filled[name][masked] = np.resize(fill, values.shape)
            outputs, of_inputs, of_weights = subject.run(
                subject.graph(training), filled, subject.masks
            )
            results.append({"outputs": outputs, "gradients": of_weights})
            for name in of_inputs.keys() & set(subject.timed):
                require(
                    (of_inputs[name][masked] == 0).all(),
                    f"masked steps of `{name}` get a gradient",
                )
        for path, x in keras.tree.flatten_with_path(results[1]):
            # An output may be infinite by itself, as a log of 0 is.
            holds = ~np.isnan(x) if path[0] == "outputs" else np.isfinite(x)
            require(holds.all(), f"{path} is not finite: {x}")
        assert_equal(*results)
        for name, value in results[0]["outputs"].items():
            require(
                name in subject.nonzero or (value[empty] == 0).all(),
                f"{name} of a row without a real step: {value[empty]}",
            )
            require((value[~empty] != 0).any(), f"{name} is always zero")


@contract(takes_mask)
def padding_changes_nothing(subject: Subject) -> None:
    """A row of a padded batch gives what it gives alone, without padding."""
    inputs, masks = subject.sample(3), subject.masks[:3]
    timed = dict.fromkeys(subject.timed, 1)

    def alone(values: dict, axes: dict, row: int) -> dict:
        """The row of a batch, without its padding."""
        real = np.flatnonzero(masks[row])
        steps = range(real[0], real[-1] + 1)
        rows = {name: x[row : row + 1] for name, x in values.items()}
        return {
            name: x.take(steps, axis=axes[name]) if name in axes else x
            for name, x in rows.items()
        }

    for training in subject.trainings:
        function = subject.graph(training)
        outputs, of_inputs, of_weights = subject.run(function, inputs, masks)
        total = [np.zeros_like(g) for g in of_weights]
        for row in range(3):
            found, of_row, parts = subject.run(
                function, alone(inputs, timed, row)
            )
            subject.assert_close(found, alone(outputs, subject.time_axes, row))
            subject.assert_close(of_row, alone(of_inputs, timed, row))
            total = [a + b for a, b in zip(total, parts)]
        subject.assert_close(total, of_weights, terms=3)


@contract()
def graph_gives_the_same(subject: Subject) -> None:
    """One graph serves all sizes, with the outputs and gradients of eager."""
    for training in subject.trainings:
        graph = subject.graph(training)
        for rows, steps in ((subject.rows, subject.steps), (2, 1)):
            inputs, mask = subject.sample(rows, steps), subject.masks
            mask = mask[:rows, :steps]
            found = subject.run(graph, inputs, mask)
            expected = subject.run(subject.gradients(training), inputs, mask)
            subject.assert_close(found, expected)
        traces = graph.experimental_get_tracing_count()
        require(traces == 1, f"the graph was traced {traces} times")


@contract()
def xla_gives_the_same(subject: Subject) -> None:
    """`jit_compile=True` gives the outputs and gradients of eager."""
    for training in subject.trainings:
        kind = subject.gradients if training else subject.values
        function = kind(training)
        compiled = tf.function(function, jit_compile=True)
        found = subject.run(compiled, subject.inputs, subject.masks)
        expected = subject.run(function, subject.inputs, subject.masks)
        subject.assert_close(found, expected)


@contract()
def one_row_gives_the_same(subject: Subject) -> None:
    """A batch of one, without a mask, gives what the row of a batch gives."""
    batch, *_ = subject.run(subject.graph(False), subject.inputs)
    for row in (0, 3):
        alone = {n: x[row : row + 1] for n, x in subject.inputs.items()}
        found = subject.outputs(alone)
        expected = {name: x[row : row + 1] for name, x in batch.items()}
        subject.assert_close(found, expected)


@contract()
def dtype_policies_hold(
    subject: Subject,
    policies: Sequence[str] = ("mixed_float16", "mixed_bfloat16", "float64"),
) -> None:
    """Policies change precision and dtypes alone.

    Weights have the policy's variable dtype, outputs its compute dtype;
    decisions, and outputs that are `wide`, are float32 or wider.
    """
    for name in policies:
        other, policy = subject.under(name), keras.DTypePolicy(name)
        for variable in other.layer.trainable_variables:
            require(
                variable.dtype == policy.variable_dtype,
                f"{variable.path} is {variable.dtype} under {name}",
            )
        half = policy.compute_dtype != "float64"
        # Products add up in float32, and gates forget: in half precision the
        # roundings of the last step and its output are what is left.
        operations = 2 if half else 100 * subject.steps
        for training in subject.trainings:
            expected, *_ = subject.run(
                subject.graph(training), subject.inputs, subject.masks
            )
            found = other.outputs(subject.inputs, subject.masks, training)
            for key, value in found.items():
                wide = "float64" if name == "float64" else "float32"
                plain = re.fullmatch(r"output_\d+", key)
                narrow = plain and key not in subject.wide
                dtype = policy.compute_dtype if narrow else wide
                require(
                    value.dtype == dtype or value.dtype.kind in "biu",
                    f"{key} is {value.dtype}, not {dtype}, under {name}",
                )
            dtype = policy.compute_dtype if half else "float32"
            try:
                tolerances.assert_close(
                    found, expected, operations, dtype, scale=1
                )
            except AssertionError as error:
                remedy = (
                    " A decision that is nearly a tie may turn out otherwise "
                    "in half precision: choose other inputs."
                )
                raise AssertionError(
                    f"Numbers differ under {name}.{remedy if half else ''}"
                    f"\n{error}"
                ) from error
            if not half:
                _require_wider_than_float32(other, training)


def _require_wider_than_float32(subject: Subject, training: bool) -> None:
    """Digits of the inputs beyond float32 reach the outputs.

    Whole numbers, such as hard gates, do not tell.
    """
    generator = np.random.default_rng(5)
    inputs = {
        name: x.astype("float64") * (1 + 1e-10 * generator.normal(size=x.shape))
        if x.dtype.kind == "f"
        else x
        for name, x in subject.inputs.items()
    }
    outputs = subject.outputs(inputs, subject.masks, training)
    values = [x for x in outputs.values() if x.dtype == "float64"]
    values = [x[np.isfinite(x)] for x in values]
    values = [x for x in values if (x % 1).any()]
    require(
        not values or any((x != x.astype("float32")).any() for x in values),
        "the outputs in float64 are numbers of float32",
    )


@contract()
def outputs_are_announced(subject: Subject) -> None:
    """Symbolic outputs have the names, shapes and dtypes of the real ones."""
    inputs = subject.sample(2)
    with dtype_policy("mixed_float16"):
        layer = subject.make()
        symbols = {
            name: keras.Input(
                batch_shape=x.shape, dtype=x.dtype.name, name=name
            )
            for name, x in inputs.items()
        }
        announced = name_outputs(call_layer(layer, symbols))
        outputs = keras.Model(symbols, announced)(inputs)
    require(announced.keys() == outputs.keys(), f"they are {sorted(outputs)}")
    for name, value in outputs.items():
        spec = announced[name]
        fits = len(spec.shape) == len(value.shape) and all(
            a in (None, b) for a, b in zip(spec.shape, value.shape)
        )
        require(
            fits and spec.dtype == value.dtype.name,
            f"{name} is {value.dtype.name} {value.shape}, announced as {spec}",
        )


@contract(lambda subject: isinstance(subject.layer, keras.Layer))
def config_covers_arguments(subject: Subject) -> None:
    """`get_config` has each argument of the constructor, as JSON."""
    check_config(subject.make())


def check_config(layer: keras.Layer) -> dict[str, Any]:
    """The config of a layer, once it makes the same layer again."""
    names = constructor_defaults(type(layer)).keys()
    config = json.loads(json.dumps(layer.get_config()))
    missing = sorted(names - config.keys())
    require(not missing, f"not in it are {missing}")
    again = type(layer).from_config({**config}).get_config()
    require(again == layer.get_config(), f"{config} makes a layer of {again}")
    return config


@contract()
def saved_file_gives_the_same(subject: Subject, paths: bool = True) -> None:
    """A `.keras` file gives the same outputs, its weights the same names."""
    model = functional_model(subject.make(), subject.inputs)
    for variable in model.variables:
        # As training would: no bias at its initial zero.
        if "float" in variable.dtype:
            variable.assign(0.875 * variable)
        if variable.trainable:
            variable.assign(variable + keras.random.normal(variable.shape) / 4)
    loaded = _from_file(model)
    assert_equal(loaded(subject.given), model(subject.given))
    for new, old in zip(loaded.weights, model.weights, strict=True):
        name = "path" if paths else "name"
        found, expected = getattr(new, name), getattr(old, name)
        require(found == expected, f"{expected} is loaded as {found}")
        assert_equal(new.numpy(), old.numpy())


def _from_file(model: keras.Model) -> keras.Model:
    """The model as it is loaded from a file."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model.keras"
        model.save(path)
        return keras.saving.load_model(path)


@contract()
def exported_model_gives_the_same(subject: Subject) -> None:
    """A SavedModel of the layer gives the same outputs."""
    model = functional_model(subject.make(), subject.inputs)
    with tempfile.TemporaryDirectory() as directory:
        model.export(directory, verbose=False)
        served = tf.saved_model.load(directory).signatures["serving_default"]
        given = {name: tf.constant(x) for name, x in subject.given.items()}
        subject.assert_close(dict(served(**given)), model(subject.given))


@contract(streams)
def stream_gives_the_same(subject: Subject) -> None:
    """The layer, given its steps in chunks, gives what one call gives.

    No number depends on how the steps are cut into chunks. The layer is given
    what comes a step later, so that there are ticks without a step for it, and
    its outputs stand beside the inputs, which wait for them.
    """
    from keras_seqmech.serving import StreamingModel

    layer = functional_model(subject.make(), subject.inputs)
    symbols = {
        name: keras.Input(x.shape[1:], dtype=x.dtype, name=name)
        for name, x in layer.input.items()
    }
    names = {*subject.timed, subject.mask}
    timed = {n: x for n, x in symbols.items() if n in names}
    later = {name: _one_later(x) for name, x in timed.items()}
    outputs = {
        # Probabilities may depend on what a stream has not read yet.
        name: x
        for name, x in layer({**symbols, **later}).items()
        if name.startswith("output_")
    }
    for name, x in timed.items():
        outputs[f"given_{name}"] = keras.layers.Identity()(x)
    model = keras.Model(symbols, outputs)
    stream, inputs = StreamingModel(model), subject.given

    def run(cuts: list[int]) -> dict[str, Any]:
        state = stream.start(subject.rows)
        given, shown = stream.specs, stream.outputs
        found = in_chunks(stream.step, state, inputs, cuts, given, shown)
        return {name: x.numpy() for name, x in found.items()}

    at_once = run([subject.steps])
    expected = {name: x.numpy() for name, x in model(inputs).items()}
    subject.assert_close(at_once, expected)
    generator = np.random.default_rng(5)
    places = generator.integers(0, subject.steps + 1, subject.steps // 2)
    random = np.diff([0, *sorted(places), subject.steps])
    for cuts in ([1] * subject.steps + [0], random.tolist()):
        found = run(cuts)
        for name, x in at_once.items():
            message = f"{name} of chunks of {cuts} steps"
            np.testing.assert_array_equal(found[name], x, err_msg=message)


def _one_later(x: keras.KerasTensor) -> keras.KerasTensor:
    """The step that follows each step, and zeros at the end."""
    return ops.pad(x, [[0, 0], [0, 1], *[[0, 0]] * (len(x.shape) - 2)])[:, 1:]


@contract(lambda subject: bool(subject.trainable))
def frozen_layer_stays_frozen(
    subject: Subject, kind: type | None = None
) -> None:
    """With `trainable=False` no weight is trained, in copies and files too."""
    kind = kind or type(subject.layer)
    model = functional_model(subject.make(), subject.inputs)
    _layer_in(model, kind).trainable = False
    check_frozen(model, kind)
    check_frozen(keras.models.clone_model(model), kind)
    check_frozen(_from_file(model), kind)
    train_frozen(model, kind, subject.given)


def _layer_in(model: keras.Model, kind: type) -> Any:
    """The one layer of a class in a model."""
    (layer,) = (part for part in sublayers(model) if type(part) is kind)
    return layer


def check_frozen(model: keras.Model, kind: type) -> None:
    """Asserts that a layer has nothing to train, nor its model of it."""
    layer = _layer_in(model, kind)
    own = {id(variable) for variable in layer.variables}
    trained = [*layer.trainable_variables]
    trained += [v for v in model.trainable_variables if id(v) in own]
    require(not trained, f"trained are {[v.path for v in trained]}")


def train_frozen(model: keras.Model, kind: type, inputs: dict) -> None:
    """Asserts that training leaves the weights of a frozen layer."""
    check_frozen(model, kind)
    layer = _layer_in(model, kind)
    before = layer.get_weights()
    model.compile("sgd", "mse", run_eagerly=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*any trainable weights")
        model.train_on_batch(inputs, model(inputs))
    assert_equal(layer.get_weights(), before)


@contract(takes_mask)
def bad_masks_are_refused(
    subject: Subject, message: str = r"\b{name}\b"
) -> None:
    """Other shapes and what is not boolean raise a ValueError with its name."""
    good, name = subject.sample(2), str(subject.mask)
    pattern = re.compile(message.format(name=name), re.DOTALL)

    def refuse(fault: str, layer: Any, inputs: dict, mask: Any) -> None:
        try:
            call_layer(layer, inputs, {name: mask})
        except ValueError as error:
            found = str(error)
            require(pattern.search(found), f"of a mask, {fault}: {found}")
        else:
            raise AssertionError(f"a mask is taken that is {fault}")

    built, steps = subject.layer, subject.steps
    symbols = {
        name: keras.Input(batch_shape=x.shape, dtype=x.dtype.name)
        for name, x in good.items()
    }
    for fault, shape in {
        "shorter": (2, steps - 1),
        "of rank 3": (2, steps, 1),
        "of another batch": (3, steps),
    }.items():
        refuse(fault, built, good, np.ones(shape, "bool"))
        symbol = keras.Input(batch_shape=shape, dtype="bool")
        refuse(f"{fault}, symbolic", subject.make(), symbols, symbol)
    for fault, mask in {
        "of floats": np.full((2, steps), 0.5, "float32"),
        "of strings": np.full((2, steps), "yes"),
        "of bytes": tf.fill((2, steps), "yes"),
        "complex": np.ones((2, steps), "complex64"),
        "ragged": [[1] * steps, [1] * (steps - 1)],
        "a number": 1,
    }.items():
        refuse(fault, subject.make(), good, mask)
