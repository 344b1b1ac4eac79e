"""What a model reads, and its metrics, at several weights."""

import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_seqmech import EarlyPooling
from keras_seqmech import EmissionProbabilities
from keras_seqmech import ExpectedSubsample
from keras_seqmech import FocusedHierarchicalEncoder
from keras_seqmech import LookAhead
from keras_seqmech import PolicyGradientModel
from keras_seqmech import ReadingWeight
from keras_seqmech.analysis import decisions
from keras_seqmech.analysis import emission_delay
from keras_seqmech.analysis import plots
from keras_seqmech.analysis import trade_off
from keras_seqmech.analysis import waiting_pays
from keras_seqmech.analysis import weight_within
from keras_seqmech.analysis.by_layer import Deciding
from keras_seqmech.analysis.trade_off import _with_weight

X = np.random.default_rng(0).normal(size=(4, 6, 3)).astype("float32")
MASK = np.arange(6) < np.array([[6], [4], [2], [3]])
WEIGHTS = (0.01, 0.03, 0.1)


@pytest.fixture(scope="module")
def model():
    # No test has set the seed yet.
    keras.utils.set_random_seed(0)
    x, given = keras.Input((None, 3), name="x"), keras.Input((), name="weight")
    mask = keras.Input((None,), dtype="bool", name="mask")
    weight = ReadingWeight(0.001, 1.0)(given)
    look = LookAhead(4, name="look", initial_stop=0.4)
    read = look(x, mask=mask, weight=weight)
    encoder = FocusedHierarchicalEncoder(
        3, return_sequences=True, name="encoder"
    )
    states = encoder(read, x[:, 0], mask=mask, weight=weight)
    emission = keras.layers.Dense(1, "sigmoid")(states)[..., 0]
    kept = ExpectedSubsample(3, inference="expectation", name="short")(
        states, emission, mask=mask, weight=weight
    )
    emission = keras.layers.Dense(1, "sigmoid")(kept)[..., 0]
    shorter = ExpectedSubsample(2, inference="expectation", name="shorter")
    kept = shorter(kept, emission)
    # The larger the weight, the larger are sizes and the fewer gates open.
    look.weight_kernel.assign(3 - look.weight_kernel * 0)
    encoder.gate.weight_kernel.assign(-9.0)
    outputs = keras.layers.Dense(1)(keras.layers.LSTM(2)(kept))
    model = keras.Model([x, mask, given], outputs)
    model.compile(loss="mse", metrics=["mae"])
    return model


def test_points(model):
    inputs, targets = {"x": X, "mask": MASK}, np.ones((4, 1))
    points = trade_off(model, inputs, WEIGHTS, targets, mask=MASK)
    assert [x["weight"] for x in points] == list(WEIGHTS)
    assert {"loss", "mae", "look_mean_delay", "look_delay_percentile"} < {
        *points[0]
    }
    shares = [x["encoder_openness"] for x in points]
    assert shares == sorted(shares, reverse=True) and shares[0] > shares[-1]
    given = np.full(4, WEIGHTS[1], "float32")
    found = decisions(model, {**inputs, "weight": given})
    for name, mask in ("short", MASK), ("shorter", np.ones((4, 3), "bool")):
        share = found[name]["emission"].sum(axis=1)[mask].mean()
        assert 0 < share < 1
        assert points[1][f"{name}_kept"] == pytest.approx(share, rel=1e-6)
    found = model.evaluate({**inputs, "weight": given}, targets, verbose=0)
    assert found[0] == pytest.approx(points[1]["loss"], rel=1e-6)
    figure = plots.plot_trade_off(points, "encoder_openness", "mae")
    (line,) = figure.axes[0].lines
    np.testing.assert_allclose(line.get_xdata(), sorted(shares))


def test_delays_and_measures_by_hand(model):
    inputs, targets = {"x": X, "mask": MASK}, np.ones((4, 1), "float32")
    (point,) = trade_off(
        model,
        inputs,
        [0.02],
        targets,
        MASK,
        measure={"largest": lambda y, p: np.max(np.abs(y - p))},
    )
    given = {**inputs, "weight": np.full(4, 0.02, "float32")}
    size = decisions(model, given)["look"]["size"]
    delays = emission_delay(size, MASK)[MASK]
    assert point["look_longest_delay"] == delays.max() > 0
    assert point["look_at_once"] == np.mean(delays == 0)
    assert point["look_delay_percentile"] == np.percentile(delays, 95)
    expected = np.abs(1 - model.predict(given, verbose=0)).max()
    assert point["largest"] == pytest.approx(expected, rel=1e-6)


def test_statistics_of_a_layer_do_not_replace_what_is_measured():
    x, given = keras.Input((None, 3), name="x"), keras.Input((), name="weight")
    look = LookAhead(4, name="look", initial_stop=0.4, track_statistics=True)
    model = keras.Model([x, given], look(x, weight=ReadingWeight()(given)))
    model.compile(loss="mse")
    # A mask that the layer does not see.
    alone, evaluated = (
        trade_off(model, {"x": X}, [0.1], targets, MASK)[0]
        for targets in (None, np.ones((4, 6, 12), "float32"))
    )
    assert "look_mean_size" in evaluated and "loss" in evaluated
    assert alone == {name: evaluated[name] for name in alone}


class Batches(keras.utils.PyDataset):
    """Two batches of inputs and targets."""

    def __len__(self):
        return 2

    def __getitem__(self, index):
        own = slice(2 * index, 2 * index + 2)
        return {"x": X[own], "mask": MASK[own]}, np.ones((2, 1), "float32")


class Endless(Batches):
    num_batches = None


def test_data_sets_are_as_arrays(model):
    inputs, targets = {"x": X, "mask": MASK}, np.ones((4, 1), "float32")
    expected = trade_off(model, inputs, WEIGHTS, targets, batch_size=2)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(2)
    for data in (dataset, Batches(workers=2, max_queue_size=3)):
        for point, own in zip(trade_off(model, data, WEIGHTS), expected):
            assert point == pytest.approx(own, rel=1e-6)
    weighted = _with_weight(data, "weight", 0.1)
    assert (weighted.workers, weighted.max_queue_size) == (2, 3)
    with pytest.raises(ValueError, match="`targets` must be None.*Received"):
        trade_off(model, dataset, WEIGHTS, targets)
    # Inputs alone are not evaluated.
    for alone in (dataset.map(lambda x, y: x), dataset.map(lambda x, y: (x,))):
        (point,) = trade_off(model, alone, [0.1])
        assert "loss" not in point


def test_data_sets_without_inputs_by_name_are_refused(model):
    arrays = {"x": X, "mask": MASK}, np.ones((4, 1), "float32")
    dataset = tf.data.Dataset.from_tensor_slices(arrays).batch(2)
    tuples = dataset.map(lambda x, y: ((x["x"], x["mask"]), y))
    for data in (tuples, dataset.take(0), dataset.repeat(), Endless()):
        with pytest.raises(ValueError, match="`inputs` must.*Received"):
            trade_off(model, data, [0.1])


def test_measures_need_arrays_and_names(model):
    inputs, targets = {"x": X, "mask": MASK}, np.ones((4, 1), "float32")
    dataset = tf.data.Dataset.from_tensor_slices((inputs, targets)).batch(2)

    def share(y, p):
        return np.mean(y == p)

    for data, own, measure in (
        (dataset, None, {"share": share}),
        (inputs, targets, share),
        (inputs, targets, {"weight": share}),
        (inputs, targets, {"each": lambda y, p: p}),
        (inputs, targets, {"none": lambda y, p: None}),
    ):
        with pytest.raises(ValueError, match="`measure` must.*Received"):
            trade_off(model, data, [0.1], own, measure=measure)


def test_a_weight_that_hardly_matters_is_told(model):
    layers = model.get_layer("look"), model.get_layer("encoder").gate
    kernels = [layer.weight_kernel for layer in layers]
    before = [np.array(kernel) for kernel in kernels]
    for kernel in kernels:
        kernel.assign(0 * kernel)
    with pytest.warns(UserWarning) as found:
        trade_off(model, {"x": X, "mask": MASK}, [0.005, 0.5])
    told = " ".join(str(x.message) for x in found)
    assert "'look_mean_delay' is" in told and "'encoder_openness' is" in told
    # That one is given no weight.
    assert "'shorter_kept'" not in told
    trade_off(model, {"x": X, "mask": MASK}, [0.005, 0.05])
    for kernel, value in zip(kernels, before):
        kernel.assign(value)


def test_whether_waiting_pays():
    windows = [{"delay": d, "f1": f} for d, f in ((2, 80), (0, 50), (1, 70))]
    points = [{"delay": d, "f1": f} for d, f in ((0.5, 63), (1.5, 74), (3, 99))]
    found = waiting_pays(points, windows, "delay", "f1")
    gains = "A chosen delay gains at 1 of 2 points, most at 0.5 (f1 63): 3."
    assert found == gains
    found = waiting_pays(points[1:], windows, "delay", "f1")
    assert "does not pay here: 1 below fixed ones at 1.5 (f1 74)" in found
    for given, fixed in ((points[2:], windows), (points, windows[:1])):
        with pytest.raises(ValueError, match="`fixed`.*Received"):
            waiting_pays(given, fixed, "delay", "f1")
    with pytest.raises(ValueError, match="`points: wait` must be a key"):
        waiting_pays(points, windows, "wait", "f1")
    # Two seeds of each window, and a tie.
    seeds = [{**x, "f1": x["f1"] + e} for x in windows for e in (-9, 9)]
    assert waiting_pays(points, seeds, "delay", "f1") == waiting_pays(
        points, windows, "delay", "f1"
    )
    found = waiting_pays(windows, windows, "delay", "f1")
    assert "does not pay here: 0 below" in found
    with pytest.raises(ValueError, match="`fixed` must have two delays"):
        waiting_pays(windows, seeds[:2], "delay", "f1")
    points = [{**x, "weight": 0.1} for x in points]
    figure = plots.plot_trade_off(
        points, "delay", "f1", beside={"window": windows}
    )
    others, own = figure.axes[0].lines
    assert list(others.get_ydata()) == [50, 70, 80]
    assert list(own.get_ydata()) == [63, 74, 99]


def test_a_plot_of_a_trade_off_says_what_it_shows():
    points = [
        {"weight": w, "look_mean_delay": d, "val_f1": f}
        for w, d, f in ((0.005, 2.0, 0.9), (0.15, 0.5, 0.8))
    ]
    figure = plots.plot_trade_off(points, "look_mean_delay", "val_f1")
    (axes,) = figure.axes
    titles = axes.get_xlabel(), axes.get_ylabel()
    assert titles == ("look mean delay", "val f1")
    assert axes.get_title() == "Numbers: weight of what is read"
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 < box.x0 and box.x1 < frame.x1
        assert frame.y0 < box.y0 and box.y1 < frame.y1


def test_weights_beyond_the_range_are_held(model):
    inputs = {"x": X, "mask": MASK}
    with pytest.warns(UserWarning) as found:
        points = trade_off(model, inputs, [0.001, 1.0, 3.0], mask=MASK)
    told = re.compile(r"\[3\.0\] are beyond.* at .* or 1$")
    assert any(told.search(str(x.message)) for x in found)
    least, most, held = points
    # Sizes say themselves which steps are real.
    (alone,) = trade_off(model, inputs, [1.0])
    assert alone["look_mean_delay"] == most["look_mean_delay"]
    assert held == {**most, "weight": 3.0}
    assert held["look_mean_delay"] != least["look_mean_delay"]
    # Float32 rounds to below or above the ends.
    for end in (0.001, 1.0):
        trade_off(model, inputs, np.float32([end * (1 - 1e-7), end]))


def test_the_weight_of_a_budget():
    points = [{"weight": w, "d": d} for w, d in zip(WEIGHTS, (3.0, 1.5, 1.0))]
    assert weight_within(points, "d", 1.5) == 0.03
    assert weight_within(points, "d", least=1.2) == 0.03
    for measure, most, least in (
        ("e", 1.0, None),
        ("d", 0.5, None),
        ("d", None, 4.0),
        ("d", None, None),
        ("d", 1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="`(measure|most)`.*Received"):
            weight_within(points, measure, most, least)
    for x, y, given in (("d", "e", points), ("e", "d", points), ("d", "d", [])):
        with pytest.raises(ValueError, match="`[xy]` must be a key"):
            plots.plot_trade_off(given, x, y)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    points = [{"weight": 0.1, "d": 1.0}]
    with pytest.raises(ImportError, match=r"'.\[plots\]'"):
        plots.plot_trade_off(points, "d", "d")


def test_bad_arguments(model):
    for inputs, weights in (
        (X, WEIGHTS),
        ({"x": X, "weight": WEIGHTS}, WEIGHTS),
        ({"x": X, "mask": MASK}, ()),
        ({"x": X, "mask": MASK}, (-1.0,)),
        ({"x": X, "mask": MASK}, ([0.1], [0.1, None])),
        ({"x": X[:0], "mask": MASK[:0]}, WEIGHTS),
        ({"x": X.tolist(), "mask": MASK}, WEIGHTS),
        ({}, WEIGHTS),
    ):
        with pytest.raises(ValueError, match="`(inputs|weights)`.*Received"):
            trade_off(model, inputs, weights)
    with pytest.raises(ValueError, match=r"`mask`.*Received: .*\(4, 5\)"):
        trade_off(model, {"x": X, "mask": MASK}, WEIGHTS, mask=MASK[:, 1:])
    with pytest.raises(ValueError, match="`mask`.*Received: mask="):
        trade_off(model, {"x": X, "mask": MASK}, WEIGHTS, mask=[[1], [1, 0]])
    with pytest.raises(ValueError, match="`mask` must be True"):
        trade_off(model, {"x": X, "mask": MASK}, WEIGHTS, mask=0 * MASK)
    for tried in (model, PolicyGradientModel(model)):
        for name in ("other", ["weight"]):
            with pytest.raises(
                ValueError, match="`weight_input`.*'weight'.*Received"
            ):
                trade_off(tried, {"x": X, "mask": MASK}, 0.1, weight_input=name)
    x = keras.Input((None, 3), name="x")
    plain = keras.Model(x, LookAhead(2)(x))
    with pytest.raises(ValueError, match="`model`.*`ReadingWeight`"):
        trade_off(plain, {"x": X}, 0.1)


@pytest.mark.long
def test_all_weights_share_a_trace(model, monkeypatch):
    traces, call = [], Deciding.call

    def counted(self, inputs):
        traces.append(inputs)
        return call(self, inputs)

    monkeypatch.setattr(Deciding, "call", counted)
    trade_off(model, {"x": X, "mask": MASK}, WEIGHTS[:1])
    once = len(traces)
    trade_off(model, {"x": X, "mask": MASK}, WEIGHTS)
    assert len(traces) == 2 * once > 0


def test_early_answers_that_were_not_given_the_weight():
    x = keras.Input((None, 3), name="x")
    given = keras.Input((), name="weight")
    stop = EmissionProbabilities(share=0.05)(x, weight=ReadingWeight()(given))
    early = EarlyPooling(name="early")(x, stop)
    model = keras.Model([x, given], early)
    with pytest.warns(UserWarning, match="'early_mean_delay' is.*Give it"):
        points = trade_off(model, {"x": 0 * X}, [0.001, 0.5])
    assert [p["early_longest_delay"] for p in points] == [5, 5]
    mask = keras.Input((None,), dtype="bool", name="mask")
    early = EarlyPooling(name="early")(x, stop, mask=mask)
    model = keras.Model([x, given, mask], early)
    inputs = {"x": X, "mask": np.zeros_like(MASK)}
    with pytest.raises(ValueError, match="`inputs`.*real step. Received"):
        trade_off(model, inputs, [0.1])
