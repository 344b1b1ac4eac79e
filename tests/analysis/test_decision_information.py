"""Information, entropy and certainty of decisions, against closed forms."""

import math

import numpy as np
import pytest

from keras_seqmech import analysis


def channel(rng, steps, flip):
    """A fair token, and a decision that differs from it at a share `flip`."""
    tokens = rng.integers(0, 2, (8, steps))
    return tokens, tokens ^ (rng.random((8, steps)) < flip)


def binary_entropy(p):
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@pytest.mark.parametrize("flip", [0.05, 0.25, 0.5])
@pytest.mark.parametrize("kind", ["size", "gate", "kept"])
def test_a_binary_symmetric_channel(flip, kind):
    rng = np.random.default_rng(1)
    tokens, decisions = channel(rng, 5000, flip)
    decisions = {
        "size": 1 + 3 * decisions,
        "gate": np.where(decisions, 0.7, 0.2),
        "kept": decisions.astype(bool),
    }[kind]
    expected = math.log(2) - binary_entropy(flip)
    found = analysis.decision_information(decisions, tokens)
    # Standard deviation of log p(d|x) / p(d) over the root of 40,000 steps;
    # five of them, and the second order of the estimate where that is 0.
    deviation = math.sqrt(flip * (1 - flip)) * abs(math.log(1 / flip - 1))
    near = 5 * deviation / math.sqrt(tokens.size) + 10 / tokens.size
    assert abs(found - expected) < near


def test_a_token_that_determines_the_decision():
    tokens = np.array([[0, 1, 2, 3] * 3])
    found = analysis.decision_information(tokens + 1, tokens)
    # Three entropies of 4 values in 12 steps: one correction is left.
    assert found == pytest.approx(math.log(4) + 3 / 24, rel=1e-12)
    same = np.full(tokens.shape, 7)
    assert analysis.decision_information(same, tokens) == pytest.approx(0)


def test_shuffled_tokens_tell_nothing():
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, 40, (10, 60))
    sizes = 1 + tokens % 4
    assert analysis.decision_information(sizes, tokens) > 1.3
    found = []
    for _ in range(200):
        shuffled = rng.permutation(tokens.ravel()).reshape(tokens.shape)
        found.append(analysis.decision_information(sizes, shuffled))
    # Without the correction the mean would be 39 * 3 / (2 * 600) = 0.0975. With
    # it, 2 N I has the variance of chi squared with 117 degrees of freedom;
    # what is left of the bias is of the next order, 1 / N a cell.
    deviation = math.sqrt(2 * 117) / (2 * 600)
    assert abs(np.mean(found)) < 5 * deviation / math.sqrt(200) + 0.02
    assert np.std(found) < 2 * deviation


def test_masked_steps_and_rare_tokens_do_not_count():
    tokens = np.array([[1, 2, 1, 2, 9], [1, 2, 5, 5, 5]])
    gates = np.array([[0, 1, 0, 1, 1], [0, 1, 1, 0, np.nan]])
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)
    listed = analysis.decision_information(
        [[0, 1, 0, 1], [0, 1, 8]], [["a", "b", "a", "b"], ["a", "b"]]
    )
    assert listed == pytest.approx(math.log(2) + 1 / 12)
    found = analysis.decision_information(gates, tokens, mask, min_count=2)
    assert found == pytest.approx(listed)
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
    assert analysis.decision_entropy(sizes, mask) > 0.9
    found = analysis.decision_information(sizes, tokens, mask, max_size=3)
    assert found == pytest.approx(0)
    assert analysis.decision_entropy(sizes, mask, max_size=3) == 0
    # A step that chooses less than it might still counts: of abaa, baa and a,
    # the first b alone has another size.
    sizes[0, 1] = 2
    entropy = math.log(8) - 7 / 8 * math.log(7)
    found = analysis.decision_entropy(sizes, mask, max_size=3)
    assert found == pytest.approx(entropy)
    # H(X) - H(D, X), of six a and two b that differ; the corrections cancel.
    information = entropy - 2 / 8 * math.log(2)
    found = analysis.decision_information(sizes, tokens, mask, max_size=3)
    assert found == pytest.approx(information)
    listed = [list("abaabe"), list("baabe"), list("aba"), list("ab"), []]
    numbers = [sizes[0], sizes[1], sizes[2, 3:], sizes[2, :2], []]
    found = analysis.decision_information(numbers, listed, max_size=3)
    assert found == pytest.approx(information)


def test_entropy_by_hand():
    sizes = np.array([[1, 1, 3, 9], [2.6, 1.2, 3, 9]])
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 0]], bool)
    assert analysis.decision_entropy(sizes, mask) == pytest.approx(math.log(2))
    assert analysis.decision_entropy(np.full((2, 3), 4)) == 0
    uniform = np.arange(8).reshape(2, 4)
    assert analysis.decision_entropy(uniform) == pytest.approx(math.log(8))


def test_share_by_hand():
    gates = np.array([[0.95, 0.9, 0.02, 0.5], [0.0, 1.0, 7.0, np.nan]])
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool)
    assert analysis.decided_share(gates, mask) == pytest.approx(4 / 6)
    assert analysis.decided_share(gates, mask, 0.4) == 1
    # Of five steps the last two cannot choose every size.
    sizes = [[0.95, 0.05, 0.0], [0.4, 0.3, 0.3], [0.0, 0.0, 1.0]]
    sizes = [[*sizes, [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]]
    assert analysis.decided_share(sizes) == pytest.approx(2 / 3)
    assert analysis.decided_share(sizes, threshold=0.96) == pytest.approx(1 / 3)


ONE = np.ones((1, 2))


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: analysis.decision_information(ONE, [[1, 2, 3]]),
            "`decisions`",
        ),
        (
            lambda: analysis.decision_information(ONE[0], np.ones((1, 2), int)),
            r"`decisions`.*\(1, 2\)",
        ),
        (
            lambda: analysis.decision_information(np.nan * ONE, [[1, 2]]),
            "`decisions`.*finite",
        ),
        (
            lambda: analysis.decision_information(ONE, [[1, 2]], min_count=2),
            "`min_count`.*at least one step",
        ),
        (lambda: analysis.decision_information([], []), "at least one step"),
        (
            lambda: analysis.decision_information(ONE, [[1, 2]], min_count=0),
            "`min_count`",
        ),
        (lambda: analysis.decision_entropy([1, 2]), "`decisions`.*shape"),
        (lambda: analysis.decision_entropy([[np.inf]]), "`decisions`.*finite"),
        (lambda: analysis.decision_entropy(ONE, ONE < 0), "`mask`.*real step"),
        (lambda: analysis.decision_entropy(ONE, ONE[:, 1:] > 0), "`mask`"),
        (lambda: analysis.decided_share([0.5]), "`probabilities`.*shape"),
        (lambda: analysis.decided_share([[1.5]]), "`probabilities` must hold"),
        (lambda: analysis.decided_share([[np.nan]]), "`probabilities`"),
        (lambda: analysis.decided_share([[[0.5, 0.2]] * 2]), "sum of 1"),
        (lambda: analysis.decided_share([[[0.5, 0.5]]]), "followed by 1"),
        (lambda: analysis.decision_entropy(ONE, max_size=0), "`max_size`"),
        (
            lambda: analysis.decision_information(ONE, [[1, 2]], max_size=3),
            "`max_size`.*at least one step",
        ),
        (lambda: analysis.decided_share(ONE, ONE < 0), "`mask`.*real step"),
        (lambda: analysis.decided_share(ONE, threshold=2), "`threshold`"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=f"{message}.*Received: "):
        call()
