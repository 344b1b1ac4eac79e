"""Searches: more trials later, and which cannot be."""

import pytest

keras_tuner = pytest.importorskip("keras_tuner")
pytest.importorskip("tensorboard")

from keras_seqmech import tuning  # noqa: E402
from tests.tuning.searches import Counted  # noqa: E402
from tests.tuning.searches import search  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(currentThread|getName):DeprecationWarning"
)


def test_a_search_that_is_done_is_continued_with_more_trials(tmp_path):
    first, second = Counted(), Counted()
    search(first, tmp_path)
    search(second, tmp_path)
    assert (len(first.ran), len(second.ran)) == (4, 0)
    tuner = search(second, tmp_path, max_trials=6)
    assert len(second.ran) == 2
    assert len({*first.ran, *second.ran}) == 6
    search(second, tmp_path, max_trials=11)
    numbers = [int(r.trial_id) for r in tuning.trial_results(tuner.project_dir)]
    assert numbers == list(range(11))
    del second.ran[2:]
    assert tuner.oracle.get_best_trials()[0].score == max(
        size for size, _ in first.ran + second.ran
    )
    search(second, tmp_path, overwrite=True)
    assert second.ran[2:] == first.ran


@pytest.mark.parametrize(
    "argument, value",
    [
        ("tuner_class", "random"),
        ("tuner_class", keras_tuner.oracles.RandomSearchOracle),
        ("hypermodel", None),
        ("directory", None),
        ("project_name", ""),
        ("project_name", ".."),
        ("project_name", "a/b"),
        ("project_name", None),
        ("settings", {"path": object()}),
        ("settings", 3),
    ],
)
def test_searches_that_cannot_be(tmp_path, argument, value):
    options = {
        "tuner_class": keras_tuner.RandomSearch,
        "hypermodel": print,
        "directory": tmp_path / "searches",
        "project_name": "sweep",
        argument: value,
    }
    message = f"`{argument}` must be.*Received: {argument}="
    with pytest.raises(ValueError, match=message):
        tuning.open_search(**options)
    assert not list(tmp_path.iterdir())
