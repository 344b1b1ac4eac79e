"""Every contract of every public layer; see `registry`.

Those that hold for any layer are functions of `keras_seqmech.testing`. Layers
are built, and their graphs compiled, once for all tests: those that ask for a
graph are bound to the layer run eagerly by `test_graph`.
"""

import functools
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_seqmech
from keras_seqmech import DecisionPenalties
from keras_seqmech import analysis
from keras_seqmech.testing import contracts
from keras_seqmech.testing.subject import Subject
from keras_seqmech.testing.subject import call_layer
from keras_seqmech.testing.subject import constructor_defaults
from keras_seqmech.testing.subject import make_masks
from keras_seqmech.testing.subject import name_outputs
from keras_seqmech.training import collect_log_probabilities
from tests.conformance.registry import CORE
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import FACTS
from tests.conformance.registry import LAYERS
from tests.conformance.registry import OTHERS
from tests.conformance.registry import TIME
from tests.conformance.registry import marks_of
from tests.conformance.registry import over
from tests.conformance.registry.entry import SCALARS
from tests.conformance.registry.entry import NoiseSwitch
from tests.conformance.registry.entry import arguments_of
from tests.conformance.registry.entry import bad_arguments_of

MASKS = make_masks(5, TIME)

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
    built.cache_clear()


@functools.cache
def built(identity: str) -> Subject:
    entry = next(e for e in ENTRIES if e.id == identity)
    keras.utils.set_random_seed(0)
    return entry.subject()


def subject_of(entry) -> Subject:
    """The subject of an entry, as it was when built."""
    subject = built(entry.id)
    subject.restore()
    return subject


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


def test_every_public_layer_is_registered():
    public = {
        value
        for name in keras_seqmech.__all__
        if isinstance(value := getattr(keras_seqmech, name), type)
        and issubclass(value, keras.layers.Layer)
        and not issubclass(value, keras.Model)
    }
    assert public == {*FACTS, *OTHERS}
    assert set(FACTS) == {entry.layer_class for entry in CORE}
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
def test_masked_steps(entry, training):
    contracts.masked_steps_reach_nothing(subject_of(entry), [training])


@over(ENTRIES)
def test_padding(entry, silence):
    contracts.padding_changes_nothing(subject_of(entry))


# However it is run.


@over(ENTRIES)
def test_graph(entry, silence):
    contracts.graph_gives_the_same(subject_of(entry))


@pytest.mark.filterwarnings("ignore:(?s).*adds a loss within a loop")
@over(e for e in ENTRIES if e.silent)
def test_within_a_condition_within_a_loop(entry, silence):
    """Training in a loop's body, of tensors that are no part of it."""
    subject = subject_of(entry)
    expected = subject.run(subject.graph(True), entry.sample(), MASKS)
    start = keras.tree.map_structure(np.zeros_like, expected[0])

    def within(inputs, mask):
        def body(i, outputs):
            run = functools.partial(subject.values(True), inputs, mask)
            return i + 1, tf.cond(i < 1, run, lambda: outputs)

        return tf.while_loop(lambda i, _: i < 2, body, (0, start))[1]

    def function(*tensors):
        return tf.function(lambda: subject.differentiate(within)(*tensors))()

    found = subject.run(function, entry.sample(), MASKS)
    subject.assert_close(found, expected)


@pytest.mark.long
@over(CORE)
def test_xla(entry, silence):
    contracts.xla_gives_the_same(subject_of(entry))


@over(ENTRIES)
def test_one_row(entry):
    contracts.one_row_gives_the_same(subject_of(entry))


# Read from the end.
WHOLE = re.compile("stack-relaxed-last|bidirectional")


@over(ENTRIES)
def test_stream(entry):
    if entry.id in ("LookAhead-one", "ReceptiveFieldRNN-gru-one"):
        pytest.xfail("Fields of one step have no stream.")
    subject = subject_of(entry)
    members = set(dir(entry.layer_class)) & {"stream_step", "stream_steps"}
    expected = members and not entry.is_wrapped and not WHOLE.search(entry.id)
    assert contracts.streams(subject) == bool(expected)
    if expected:
        contracts.stream_gives_the_same(subject)


@over(e for e in ENTRIES if e.resume)
def test_two_calls_equal_one(entry, silence):
    subject = subject_of(entry)

    def whole(inputs, mask, training):
        return call_layer(subject.layer, inputs, {"mask": mask}, training)[0]

    def chunks(inputs, mask, training):
        (sequence,) = inputs.values()
        return entry.resume(subject.layer, sequence, mask, 3, training)

    def run(function, training):
        def values(inputs, mask):
            outputs = function(inputs, mask, training)
            return {"output_0": ops.where(mask[..., None], outputs, 0)}

        return subject.run(subject.differentiate(values), entry.sample(), MASKS)

    for training in subject.trainings:
        subject.assert_close(run(chunks, training), run(whole, training))


# dtype policies.


@over(ENTRIES)
def test_float16(entry, silence):
    check_policy(entry, "mixed_float16")


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["float64", "mixed_bfloat16"])
@over(CORE)
def test_other_dtypes(entry, policy, silence):
    check_policy(entry, policy)


def check_policy(entry, policy):
    subject = subject_of(entry)
    contracts.dtype_policies_hold(subject, [policy])
    outputs = subject.outputs(entry.sample(), MASKS)
    assert all(x.dtype.kind == "f" for x in outputs.values())
    for variable in subject.under(policy).layer.weights:
        if variable.name in SCALARS:
            assert variable.dtype == "float32"


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


@over(e for e in ENTRIES if e.is_trainable)
def test_every_weight_has_a_gradient(entry):
    """At the smallest sizes, too: what cannot matter is not made."""
    sizes, inputs = [{}], entry.sample()
    if "max_size" in constructor_defaults(entry.layer_class):
        sizes = [{"max_size": 1}, {"max_size": 2}]
    for size in sizes:
        layer = entry.wrap(entry.make(**size))
        call_layer(layer, inputs)
        variables = layer.trainable_variables
        with tf.GradientTape() as tape, collect_log_probabilities() as drawn:
            outputs = call_layer(layer, inputs, training=True)
            values = [*name_outputs(outputs).values()]
            values += [x.log_probability for x in drawn]
            loss = sum(ops.sum(ops.cast(x, "float32") ** 2) for x in values)
        found = tape.gradient(loss, [v.value for v in variables])
        without = [
            v.path
            for v, x in zip(variables, found)
            if x is None or not np.any(x)
        ]
        assert not without, (size, without)


@over(CORE)
def test_all_in_float64(entry, all_in):
    all_in("float64")
    outputs = entry.subject().outputs(entry.sample(), MASKS)
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
def test_added_losses_in_float64(layer, all_in):
    """Keras adds them to the loss of the model, of its own dtype."""
    all_in("float64")
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
    contracts.same_seed_gives_the_same(subject)
    assert subject.draws() == (entry.draws or not entry.silent)


@over(e for e in ENTRIES if e.draws)
def test_seed_and_sampling_at_inference(entry):
    inputs = entry.sample()

    def run(seed):
        keras.utils.set_random_seed(0)  # of the weights
        layer = entry.wrap(entry.make(seed=seed, inference="sample"))
        calls = [name_outputs(call_layer(layer, inputs)) for _ in range(2)]
        return [[x.numpy() for x in outputs.values()] for outputs in calls]

    first, second = run(5)
    contracts.assert_equal([first, second], run(5))
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


@over(CORE)
def test_recomputed_gradient(entry):
    """The same; refused where it draws, which it would anew, or adds losses."""
    subject = subject_of(entry)
    values = subject.values(True)

    def recomputed(inputs, mask):
        names = []

        @keras.remat
        def run(mask, *tensors):
            outputs = values(dict(zip(inputs, tensors)), mask)
            names[:] = outputs
            return list(outputs.values())

        return dict(zip(names, run(mask, *inputs.values())))

    def differentiate(values):
        function = subject.differentiate(values)
        return subject.run(function, entry.sample(), MASKS)

    expected = differentiate(values)
    seeds = [
        (v.numpy() != fresh.numpy()).any()
        for v, fresh in zip(subject.layer.variables, subject.fresh)
        if v.name == "seed_generator_state"
    ]
    if any(seeds) or any(map(float, subject.layer.losses)):
        with pytest.raises(ValueError, match=r"outside of `keras\.RematScope`"):
            differentiate(recomputed)
    else:
        assert not entry.draws
        subject.assert_close(differentiate(recomputed), expected)


# Configuration and saving.

ALL_FACTS = {**FACTS, **OTHERS}


@pytest.mark.parametrize("layer_class", ALL_FACTS, ids=lambda c: c.__name__)
def test_config_covers_every_argument(layer_class):
    parameters = constructor_defaults(layer_class)
    names = set(parameters)
    facts, given = ALL_FACTS[layer_class], set()
    for changes in ({}, *facts.exclusive.values()):
        arguments = {**arguments_of(layer_class, facts), **changes}
        from_numpy = {
            name: np.int64(value) if type(value) is int else value
            for name, value in arguments.items()
        }
        layer = layer_class(**from_numpy, name="named")
        config = contracts.check_config(layer)
        assert names <= set(config)
        for name in names - {*SCALARS}:
            found = getattr(layer, name)
            if isinstance(config[name], (bool, int, float)):
                assert found == config[name], name
        for name, value in arguments.items():
            if value != parameters[name]:
                given.add(name)
            if isinstance(value, (bool, int, float, str)):
                assert config[name] == value, name
            else:
                expected = keras.saving.serialize_keras_object(value)
                assert config[name] == expected, name
        assert config["name"] == "named"
    assert given == names


@over(ENTRIES)
def test_saved_file(entry):
    # A `keras.layers.RNN` that is loaded builds its cell before itself.
    contracts.saved_file_gives_the_same(
        subject_of(entry), paths=not entry.is_cell
    )


@over(e for e in CORE if e.is_trainable)
def test_a_frozen_layer(entry):
    """Set, or given to the constructor."""
    kind = entry.layer_class
    contracts.frozen_layer_stays_frozen(subject_of(entry), kind)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    contracts.train_frozen(entry.model(trainable=False), kind, inputs)


@over(ENTRIES)
def test_weights_have_stable_names(entry):
    layers = [entry.wrap(entry.make(name="same")) for _ in range(2)]
    for layer in layers:
        call_layer(layer, entry.sample())
    names = [v.name for v in layers[0].weights]
    assert names == list(entry.weights)
    first, second = [[v.path for v in layer.weights] for layer in layers]
    assert first == second


# Errors.


@pytest.mark.parametrize(
    "layer_class, name, value",
    [
        (layer_class, name, value)
        for layer_class, facts in ALL_FACTS.items()
        for name, value in bad_arguments_of(layer_class, facts)
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_bad_argument(layer_class, name, value):
    known = arguments_of(layer_class, ALL_FACTS[layer_class])
    arguments = {**known, name: value}
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
    """Shapes that no layer takes, and the argument at fault."""
    sequence = next(a for a in entry.arguments if None in a.shape)
    for argument in entry.arguments:
        shape = (
            2,
            *(TIME if size is None else size for size in argument.shape),
        )
        bad = {"rank below": shape[:-1], "rank above": (*shape, 1)}
        if argument.name == "query":  # One axis more is that of the steps.
            bad["rank above"] = (*shape, 1, 1)
        if None in argument.shape:
            bad["no steps"] = (2, 0, *shape[2:])
        if argument.shape[-1] is not None:
            bad["other width"] = (*shape[:-1], shape[-1] + 1)
            bad["unknown width"] = (*shape[:-1], None)
        if argument is not sequence:
            bad["other batch"] = (3, *shape[1:])
            if None in argument.shape:
                bad["other length"] = (2, TIME + 1, *shape[2:])
        for fault, size in bad.items():
            yield f"{argument.name} {fault}", argument.name, size


@pytest.mark.parametrize(
    "entry, name, size, built",
    [
        pytest.param(
            entry,
            name,
            size,
            built,
            id=f"{entry.id}-{fault}-{'built' if built else 'symbolic'}",
            marks=marks_of(entry),
        )
        for entry in LAYERS
        if not entry.is_wrapped
        for fault, name, size in faults(entry)
        for built in (False, True)
        # A fresh layer takes any width, and one without weights always does.
        if "other width" not in fault or (built and entry.is_trainable)
        if "unknown width" not in fault or not built
    ],
)
def test_bad_shapes_of_symbols_and_of_built_layers(entry, name, size, built):
    layer = entry.make()
    good = entry.sample(2)
    if built:
        call_layer(layer, good)
        bad = np.ones(size, "float32")
    else:
        good = {
            name: keras.Input(batch_shape=x.shape, dtype=x.dtype.name)
            for name, x in good.items()
        }
        bad = keras.Input(batch_shape=size, dtype="float32")
    with pytest.raises(ValueError, match="Received: ") as error:
        call_layer(layer, {**good, name: bad})
    assert re.search(rf"Received: .*\b{name}\b", str(error.value))


@over(e for e in LAYERS if not e.is_wrapped)
def test_bad_masks(entry):
    message = r"\b{name}\b.*Received: .*\b{name}\b"
    contracts.bad_masks_are_refused(subject_of(entry), message)


def sizes_of_one(entry):
    """What would broadcast: an argument or a mask with one row or one step."""
    sequence = next(a for a in entry.arguments if None in a.shape)
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
    call_layer(layer, values)
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
        inputs = {a.name: values[a.name] for a in entry.arguments}
        return call_layer(layer, inputs, masks)

    run(values)
    for name, size in sizes_of_one(entry):
        cut = values[name][tuple(slice(x) for x in size)]
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            run({**values, name: cut})
        # XLA drops assertions, and fails to compile instead.
        message = "Input to reshape" if jit_compile else f"`{name}` must"
        assert message in str(error.value), size


@over(e for e in LAYERS if not e.is_wrapped)
def test_ragged_tensors(entry):
    inputs = entry.sample(2)
    sequence = next(a for a in entry.arguments if None in a.shape)
    inputs[sequence.name] = tf.RaggedTensor.from_tensor(
        tf.constant(inputs[sequence.name]), lengths=[3, 5]
    )
    first = inputs.pop(entry.arguments[0].name)
    with pytest.raises(ValueError, match=r"use `to_tensor\(\)` and a mask"):
        entry.make()(first, **inputs)


@over(e for e in LAYERS if not e.is_wrapped)
def test_ints_and_lists_are_masks(entry):
    layer = entry.make()
    inputs, mask = entry.sample(2), MASKS[[1, 2]]
    (name,) = entry.masks
    expected = call_layer(layer, inputs, {name: mask})
    for same in (mask.astype("int32"), mask.tolist()):
        result = call_layer(layer, inputs, {name: same})
        contracts.assert_equal(result, expected)


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

    def times(factor):
        factors = {"f": np.float32(factor), "i": 1}
        return {k: factors[x.dtype.kind] * x for k, x in inputs.items()}

    results = [subject.run(subject.graph(training), times(1e30), MASKS)]
    # Huge logits: huge weights, saturated everywhere.
    weights = [
        value * 1e4 if variable.trainable else value
        for variable, value in zip(subject.layer.variables, subject.fresh)
    ]
    large = times(1e4)
    results.append(subject.run(subject.graph(training), large, MASKS, weights))
    half = subject.under("mixed_float16")
    results.append(half.outputs(large, MASKS, training))
    for x in keras.tree.flatten(results):
        assert not np.isnan(x).any()


# Decisions and statistics.


@over(ENTRIES)
def test_outputs_are_announced(entry):
    subject = subject_of(entry)
    contracts.outputs_are_announced(subject)
    outputs = subject.outputs(entry.sample(2))
    decisions = {name for name in outputs if not re.match(r"output_\d", name)}
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
    shown, expected = found["deciding"], twin(inputs)
    assert expected.keys() - loaded(inputs).keys() <= shown.keys()
    for name, value in shown.items():
        built(entry.id).assert_close(np.asarray(value), expected[name].numpy())


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@over(e for e in LAYERS if FACTS[e.layer_class].statistics)
def test_statistics_of_long_epochs(entry, policy):
    """Exact after more steps than float16, bfloat16 and float32 count to."""
    keras.config.set_dtype_policy(policy)
    model = entry.model(track_statistics=True, name="watched")
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    variables = [v for metric in model.metrics for v in metric.variables]
    added = []
    for before in (0, 2**26 + 1):
        for variable in variables:
            variable.assign(np.full(variable.shape, before))
        model(inputs)
        added.append([v.numpy() - before for v in variables])
    names = {f"watched_{x}" for x in FACTS[entry.layer_class].statistics}
    assert names <= {metric.name for metric in model.metrics}
    assert sum(np.sum(first) for first in added[0]) > 0
    for first, late in zip(*added):
        np.testing.assert_allclose(late, first, atol=1e-6)


class WithinCondition(keras.Model):
    """Calls a model in a condition, whose other branch gives zeros."""

    def __init__(self, model, outputs):
        super().__init__()
        self.model = model
        self.zeros = keras.tree.map_structure(np.zeros_like, outputs)

    def call(self, inputs, training=False):
        def run():
            return self.model(inputs, training=training)

        given = tf.size(next(iter(inputs.values()))) > 0
        return tf.cond(given, run, lambda: self.zeros)


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
    for around in (lambda model, _: model, WithinCondition):
        keras.utils.set_random_seed(0)
        inner = entry.model(name="watched", **settings)
        targets = keras.tree.map_structure(np.ones_like, inner(inputs))
        for metric in inner.metrics:
            metric.reset_state()
        model = around(inner, targets)
        model.compile("sgd", "mse", run_eagerly=model is inner)
        # For Keras to trace the step once.
        model.optimizer.build(inner.trainable_variables)
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
