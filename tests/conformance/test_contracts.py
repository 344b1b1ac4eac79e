"""Every contract of every public layer; see `registry`.

Layers are built, and their graphs compiled, once for all tests: those that
ask for a graph are bound to the layer run eagerly by
`test_one_graph_serves_all_sizes`.
"""

import inspect
import json
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech import analysis
from keras_seqmech.core.graph import sublayers
from tests.conformance.registry import CORE
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import FACTS
from tests.conformance.registry import LAYERS
from tests.conformance.registry import SCALARS
from tests.conformance.registry import TIME
from tests.conformance.registry import NoiseSwitch
from tests.conformance.registry import name_outputs
from tests.conformance.registry import over
from tests.conformance.subject import MASKS
from tests.conformance.subject import OPERATIONS
from tests.conformance.subject import Subject
from tests.conformance.subject import assert_close
from tests.conformance.subject import assert_equal
from tests.conformance.subject import forget_subjects
from tests.conformance.subject import subject_of
from tests.tolerances import assert_close as assert_within

# Here layers draw for themselves; nobody is to learn from it.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Layer .* draws in training"),
    pytest.mark.filterwarnings("ignore:Sizes that are drawn"),
]


@pytest.fixture(autouse=True)
def fresh_state():
    """As for all tests, but the graphs' kernels stay: none is made twice."""
    keras.config.set_dtype_policy("float32")
    keras.utils.set_random_seed(0)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="module")
def noise():
    """The switch of all noise, on; graphs of this module read it."""
    with pytest.MonkeyPatch.context() as patch:
        yield NoiseSwitch(patch)
    forget_subjects()


@pytest.fixture(autouse=True)
def noise_is_on(noise):
    noise.turn(True)


@pytest.fixture
def silence(noise):
    """Takes the noise out of training: all that is drawn is zero."""
    noise.turn(False)


# Training does all that inference does, and more.
TRAINING_FIRST = pytest.mark.parametrize(
    "training", [pytest.param(False, marks=pytest.mark.slow), True]
)


def trainings(entry):
    """Training too, where `silence` makes it deterministic."""
    return (False, True) if entry.silent else (False,)


def test_every_public_layer_is_registered():
    public = {
        value
        for name in keras_seqmech.__all__
        if isinstance(value := getattr(keras_seqmech, name), type)
        and issubclass(value, keras.layers.Layer)
        and not issubclass(value, keras.Model)
    }
    assert public == set(FACTS) == {entry.layer_class for entry in CORE}
    for layer_class, facts in FACTS.items():
        name = keras.saving.get_registered_name(layer_class)
        assert name == f"keras_seqmech>{layer_class.__name__}"
        entries = [e for e in CORE if e.layer_class is layer_class]
        (first,) = (e for e in entries if e in LAYERS)
        assert first.draws == any(entry.draws for entry in entries)
        for argument in facts.decisions:
            assert any(e.make().get_config()[argument] for e in entries)


# Masks.


@TRAINING_FIRST
@over(ENTRIES)
def test_masked_steps_reach_nothing(entry, training):
    """And a row without a real step is zero."""
    subject = subject_of(entry)
    inputs = entry.sample()
    results = []
    for bad in ([0.0], [np.nan, np.inf, -np.inf, 3e38]):
        filled = {k: x.copy() for k, x in inputs.items()}
        for argument in entry.arguments:
            if argument.mask is not None:
                values = filled[argument.name]
                values[~MASKS] = np.resize(bad, values[~MASKS].shape)
        outputs, input_gradients, gradients = subject.run(
            subject.graph(training), filled, MASKS
        )
        results.append((outputs, gradients))
        for argument in entry.arguments:
            if argument.mask is not None:
                assert (input_gradients[argument.name][~MASKS] == 0).all()
    assert all(np.isfinite(x).all() for x in keras.tree.flatten(results))
    assert_equal(*results)
    for name, value in outputs.items():
        assert name in entry.states or (value[4] == 0).all()
        assert (value[:4] != 0).any()


@over(ENTRIES)
def test_padded_batch_equals_rows_alone(entry, silence):
    subject = subject_of(entry)
    inputs = entry.sample(3)
    masked = {a.name for a in entry.arguments if a.mask is not None}
    for training in trainings(entry):
        function = subject.graph(training)
        batch = subject.run(function, inputs, MASKS[:3])
        outputs, input_gradients, gradients = batch
        total = [np.zeros_like(g) for g in gradients]
        for row, (start, stop) in enumerate([(0, 7), (0, 4), (2, 7)]):
            alone = {
                k: x[row : row + 1, start:stop]
                if k in masked
                else x[row : row + 1]
                for k, x in inputs.items()
            }
            row_outputs, row_gradients, parts = subject.run(function, alone)
            for name, value in row_outputs.items():
                expected = outputs[name][row]
                if subject.timed[name]:
                    expected = expected[start:stop]
                assert_close(value[0], expected)
            for name, value in row_gradients.items():
                expected = input_gradients[name][row]
                if name in masked:
                    expected = expected[start:stop]
                assert_close(value[0], expected)
            total = [a + b for a, b in zip(total, parts)]
        assert_close(total, gradients, 3 * OPERATIONS)


# However it is run.


@over(e for e in ENTRIES if e.length is None)
def test_one_graph_serves_all_sizes(entry, silence):
    subject = subject_of(entry)
    for training in trainings(entry):
        graph = subject.graph(training)
        for rows, steps in ((5, 7), (2, 1)):
            inputs = entry.sample(rows, steps)
            mask = MASKS[:rows, :steps]
            result = subject.run(graph, inputs, mask)
            expected = subject.run(subject.gradients(training), inputs, mask)
            assert_close(result, expected)
        assert graph.experimental_get_tracing_count() == 1


@pytest.mark.filterwarnings("ignore:(?s).*adds a loss within a loop")
@over(e for e in ENTRIES if e.length is None and e.silent)
def test_within_a_condition_within_a_loop(entry, silence):
    """Training in a loop's body, of tensors that are no part of it."""
    subject = subject_of(entry)
    expected = subject.run(subject.graph(True), entry.sample(), MASKS)
    start = keras.tree.map_structure(np.zeros_like, expected[0])

    def within(inputs, masks, real):
        def run():
            outputs = entry.call(subject.layer, inputs, masks, True)
            return subject.in_time_order(name_outputs(outputs))

        def body(i, outputs):
            return i + 1, tf.cond(i < 1, run, lambda: outputs)

        @tf.function
        def gradients():
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                _, outputs = tf.while_loop(lambda i, _: i < 2, body, (0, start))
                loss = subject.loss(outputs, real)
            return outputs, *tape.gradient(
                loss,
                (inputs, subject.trainable),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return gradients()

    assert_close(subject.run(within, entry.sample(), MASKS), expected)


@pytest.mark.long
@over(CORE)
def test_xla_gives_the_same(entry, silence):
    subject = subject_of(entry)
    inputs = entry.sample()
    for training in trainings(entry):
        function = (subject.gradients if training else subject.values)(training)
        compiled = tf.function(function, jit_compile=True)
        result = subject.run(compiled, inputs, MASKS)
        expected = subject.run(function, inputs, MASKS)
        assert_close(result, expected)


@over(ENTRIES)
def test_batch_of_one_equals_row_of_batch(entry):
    """On arrays and without a mask, as no other test calls it."""
    subject = subject_of(entry)
    inputs = entry.sample()
    batch, *_ = subject.run(subject.graph(False), inputs)
    for row in (0, 3):
        alone = {k: x[row : row + 1] for k, x in inputs.items()}
        for name, value in subject.outputs(alone).items():
            assert_close(value[0], batch[name][row])


@over(e for e in ENTRIES if e.resume)
def test_two_calls_equal_one(entry, silence):
    subject = subject_of(entry)
    (inputs,) = entry.sample().values()
    inputs, mask = tf.constant(inputs), tf.constant(MASKS)

    def whole(training):
        (argument,) = entry.arguments
        outputs = entry.call(
            subject.layer, {argument.name: inputs}, {"mask": mask}, training
        )
        return outputs[0]

    def chunks(training):
        return entry.resume(subject.layer, inputs, mask, 3, training)

    def run(function, training):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = ops.where(mask[..., None], function(training), 0)
            loss = ops.sum(ops.square(outputs))
        gradients = tape.gradient(
            loss,
            [inputs, *subject.trainable],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        return [x.numpy() for x in (outputs, *gradients)]

    for training in trainings(entry):
        assert_close(run(chunks, training), run(whole, training))


# dtype policies.


@pytest.mark.parametrize(
    "entry, policy",
    [
        pytest.param(
            entry,
            policy,
            id=f"{entry.id}-{policy}",
            marks=[]
            if entry in LAYERS and policy == "mixed_float16"
            else pytest.mark.slow,
        )
        for policy, entries in (
            ("float64", CORE),
            ("mixed_float16", ENTRIES),
            ("mixed_bfloat16", CORE),
        )
        for entry in entries
    ],
)
def test_dtype_policy(entry, policy, silence):
    reference = subject_of(entry)
    subject = subject_of(entry, policy)
    policy = keras.DTypePolicy(policy)
    for variable, value in zip(subject.layer.weights, reference.layer.weights):
        assert variable.dtype == (
            "float32" if variable.name in SCALARS else policy.variable_dtype
        )
        variable.assign(ops.cast(value.value, variable.dtype))
    inputs = entry.sample()
    # Products add up in float32, and gates forget: in half precision the
    # roundings of the last step and its output are what is left.
    half = policy.compute_dtype != "float64"
    dtype, operations = (
        (policy.compute_dtype, 2) if half else ("float32", OPERATIONS)
    )
    for training in trainings(entry):
        expected, *_ = reference.run(reference.graph(training), inputs, MASKS)
        outputs = subject.outputs(inputs, MASKS, training)
        assert_within(outputs, expected, operations, dtype, scale=1)
        if not half:
            assert_wider_than_float32(subject, inputs, training)
        for name, value in outputs.items():
            wide = "float64" if policy.name == "float64" else "float32"
            plain = name.startswith("output_")
            assert value.dtype == (policy.compute_dtype if plain else wide)


def assert_wider_than_float32(subject, inputs, training):
    """What float32 cannot hold of the inputs reaches the outputs."""
    generator = np.random.default_rng(5)
    inputs = {
        name: x.astype("float64") * (1 + 1e-10 * generator.normal(size=x.shape))
        for name, x in inputs.items()
    }
    outputs = subject.outputs(inputs, MASKS, training)
    values = [x for x in outputs.values() if x.dtype == "float64"]
    assert any((x != x.astype("float32")).any() for x in values)


@pytest.mark.parametrize(
    "policy",
    [
        "mixed_float16",
        pytest.param("float64", marks=pytest.mark.slow),
        pytest.param("mixed_bfloat16", marks=pytest.mark.slow),
    ],
)
@over(e for e in CORE if e.is_trainable)
def test_training_step_is_finite(entry, policy):
    keras.config.set_dtype_policy(policy)
    model = entry.model()
    model.compile("sgd", "mse", run_eagerly=True)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    targets = keras.tree.map_structure(np.ones_like, model(inputs))
    before = [ops.copy(v.value) for v in model.trainable_variables]
    loss = [model.train_on_batch(inputs, targets) for _ in range(2)]
    assert np.isfinite(loss).all()
    after = [v.value for v in model.trainable_variables]
    assert all(np.isfinite(x.numpy()).all() for x in after)
    assert any((x != y).numpy().any() for x, y in zip(before, after))


@pytest.fixture
def all_in_float64():
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx("float32")


@over(CORE)
def test_all_in_float64(entry, all_in_float64):
    outputs = Subject(entry).outputs(entry.sample(), MASKS)
    expected = subject_of(entry).outputs(entry.sample(), MASKS)
    for name, value in outputs.items():
        assert value.shape == expected[name].shape
        assert np.isfinite(value).all()


TARGETED = DecisionPenalties(target=0.1, target_weight=0.5, target_of="row")


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: keras_seqmech.LastAttentionPooling(penalty=0.5)(x),
        lambda x: keras_seqmech.BoundaryGate(2, penalties=TARGETED)(x, x[:, 0]),
        lambda x: keras_seqmech.ExpectedSubsample(2, penalties=TARGETED)(
            x, ops.sigmoid(x[..., 0])
        ),
    ],
)
def test_added_losses_in_float64(layer, all_in_float64):
    """Keras adds them to the loss of the model, of its own dtype."""
    x = keras.Input((4, 3))
    model = keras.Model(x, layer(keras.layers.Dense(3)(x)))
    model.compile("sgd", "mse", run_eagerly=True)
    data = np.random.default_rng(0).normal(size=(2, 4, 3))
    targets = 0 * model(data, training=True)
    assert {loss.dtype.name for loss in model.losses} == {"float64"}
    assert np.isfinite(model.train_on_batch(data, targets))


# Randomness.


@over(ENTRIES)
def test_randomness(entry):
    subject = subject_of(entry)
    inputs = entry.sample()

    def run():
        keras.utils.set_random_seed(3)
        weights = [v.value for v in Subject(entry).layer.variables]
        subject.restore(weights)
        return weights, [
            subject.go_on(subject.graph(training), inputs)[0]
            for training in (True, True, False, False)
        ]

    (weights, results), again = run(), run()
    assert_equal((weights, results), again)
    first, second, served, again = results
    differs = any((first[k] != second[k]).any() for k in first)
    assert differs == (entry.draws or not entry.silent)
    assert_equal(served, again)


@over(e for e in ENTRIES if e.draws)
def test_seed_and_sampling_at_inference(entry):
    inputs = entry.sample()
    sampling = {"sample_at_inference": True}
    if "inference" in inspect.signature(entry.layer_class).parameters:
        sampling = {"inference": "sample"}

    def run(seed):
        keras.utils.set_random_seed(0)  # of the weights
        layer = entry.wrap(entry.make(seed=seed, **sampling))
        calls = [name_outputs(entry.call(layer, inputs)) for _ in range(2)]
        return [[x.numpy() for x in outputs.values()] for outputs in calls]

    first, second = run(5)
    assert_equal([first, second], run(5))
    for results in (second, run(6)[0]):
        assert any((x != y).any() for x, y in zip(first, results))


@over(e for e in ENTRIES if e.draws and e.silent and not e.is_cell)
def test_noise_is_drawn_once_a_call(entry):
    subject = subject_of(entry)
    seeds = [
        v for v in subject.layer.variables if v.name == "seed_generator_state"
    ]
    before = sum(int(v[1]) for v in seeds)
    subject.outputs(entry.sample(), training=True)
    assert sum(int(v[1]) for v in seeds) == before + 1


# Configuration and saving.

# Arguments whose attributes are variables, None until the layer is built.
IN_VARIABLES = {*SCALARS, "forget_strength"}


@pytest.mark.parametrize("layer_class", FACTS, ids=lambda c: c.__name__)
def test_config_covers_every_argument(layer_class):
    # Python 3.10 shows that of `__new__` for the class.
    parameters = dict(inspect.signature(layer_class.__init__).parameters)
    del parameters["self"]
    if layer_class is keras_seqmech.ReceptiveFieldRNN:
        # It passes on what it does not name.
        of_cell = inspect.signature(keras_seqmech.RFCell).parameters
        parameters = {**of_cell, **parameters}
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = {n for n, p in parameters.items() if p.kind not in variadic}
    facts, given = FACTS[layer_class], set()
    for changes in ({}, *facts.exclusive.values()):
        arguments = {**facts.arguments(), **changes}
        from_numpy = {
            name: np.int64(value) if type(value) is int else value
            for name, value in arguments.items()
        }
        layer = layer_class(**from_numpy, name="named")
        config = json.loads(json.dumps(layer.get_config()))
        assert names <= set(config)
        for name in names - IN_VARIABLES:
            found = getattr(layer, name)
            if isinstance(config[name], (bool, int, float)):
                assert found == config[name], name
        for name, value in arguments.items():
            if value != parameters[name].default:
                given.add(name)
            if isinstance(value, (bool, int, float, str)):
                assert config[name] == value, name
            else:
                expected = keras.saving.serialize_keras_object(value)
                assert config[name] == expected, name
        again = layer_class.from_config(config)
        assert again.get_config() == layer.get_config()
        assert again.name == "named"
    assert given == names


@over(ENTRIES)
def test_saved_model_file(entry, tmp_path):
    model = entry.model()
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    for variable in model.non_trainable_variables:
        if variable.name == "temperature":
            variable.assign(0.37)
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_equal(loaded(inputs), expected)
    assert len(loaded.weights) == len(model.weights)
    # A `keras.layers.RNN` that is loaded builds its cell before itself.
    keeps_paths = not entry.is_cell
    for new, old in zip(loaded.weights, model.weights):
        assert new.name == old.name
        assert new.path == old.path or not keeps_paths
        assert_equal(new.numpy(), old.numpy())


def assert_frozen(model, entry):
    (layer,) = (
        part for part in sublayers(model) if type(part) is entry.layer_class
    )
    assert not layer.trainable_variables
    own = {id(variable) for variable in layer.variables}
    assert own.isdisjoint(map(id, model.trainable_variables))
    return layer


@pytest.mark.filterwarnings("ignore:.*any trainable weights")
@over(e for e in CORE if e.is_trainable)
def test_a_frozen_layer_stays_frozen(entry, tmp_path):
    """Given to the constructor, in copies and in files."""
    model = entry.model(trainable=False)
    layer = assert_frozen(model, entry)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    before = layer.get_weights()
    model.compile("sgd", "mse", run_eagerly=True)
    model.train_on_batch(inputs, model(inputs))
    assert_equal(layer.get_weights(), before)

    model = entry.model()
    for part in sublayers(model):
        if type(part) is entry.layer_class:
            part.trainable = False
    model.save(tmp_path / "model.keras")
    assert_frozen(keras.saving.load_model(tmp_path / "model.keras"), entry)
    assert_frozen(keras.models.clone_model(model), entry)


@over(ENTRIES)
def test_weights_have_stable_names(entry):
    layers = [entry.wrap(entry.make(name="same")) for _ in range(2)]
    for layer in layers:
        entry.call(layer, entry.sample())
    names = [v.name for v in layers[0].weights]
    assert names == list(entry.weights)
    first, second = [[v.path for v in layer.weights] for layer in layers]
    assert first == second


# Errors.


@pytest.mark.parametrize(
    "layer_class, name, value",
    [
        (layer_class, name, value)
        for layer_class, facts in FACTS.items()
        for name, value in (
            *facts.bad_arguments,
            *[("seed", x) for x in (-1, "3") if "seed" in facts.arguments()],
        )
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_argument(layer_class, name, value):
    arguments = {**FACTS[layer_class].arguments(), name: value}
    with pytest.raises(
        ValueError, match=rf"(?s)`{name}` must .*Received: {name}="
    ):
        layer_class(**arguments)


@pytest.mark.parametrize(
    "name, call",
    [
        pytest.param(name, call, id=f"{c.__name__}-{name}-{i}")
        for c, facts in FACTS.items()
        for i, (name, call) in enumerate(facts.bad_calls)
    ],
)
def test_bad_call(name, call):
    with pytest.raises(ValueError, match=rf"Received: {name}="):
        call()


def faults(entry):
    """Inputs and masks that no layer takes, and the argument at fault."""
    sequence = next(a for a in entry.arguments if a.mask is not None)
    for argument in entry.arguments:
        shape = (
            2,
            *(TIME if size is None else size for size in argument.shape),
        )
        bad = {"rank below": shape[:-1], "rank above": shape + argument.above}
        if None in argument.shape and argument.mask is not None:
            bad["no steps"] = (2, 0, *shape[2:])
        if argument.shape[-1] is not None:
            bad["other width"] = (*shape[:-1], shape[-1] + 1)
            bad["unknown width"] = (*shape[:-1], None)
        if argument is not sequence:
            bad["other batch"] = (3, *shape[1:])
            if None in argument.shape:
                bad["other length"] = (2, TIME + 1, *shape[2:])
        for fault, size in bad.items():
            yield f"{argument.name} {fault}", {argument.name: size}, {}
    for mask in entry.masks:
        for fault, size in {
            "shorter": (2, TIME - 1),
            "rank above": (2, TIME, 1),
            "other batch": (3, TIME),
        }.items():
            yield f"{mask} {fault}", {}, {mask: size}


@pytest.mark.parametrize(
    "entry, inputs, masks, built",
    [
        pytest.param(
            entry,
            inputs,
            masks,
            built,
            id=f"{entry.id}-{fault}-{'built' if built else 'symbolic'}",
        )
        for entry in LAYERS
        if not entry.is_wrapped
        for fault, inputs, masks in faults(entry)
        for built in (False, True)
        # A fresh layer takes any width, and one without weights always does.
        if "other width" not in fault or (built and entry.is_trainable)
        if "unknown width" not in fault or not built
    ],
)
def test_bad_shapes_of_symbols_and_of_built_layers(entry, inputs, masks, built):
    layer = entry.make()
    good = entry.sample(2)
    make = np.ones
    if built:
        entry.call(layer, good)
    else:
        good = {
            name: keras.Input(batch_shape=x.shape) for name, x in good.items()
        }

        def make(size, dtype):
            return keras.Input(batch_shape=size, dtype=dtype)

    bad = {name: make(size, "float32") for name, size in inputs.items()}
    given = {name: make(size, "bool") for name, size in masks.items()}
    with pytest.raises(ValueError, match="Received: ") as error:
        entry.call(layer, {**good, **bad}, given)
    (name,) = {**inputs, **masks}
    assert re.search(rf"Received: .*\b{name}\b", str(error.value))


def sizes_of_one(entry):
    """What would broadcast: an argument or a mask with one row or one step."""
    sequence = next(a for a in entry.arguments if a.mask is not None)
    for argument in entry.arguments:
        if argument is sequence:
            continue
        yield argument.name, (1, *argument.shape)
        if None in argument.shape:
            yield argument.name, (None, *(x or 1 for x in argument.shape))
    for mask in entry.masks:
        yield mask, (1, None)
        yield mask, (None, 1)


@pytest.mark.long
@pytest.mark.parametrize("jit_compile", [False, True])
@over(e for e in LAYERS if not e.is_wrapped)
def test_sizes_that_are_known_when_run(entry, jit_compile):
    """Nothing broadcasts in graphs that do not know the sizes."""
    layer = entry.make()
    values = entry.sample(2)
    entry.call(layer, values)
    shapes = {a.name: (None, *a.shape) for a in entry.arguments}
    for mask in entry.masks:
        values[mask] = np.ones((2, TIME), "bool")
        shapes[mask] = (None, None)
    specs = {
        key: tf.TensorSpec(shape, values[key].dtype)
        for key, shape in shapes.items()
    }

    @tf.function(input_signature=[specs], jit_compile=jit_compile)
    def run(values):
        masks = {mask: values[mask] for mask in entry.masks}
        return entry.call(layer, values, masks)

    run(values)
    for name, size in sizes_of_one(entry):
        cut = values[name][tuple(slice(x) for x in size)]
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            run({**values, name: cut})
        # XLA drops assertions, and fails to compile instead.
        message = "Input to reshape" if jit_compile else f"`{name}` must"
        assert message in str(error.value), size


MASKS_OF_LAYERS = [
    pytest.param(entry, name, id=f"{entry.id}-{name}")
    for entry in LAYERS
    if not entry.is_wrapped
    for name in entry.masks
]


@pytest.mark.parametrize("entry, name", MASKS_OF_LAYERS)
@pytest.mark.parametrize(
    "values",
    [
        np.full((2, TIME), 0.5, "float32"),
        np.full((2, TIME), "yes"),
        tf.fill((2, TIME), "yes"),
        np.ones((2, TIME), "complex64"),
        [[1] * TIME, [1] * (TIME - 1)],
        1,
    ],
    ids=["floats", "strings", "bytes", "complex", "ragged", "number"],
)
def test_values_that_are_no_mask(entry, name, values):
    """A float mask would be read as booleans, whatever it was meant for."""
    with pytest.raises(ValueError, match=rf"`{name}` .*Received: {name}="):
        entry.call(entry.make(), entry.sample(2), {name: values})


@over(e for e in LAYERS if not e.is_wrapped)
def test_ragged_tensors(entry):
    inputs = entry.prepare(entry.sample(2), {})
    sequence = next(a for a in entry.arguments if a.mask is not None)
    inputs[sequence.name] = tf.RaggedTensor.from_tensor(
        tf.constant(inputs[sequence.name]), lengths=[3, 5]
    )
    first = inputs.pop(entry.arguments[0].name)
    with pytest.raises(ValueError, match=r"use `to_tensor\(\)` and a mask"):
        entry.make()(first, **inputs)


@pytest.mark.parametrize("entry, name", MASKS_OF_LAYERS)
def test_ints_and_lists_are_masks(entry, name):
    layer = entry.make()
    inputs, mask = entry.sample(2), MASKS[[1, 2]]
    expected = entry.call(layer, inputs, {name: mask})
    for same in (mask.astype("int32"), mask.tolist()):
        result = entry.call(layer, inputs, {name: same})
        keras.tree.map_structure(
            np.testing.assert_array_equal, result, expected
        )


# Keras' `LSTMCell` itself fails on an empty batch, where it adds its bias.
@over(
    e
    for e in CORE
    if e.id not in ("RFCell-lstm-relaxed-mean", "LearnedInitialState-lstm")
)
def test_empty_batch(entry):
    outputs = subject_of(entry).outputs(entry.sample(0), MASKS[:0])
    assert {value.shape[0] for value in outputs.values()} == {0}


@TRAINING_FIRST
@over(ENTRIES)
def test_finite_input_never_gives_nan(entry, training):
    subject = subject_of(entry)
    inputs = entry.sample()
    huge = {k: np.float32(1e30) * x for k, x in inputs.items()}
    results = [subject.run(subject.graph(training), huge, MASKS)]
    # Huge logits: huge weights, saturated everywhere.
    weights = [
        value * 1e4 if variable.trainable else value
        for variable, value in zip(subject.layer.variables, subject.fresh)
    ]
    large = {k: np.float32(1e4) * x for k, x in inputs.items()}
    results.append(subject.run(subject.graph(training), large, MASKS, weights))
    half = subject_of(entry, "mixed_float16")
    results.append(half.outputs(large, MASKS, training))
    for x in keras.tree.flatten(results):
        assert not np.isnan(x).any()


# Decisions and statistics.


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_outputs_are_announced_as_they_come(entry):
    """Names, shapes and dtypes, of symbolic inputs as of arrays."""
    keras.config.set_dtype_policy("mixed_float16")
    layer = entry.wrap(entry.make())
    inputs = entry.sample(2)
    symbols = {
        name: keras.Input(batch_shape=x.shape, name=name)
        for name, x in inputs.items()
    }
    symbolic = name_outputs(entry.call(layer, symbols))
    actual = keras.Model(symbols, symbolic)(inputs)
    assert symbolic.keys() == actual.keys()
    for name, value in actual.items():
        assert symbolic[name].dtype == value.dtype.name, name
        assert symbolic[name].ndim == value.ndim, name
        for a, b in zip(symbolic[name].shape, value.shape):
            assert a in (None, b), name
    decisions = {name for name in actual if not name.startswith("output_")}
    for argument, names in FACTS[entry.layer_class].decisions.items():
        if entry.make().get_config()[argument]:
            assert decisions - {"log_probability"} == set(names)


@over(e for e in ENTRIES if FACTS[e.layer_class].decisions)
def test_decisions_are_known_without_being_returned(entry, tmp_path):
    """Of a loaded model, what a layer returns that is told to."""
    (argument,) = FACTS[entry.layer_class].decisions
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    twin, model = (
        entry.model(name="deciding", **{argument: is_told})
        for is_told in (True, False)
    )
    model.set_weights(twin.get_weights())
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    found = analysis.decisions(loaded, inputs)
    assert list(found) == ["deciding"]
    shown, expected = entry.shown(found["deciding"]), twin(inputs)
    assert expected.keys() - loaded(inputs).keys() <= shown.keys()
    for name, value in shown.items():
        assert_close(np.asarray(value), expected[name].numpy())


WITH_STATISTICS = pytest.mark.parametrize(
    "layer_class",
    [c for c, facts in FACTS.items() if facts.statistics],
    ids=lambda c: c.__name__,
)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@WITH_STATISTICS
def test_statistics_of_long_epochs(layer_class, policy):
    """Exact after more steps than float16, bfloat16 and float32 count to."""
    keras.config.set_dtype_policy(policy)
    *_, entry = (e for e in CORE if e.layer_class is layer_class)
    model = entry.model(track_statistics=True, name="watched")
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    variables = [v for metric in model.metrics for v in metric.variables]
    added = []
    for before in (0, 2**26 + 1):
        for variable in variables:
            variable.assign(np.full(variable.shape, before))
        model(inputs)
        added.append([v.numpy() - before for v in variables])
    names = {f"watched_{x}" for x in FACTS[layer_class].statistics}
    assert names <= {metric.name for metric in model.metrics}
    assert sum(np.sum(first) for first in added[0]) > 0
    for first, late in zip(*added):
        np.testing.assert_allclose(late, first, atol=1e-6)


class WithinCondition(keras.Model):
    """Calls a model in both branches of a condition."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def call(self, inputs, training=False):
        def run():
            return self.model(inputs, training=training)

        return tf.cond(tf.size(next(iter(inputs.values()))) > 0, run, run)


WITHOUT_PENALTIES = {"penalties": None, "penalty": 0.0}


@pytest.mark.filterwarnings("ignore:The model does not have any trainable")
@over(
    e
    for e in CORE
    if e.make().get_config().keys() & WITHOUT_PENALTIES.keys()
    and not e.is_cell
    and e.silent
)
def test_fit_within_a_condition(entry, silence):
    """As without one; a penalty that is raised later is refused."""
    config = entry.make().get_config()
    settings = {**WITHOUT_PENALTIES, "track_statistics": True}
    settings = {k: v for k, v in settings.items() if k in config}
    inputs = entry.sample()
    inputs |= dict.fromkeys(entry.masks, np.ones_like(MASKS))
    histories = []
    for around in (lambda model: model, WithinCondition):
        keras.utils.set_random_seed(0)
        inner = entry.model(name="watched", **settings)
        targets = keras.tree.map_structure(np.ones_like, inner(inputs))
        for metric in inner.metrics:
            metric.reset_state()
        model = around(inner)
        model.compile("sgd", "mse", run_eagerly=model is inner)
        histories.append(model.fit(inputs, targets, epochs=2, verbose=0))
    plain, within = (x.history for x in histories)
    assert within.keys() == plain.keys()
    for name, values in plain.items():
        np.testing.assert_allclose(within[name], values, rtol=1e-4)
    weight = next(
        v for v in inner.variables if v.name in ("penalty", "reading")
    )
    weight.assign(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be 0"):
        model.fit(inputs, targets, verbose=0)


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
@WITH_STATISTICS
def test_statistics_appear_in_history(layer_class, jit_compile):
    *_, entry = (e for e in CORE if e.layer_class is layer_class)
    model = entry.model(track_statistics=True, name="watched")
    model.compile("sgd", "mse", jit_compile=jit_compile)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    targets = model(inputs)
    history = model.fit(inputs, targets, epochs=2, verbose=0).history
    # What `evaluate` returns, and prints.
    listed = [metric.name for metric in model.metrics]
    for statistic in FACTS[layer_class].statistics:
        assert listed.count(f"watched_{statistic}") == 1
        values = history[f"watched_{statistic}"]
        assert len(values) == 2
        assert np.isfinite(values).all()
        # Untrained decisions may all be uncertain.
        assert (
            np.min(values) >= 0 if statistic == "certain" else 0 < min(values)
        )
