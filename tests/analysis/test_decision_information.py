"""Information of decisions on tokens, against closed forms."""

import math

import numpy as np
import pytest

from keras_seqmech import analysis


@pytest.mark.parametrize("flip", [0.05, 0.5])
@pytest.mark.parametrize("kind", ["size", "gate", "kept"])
def test_a_binary_symmetric_channel(flip, kind):
    """A fair token, and a decision that differs from it at a share `flip`."""
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 2, (8, 5000))
    decisions = tokens ^ (rng.random(tokens.shape) < flip)
    decisions = {
        "size": 1 + 3 * decisions,
        "gate": np.where(decisions, 0.7, 0.2),
        "kept": decisions.astype(bool),
    }[kind]
    entropy = -flip * math.log(flip) - (1 - flip) * math.log(1 - flip)
    found = analysis.decision_information(decisions, tokens)
    # Standard deviation of log p(d|x) / p(d) over the root of 40,000 steps;
    # five of them, and the second order of the estimate where that is 0.
    deviation = math.sqrt(flip * (1 - flip)) * abs(math.log(1 / flip - 1))
    near = 5 * deviation / math.sqrt(tokens.size) + 10 / tokens.size
    assert abs(found - (math.log(2) - entropy)) < near


def test_a_token_that_determines_the_decision():
    tokens = np.array([[0, 1, 2, 3] * 3])
    found = analysis.decision_information(tokens + 1, tokens)
    # Three entropies of 4 values in 12 steps: one correction is left.
    assert found == pytest.approx(math.log(4) + 3 / 24, rel=1e-12)
    same = np.full(tokens.shape, 7)
    assert analysis.decision_information(same, tokens) == pytest.approx(0)


def test_masked_steps_and_rare_tokens_do_not_count():
    tokens = np.array([list("abab!"), list("abzzz")])
    gates = np.array([[0, 1, 0, 1, 1], [0, 1, 1, 0, np.nan]])
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
    found = analysis.decision_information(gates, tokens, mask, min_count=2)
    assert found == pytest.approx(math.log(2) + 1 / 12)
    assert analysis.decision_information(gates, tokens, mask) != found


def test_sizes_that_are_cut_do_not_count():
    """One size of 3 everywhere, as far as there is something to read."""
    rows = ["abaabe", "baabe-", "ab-aba"]
    tokens = np.array([list(row) for row in rows])
    sizes = np.array(
        [[3, 3, 3, 3, 2, 1], [3, 3, 3, 2, 1, 0], [2, 1, 0, 3, 2, 1]]
    )
    mask = tokens != "-"
    assert analysis.decision_information(sizes, tokens, mask) > 0.2
    found = analysis.decision_information(sizes, tokens, mask, max_size=3)
    assert found == pytest.approx(0)
    # A step that chooses less than it might still counts: of abaa, baa and a,
    # the first b alone has another size. H(D) + H(X) - H(D, X), of six a and
    # two b that differ; the corrections cancel.
    sizes[0, 1] = 2
    entropy = math.log(8) - 7 / 8 * math.log(7)
    found = analysis.decision_information(sizes, tokens, mask, max_size=3)
    assert found == pytest.approx(entropy - 2 / 8 * math.log(2))


ONE = np.ones((1, 2))


@pytest.mark.parametrize(
    "decisions, tokens, options, message",
    [
        (ONE, [[1, 2, 3]], {}, r"`decisions`.*\(1, 3\)"),
        (ONE, [[1, 2], [1]], {}, "`tokens`"),
        (np.nan * ONE, [[1, 2]], {}, "`decisions`.*finite"),
        (ONE, [[1, 2]], {"mask": ONE[:, 1:] > 0}, "`mask`"),
        (ONE, [[1, 2]], {"mask": ONE < 0}, "at least one step"),
        (ONE, [[1, 2]], {"min_count": 2}, "`min_count`.*at least one step"),
        (ONE, [[1, 2]], {"min_count": 0}, "`min_count`"),
        (ONE, [[1, 2]], {"max_size": 0}, "`max_size`"),
        (ONE, [[1, 2]], {"max_size": 3}, "`max_size`.*at least one step"),
    ],
)
def test_bad_input(decisions, tokens, options, message):
    with pytest.raises(ValueError, match=f"{message}.*Received: "):
        analysis.decision_information(decisions, tokens, **options)
