"""What is read of votes, beside the best answers."""

import numpy as np
import pytest
from scipy import stats

from examples.focused import votes
from tests.examples.files import read


def test_the_best_answer_of_one_kind_is_the_majority():
    """Of 12 votes a binomial number is of a kind, and so many are right."""
    examples = votes.draw(20000, seed=3)
    accuracy, share = votes.best(examples, 0.95)
    counts = np.arange(13)
    majority = [
        stats.binom.sf(n // 2, n, 0.95)
        + 0.5 * stats.binom.pmf(n / 2, n, 0.95) * (n % 2 == 0)
        for n in counts
    ]
    expected = stats.binom.pmf(counts, 12, 0.25) @ majority
    # Four standard errors.
    assert abs(accuracy - expected) < 4 * np.sqrt(0.25 / 20000)
    assert share == pytest.approx(1 / 16, abs=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("model", ["one gate", "one subsample"])
def test_one_training_reads_what_is_worth_it(tmp_path, model):
    options = f"--weights 0.03 1 --epochs 20 --output {tmp_path}/votes.csv"
    votes.PROGRAM.main([*options.split(), "--models", "best", model])
    *best, much, little = (
        (float(x["read"]), float(x["accuracy"]))
        for x in read(tmp_path / "votes.csv")
    )
    # Of the surest kind alone, and of one or two more.
    assert 5 < little[0] < 8 and little[0] + 1 < much[0] < 19
    for share, accuracy in (much, little):
        best_of_share = np.interp(share, *zip(*sorted(best)))
        # Of six seeds, 1.1 at most.
        assert accuracy > best_of_share - 1.5
