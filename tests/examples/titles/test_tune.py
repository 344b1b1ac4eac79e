"""The search on small data, continued."""

import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
keras_tuner = pytest.importorskip(
    "keras_tuner", reason="needs keras_seqmech[tuning]"
)

from examples.titles import tune  # noqa: E402
from tests.examples.titles import small_titles  # noqa: E402

pytestmark = pytest.mark.long


def test_a_search_is_continued(tmp_path):
    folder = small_titles.write(tmp_path / "data")
    arguments = ["--data-dir", str(folder), "--output", str(tmp_path / "s")]
    arguments += ["--units", "2", "3", "--epochs", "1", "--trials"]
    table = tune.main([*arguments, "1"]).splitlines()
    assert len(table) == 2 + 1
    before = (tmp_path / "s" / "trial_0" / "trial.json").read_text()
    assert '"COMPLETED"' in before
    table = tune.main([*arguments, "2"])
    assert len(table.splitlines()) == 2 + 2
    assert (tmp_path / "s" / "trial_0" / "trial.json").read_text() == before
    assert (tmp_path / "s" / "results.md").read_text() == table
    with pytest.raises(ValueError, match="another search"):
        tune.main([*arguments, "2", "--inputs", "characters"])


@pytest.mark.parametrize("inputs", ["words", "characters"])
def test_trials_search_what_they_should(inputs):
    hp = keras_tuner.HyperParameters()
    settings = tune.choose_settings(hp, tune.parse(["--inputs", inputs]))
    assert settings.inputs == inputs
    spaces = {space.name for space in hp.space}
    words_only = {"embedding_size"} if inputs == "words" else set()
    assert spaces == {"units", "read_out", "initial_state"} | words_only
