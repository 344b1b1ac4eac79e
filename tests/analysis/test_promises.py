"""Promises against how often they are broken, and bets by hand."""

import math

import numpy as np
import pytest

from keras_seqmech.analysis import promises
from keras_seqmech.analysis import weight_promised

# By setting: how often it is wrong where the first is right, and the reverse.
SHARES = {1: (0, 0), 2: (0.01, 0.01), 3: (0.04, 0.03), 4: (0.05, 0.03)}
SHARES[5] = (0.08, 0.04)


def draw(examples, generator):
    """Losses, 0 or 1, whose mean excess is the difference of the shares."""
    wrong = generator.random(examples) < 0.2
    losses = {}
    for setting, (lost, won) in SHARES.items():
        changes = generator.random(examples)
        losses[setting] = np.where(
            wrong, changes >= won / 0.2, changes < lost / 0.8
        ).astype(float)
    return losses


def test_promises_are_broken_as_rarely_as_they_say():
    most, delta, draws = 0.02, 0.1, 1000
    generator = np.random.default_rng(0)
    found = [
        weight_promised(draw(3000, generator), most, delta)
        for _ in range(draws)
    ]
    lost, won = np.array([SHARES[x] for x in found]).T
    broken = np.sum(lost - won >= most - 1e-9)
    # Four standard deviations of a binomial number.
    assert broken <= draws * delta + 4 * math.sqrt(draws * delta * (1 - delta))
    # And they are worth something: setting 3 holds, and is found often.
    assert np.mean(np.array(found) >= 3) > 0.4


def test_promises_hold_in_files_that_have_an_order():
    generator, broken = np.random.default_rng(1), 0
    for _ in range(200):
        # Long texts stand at the end: a tenth of all are lost, most says less.
        is_long = np.sort(generator.random(500)) > 0.5
        losses = (is_long & (generator.random(500) < 0.2)) * 1.0
        try:
            broken += weight_promised({1: np.zeros(500), 2: losses}, 0.05) == 2
        except ValueError:
            pass
    assert broken <= 200 * 0.05 + 4 * math.sqrt(200 * 0.05 * 0.95)


def test_bets_by_hand():
    excess, most, delta = np.array([0.0, 1.0, 0, 0, -1, 0] * 30), 0.4, 0.2
    losses = {1.0: (excess < 0) * 1.0, 2.0: (excess > 0) * 1.0}
    capital, largest = 1.0, 0.0
    total = squares = 0.0
    for i, x in enumerate(excess):
        variance = (0.25 + squares) / (i + 1)
        bet = math.sqrt(2 * math.log(1 / delta) / (len(excess) * variance))
        capital *= 1 + min(bet, 0.75 / (1 - most)) * (most - x)
        largest = max(largest, capital)
        total += x
        squares += (x - total / (i + 2)) ** 2
    gain = promises._largest_gain(excess, most, delta)
    assert math.isclose(gain, math.log(largest), rel_tol=1e-12)
    assert largest > 1 / delta
    assert weight_promised(losses, most, delta) == 2.0


def test_no_setting_after_one_that_fails():
    good = np.zeros(1000)
    bad = np.ones(1000)
    losses = {0.01: good, 0.02: good, 0.03: bad, 0.04: good}
    assert weight_promised(losses, 0.05) == 0.02


@pytest.mark.parametrize(
    ("message", "losses", "most", "delta"),
    [
        (
            "about .* examples would do",
            {1: np.zeros(50), 2: np.zeros(50)},
            0.01,
            0.05,
        ),
        ("would not help", {1: np.zeros(50), 2: np.ones(50)}, 0.01, 0.05),
        ("would do", {"a": np.zeros(9), "b": np.zeros(9)}, 0.01, 1e-310),
        ("two settings", {1: np.zeros(50)}, 0.01, 0.05),
        ("one length", {1: np.zeros(50), 2: np.zeros(49)}, 0.01, 0.05),
        ("one length", {1: np.zeros((5, 2)), 2: np.zeros((5, 2))}, 0.01, 0.05),
        ("one length", {1: [], 2: []}, 0.01, 0.05),
        ("from 0 to 1", {1: np.zeros(9), 2: np.full(9, 1.5)}, 0.01, 0.05),
        ("from 0 to 1", {1: np.zeros(9), 2: np.full(9, np.nan)}, 0.01, 0.05),
        ("`most`", {1: np.zeros(9), 2: np.zeros(9)}, 0.0, 0.05),
        ("`delta`", {1: np.zeros(9), 2: np.zeros(9)}, 0.1, 1.0),
    ],
)
def test_what_cannot_be_promised_is_refused(message, losses, most, delta):
    with pytest.raises(ValueError, match=message):
        weight_promised(losses, most, delta)


def test_the_number_of_examples_that_is_named_is_enough():
    excess = np.tile([1.0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 20)
    losses = {1: np.zeros(200), 2: excess}
    with pytest.raises(ValueError, match="examples would do") as error:
        weight_promised(losses, 0.15)
    count = int(str(error.value).partition("about ")[2].split()[0])
    order = np.random.default_rng(0).permutation(count)
    many = np.resize(excess, count)[order]
    assert weight_promised({1: np.zeros(count), 2: many}, 0.15) == 2
    # A few large losses: the best bet is a small one.
    few = (np.arange(5000) < 14).astype(float)
    with pytest.raises(ValueError, match="about [1-9][0-9]{3} examples"):
        weight_promised({1: np.zeros(5000), 2: few}, 0.005)
