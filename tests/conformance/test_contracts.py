"""Every contract of every public layer; see `registry.py`."""

import inspect
import json

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

import keras_seqmech
from tests.conformance.registry import ENTRIES
from tests.conformance.registry import FACTS
from tests.conformance.registry import SCALARS
from tests.conformance.registry import TIME
from tests.conformance.registry import name_outputs
from tests.conformance.registry import silence

# Here layers draw for themselves; nobody is to learn from it.
pytestmark = pytest.mark.filterwarnings("ignore:Layer .* draws in training")

CORE = [entry for entry in ENTRIES if entry.core]
MASKS = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1, 1],
        [0, 1, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    "bool",
)


def over(entries):
    return pytest.mark.parametrize("entry", entries, ids=lambda e: e.id)


def over_classes():
    return pytest.mark.parametrize(
        "layer_class", FACTS, ids=lambda c: c.__name__
    )


class Subject:
    """A built layer of the registry, and what its outputs look like."""

    def __init__(self, entry):
        self.entry = entry
        self.public = entry.make()
        self.layer = entry.wrap(self.public)
        outputs = name_outputs(entry.call(self.layer, entry.sample(2)))
        self.timed = {
            name: value.ndim > 1 and value.shape[1] == TIME
            for name, value in outputs.items()
        }
        self.trainable = [v.value for v in self.layer.trainable_variables]
        self.fresh = [ops.copy(v.value) for v in self.layer.variables]

    def restore(self):
        """Takes weights and seeds back to what they were when built."""
        for variable, value in zip(self.layer.variables, self.fresh):
            variable.assign(value)

    def in_time_order(self, outputs):
        if not self.entry.backwards:
            return outputs
        return {
            name: ops.flip(value, axis=1) if self.timed[name] else value
            for name, value in outputs.items()
        }

    def values(self, training):
        """Function of inputs, masks and real steps: the outputs."""

        def run(inputs, masks, real):
            outputs = self.entry.call(self.layer, inputs, masks, training)
            return self.in_time_order(name_outputs(outputs))

        return run

    def gradients(self, training):
        """The same with the gradients of inputs and of weights."""
        values = self.values(training)

        def run(inputs, masks, real):
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                outputs = values(inputs, masks, real)
                loss = self.loss(outputs, real)
            return outputs, *tape.gradient(
                loss,
                (inputs, self.trainable),
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )

        return run

    def for_all_sizes(self, function):
        """Compiles once for unknown batch and time sizes."""
        inputs = {
            a.name: tf.TensorSpec((None, *a.shape), "float32")
            for a in self.entry.arguments
        }
        mask = tf.TensorSpec((None, None), "bool")
        masks = dict.fromkeys(self.entry.masks, mask)
        return tf.function(function, input_signature=(inputs, masks, mask))

    def loss(self, outputs, real):
        """Sum of squares of all that belongs to real steps."""
        total = 0.0
        for name, value in outputs.items():
            if self.timed[name]:
                shape = (*ops.shape(real), *[1] * (value.ndim - 2))
                value = ops.where(ops.reshape(real, shape), value, 0)
            total += ops.sum(ops.square(ops.cast(value, "float32")))
        return total

    def run(self, function, inputs, mask=None):
        """Calls one of the above from the first seed; numpy results."""
        self.restore()
        inputs = {name: tf.constant(x) for name, x in inputs.items()}
        first = inputs[self.entry.arguments[0].name]
        real = np.ones(first.shape[:2], "bool") if mask is None else mask
        masks = {} if mask is None else dict.fromkeys(self.entry.masks, mask)
        masks = {name: tf.constant(x) for name, x in masks.items()}
        results = function(inputs, masks, tf.constant(real))
        return keras.tree.map_structure(lambda x: x.numpy(), results)

    def outputs(self, inputs, mask=None, training=False):
        masks = {}
        if mask is not None:
            masks = {name: mask for name in self.entry.masks}
        outputs = self.entry.call(self.layer, inputs, masks, training)
        outputs = self.in_time_order(name_outputs(outputs))
        return {name: value.numpy() for name, value in outputs.items()}


def assert_close(results, expected, **tolerance):
    tolerance = {"rtol": 1e-5, "atol": 1e-6, **tolerance}
    keras.tree.map_structure(
        lambda x, y: np.testing.assert_allclose(x, y, **tolerance),
        results,
        expected,
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
    assert public == set(FACTS)
    assert {type(entry.make()) for entry in ENTRIES} == public
    for layer_class in public:
        name = keras.saving.get_registered_name(layer_class)
        assert name == f"keras_seqmech>{layer_class.__name__}"


# Masks.


@pytest.mark.parametrize("training", [False, True])
@over(ENTRIES)
def test_masked_steps_reach_nothing(entry, training):
    subject = Subject(entry)
    inputs = entry.sample()
    results = []
    for bad in ([0.0], [np.nan, np.inf, -np.inf, 3e38]):
        filled = {k: x.copy() for k, x in inputs.items()}
        for argument in entry.arguments:
            if argument.mask is not None:
                values = filled[argument.name]
                values[~MASKS] = np.resize(bad, values[~MASKS].shape)
        outputs, input_gradients, gradients = subject.run(
            subject.gradients(training), filled, MASKS
        )
        results.append((outputs, gradients))
        for argument in entry.arguments:
            if argument.mask is not None:
                assert (input_gradients[argument.name][~MASKS] == 0).all()
    assert all(np.isfinite(x).all() for x in keras.tree.flatten(results))
    assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("training", [False, True])
@over(ENTRIES)
def test_row_without_a_real_step_is_zero(entry, training):
    outputs = Subject(entry).outputs(entry.sample(), MASKS, training)
    for name, value in outputs.items():
        assert name in entry.states or (value[4] == 0).all()
        assert (value[:4] != 0).any()


@over(ENTRIES)
def test_padded_batch_equals_rows_alone(entry, monkeypatch):
    silence(monkeypatch)
    subject = Subject(entry)
    inputs = entry.sample(3)
    masked = {a.name for a in entry.arguments if a.mask is not None}
    for training in trainings(entry):
        function = subject.gradients(training)
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
                assert_close(value[0], expected, atol=1e-5)
            total = [a + b for a, b in zip(total, parts)]
        assert_close(total, gradients, rtol=1e-4, atol=1e-5)


# However it is run.


@over([entry for entry in ENTRIES if entry.length is None])
def test_one_graph_serves_all_sizes(entry, monkeypatch):
    silence(monkeypatch)
    subject = Subject(entry)
    for training in trainings(entry):
        function = (subject.gradients if training else subject.values)(training)
        graph = subject.for_all_sizes(function)
        for rows, steps in ((5, 7), (2, 1)):
            inputs = entry.sample(rows, steps)
            mask = MASKS[:rows, :steps]
            result = subject.run(graph, inputs, mask)
            expected = subject.run(function, inputs, mask)
            assert_close(result, expected, rtol=1e-4, atol=1e-5)
        assert graph.experimental_get_tracing_count() == 1


@over(CORE)
def test_xla_gives_the_same(entry, monkeypatch):
    silence(monkeypatch)
    subject = Subject(entry)
    inputs = entry.sample()
    for training in trainings(entry):
        function = (subject.gradients if training else subject.values)(training)
        compiled = tf.function(function, jit_compile=True)
        result = subject.run(compiled, inputs, MASKS)
        expected = subject.run(function, inputs, MASKS)
        assert_close(result, expected, rtol=1e-4, atol=1e-5)


@over(ENTRIES)
def test_batch_of_one_equals_row_of_batch(entry):
    subject = Subject(entry)
    inputs = entry.sample()
    batch = subject.outputs(inputs)
    for row in (0, 3):
        alone = {k: x[row : row + 1] for k, x in inputs.items()}
        for name, value in subject.outputs(alone).items():
            assert_close(value[0], batch[name][row])


@over([entry for entry in ENTRIES if entry.resume])
def test_two_calls_equal_one(entry, monkeypatch):
    silence(monkeypatch)
    subject = Subject(entry)
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
        assert_close(run(chunks, training), run(whole, training), atol=1e-5)


# dtype policies.


@pytest.mark.parametrize(
    "entry, policy, tolerance",
    [
        pytest.param(entry, policy, tolerance, id=f"{entry.id}-{policy}")
        for policy, tolerance, entries in (
            ("float64", 1e-5, CORE),
            ("mixed_float16", 5e-3, ENTRIES),
            ("mixed_bfloat16", 4e-2, CORE),
        )
        for entry in entries
    ],
)
def test_dtype_policy(entry, policy, tolerance, monkeypatch):
    silence(monkeypatch)
    reference = Subject(entry)
    keras.config.set_dtype_policy(policy)
    subject = Subject(entry)
    policy = keras.config.dtype_policy()
    for variable, value in zip(subject.layer.weights, reference.layer.weights):
        assert variable.dtype == (
            "float32" if variable.name in SCALARS else policy.variable_dtype
        )
        variable.assign(ops.cast(value.value, variable.dtype))
    inputs = entry.sample()
    for training in trainings(entry):
        expected = reference.outputs(inputs, MASKS, training)
        outputs = subject.outputs(inputs, MASKS, training)
        assert_close(outputs, expected, rtol=0, atol=tolerance)
        for name, value in outputs.items():
            wide = "float64" if policy.name == "float64" else "float32"
            plain = name.startswith("output_")
            assert value.dtype == (policy.compute_dtype if plain else wide)


@pytest.mark.parametrize(
    "policy", ["float64", "mixed_float16", "mixed_bfloat16"]
)
@over([entry for entry in CORE if entry.is_trainable])
def test_training_step_is_finite(entry, policy):
    keras.config.set_dtype_policy(policy)
    model = entry.model()
    model.compile("sgd", "mse", run_eagerly=True)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    targets = keras.tree.map_structure(
        np.ones_like, model.predict_on_batch(inputs)
    )
    before = [ops.copy(v.value) for v in model.trainable_variables]
    loss = [model.train_on_batch(inputs, targets) for _ in range(2)]
    assert np.isfinite(loss).all()
    after = [v.value for v in model.trainable_variables]
    assert all(np.isfinite(x.numpy()).all() for x in after)
    assert any((x != y).numpy().any() for x, y in zip(before, after))


# Randomness.


@over(ENTRIES)
def test_randomness(entry):
    inputs = entry.sample()

    def run():
        keras.utils.set_random_seed(3)
        subject = Subject(entry)
        return [
            subject.outputs(inputs, training=training)
            for training in (True, True, False, False)
        ]

    results = run()
    assert_close(results, run(), rtol=0, atol=0)
    first, second, served, again = results
    differs = any((first[k] != second[k]).any() for k in first)
    assert differs == (entry.draws or not entry.silent)
    assert_close(served, again, rtol=0, atol=0)


@over([entry for entry in ENTRIES if entry.draws])
def test_seed_and_sampling_at_inference(entry):
    inputs = entry.sample()

    def run(seed):
        keras.utils.set_random_seed(0)  # of the weights
        layer = entry.wrap(entry.make(seed=seed, sample_at_inference=True))
        calls = [name_outputs(entry.call(layer, inputs)) for _ in range(2)]
        return [[x.numpy() for x in outputs.values()] for outputs in calls]

    first, second = run(5)
    assert_close([first, second], run(5), rtol=0, atol=0)
    for results in (second, run(6)[0]):
        assert any((x != y).any() for x, y in zip(first, results))


@over([e for e in ENTRIES if e.draws and e.silent and not e.is_cell])
def test_noise_is_drawn_once_a_call(entry):
    subject = Subject(entry)
    seeds = [
        v for v in subject.layer.variables if v.name == "seed_generator_state"
    ]
    before = sum(int(v[1]) for v in seeds)
    subject.outputs(entry.sample(), training=True)
    assert sum(int(v[1]) for v in seeds) == before + 1


# Configuration and saving.


@over_classes()
def test_config_covers_every_argument(layer_class):
    parameters = inspect.signature(layer_class).parameters
    names = {n for n, p in parameters.items() if p.kind != p.VAR_KEYWORD}
    facts, given = FACTS[layer_class], set()
    for changes in ({}, *facts.exclusive.values()):
        arguments = {**facts.arguments(), **changes}
        layer = layer_class(**arguments, name="named")
        config = json.loads(json.dumps(layer.get_config()))
        assert names <= set(config)
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
    expected = model.predict_on_batch(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(loaded.predict_on_batch(inputs), expected, rtol=0, atol=0)
    assert len(loaded.weights) == len(model.weights)
    for new, old in zip(loaded.weights, model.weights):
        assert new.name == old.name
        assert_close(new.numpy(), old.numpy(), rtol=0, atol=0)


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
    [(c, n, v) for c, facts in FACTS.items() for n, v in facts.bad_arguments],
    ids=str,
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


@pytest.mark.parametrize("training", [False, True])
@over(ENTRIES)
def test_finite_input_never_gives_nan(entry, training):
    subject = Subject(entry)
    function = (subject.gradients if training else subject.values)(training)
    inputs = entry.sample()
    huge = {k: np.float32(1e30) * x for k, x in inputs.items()}
    results = [subject.run(function, huge, MASKS)]
    # Huge logits: huge weights, saturated everywhere.
    subject.fresh = [
        value * 1e4 if variable.trainable else value
        for variable, value in zip(subject.layer.variables, subject.fresh)
    ]
    large = {k: np.float32(1e4) * x for k, x in inputs.items()}
    results.append(subject.run(function, large, MASKS))
    keras.config.set_dtype_policy("mixed_float16")
    results.append(Subject(entry).outputs(large, MASKS, training))
    for x in keras.tree.flatten(results):
        assert not np.isnan(x).any()


# Decisions and statistics.


@pytest.mark.parametrize(
    "layer_class, argument, names",
    [
        (c, argument, names)
        for c, facts in FACTS.items()
        for argument, names in facts.decisions.items()
    ],
    ids=str,
)
def test_decisions_are_visible_in_functional_models(
    layer_class, argument, names
):
    entry = next(e for e in CORE if isinstance(e.make(), layer_class))
    inputs = {
        a.name: keras.Input(a.shape, name=a.name) for a in entry.arguments
    }
    layer = entry.wrap(entry.make(**{argument: True}))
    *_, decisions = entry.call(layer, inputs)
    assert sorted(decisions) == sorted(names)
    model = keras.Model(inputs, decisions)
    values = model.predict_on_batch(entry.sample())
    for name, value in values.items():
        symbolic = decisions[name]
        assert symbolic.dtype == value.dtype
        assert symbolic.ndim == value.ndim
        for a, b in zip(symbolic.shape, value.shape):
            assert a in (None, b)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    "layer_class",
    [c for c, facts in FACTS.items() if facts.statistics],
    ids=lambda c: c.__name__,
)
def test_statistics_appear_in_history(layer_class, jit_compile):
    *_, entry = (e for e in CORE if isinstance(e.make(), layer_class))
    model = entry.model(track_statistics=True, name="watched")
    model.compile("sgd", "mse", jit_compile=jit_compile)
    inputs = {**entry.sample(), **dict.fromkeys(entry.masks, MASKS)}
    targets = model.predict_on_batch(inputs)
    history = model.fit(inputs, targets, epochs=2, verbose=0).history
    for statistic in FACTS[layer_class].statistics:
        values = history[f"watched_{statistic}"]
        assert len(values) == 2
        assert np.isfinite(values).all()
        assert np.min(values) > 0
