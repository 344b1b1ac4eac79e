"""The search on small data, continued."""

import pytest

pytest.importorskip("tensorflow_text", reason="needs keras_seqmech[text]")
keras_tuner = pytest.importorskip(
    "keras_tuner", reason="needs keras_seqmech[tuning]"
)

from examples.titles import tune  # noqa: E402
from tests.examples.titles import small_titles  # noqa: E402

pytestmark = pytest.mark.long


def test_a_search_is_continued(tmp_path, capsys, monkeypatch):
    folder = small_titles.write(tmp_path / "data")
    arguments = ["--data-dir", str(folder), "--output", str(tmp_path / "s")]
    arguments += ["--units", "2", "3", "--epochs", "1", "--trials"]
    build = tune.models.build_network

    def killed(*args):
        if (tmp_path / "s" / "trial_1").exists():
            raise KeyboardInterrupt
        return build(*args)

    monkeypatch.setattr(tune.models, "build_network", killed)
    with pytest.raises(KeyboardInterrupt):
        tune.main([*arguments, "2"])
    before = (tmp_path / "s" / "trial_0" / "trial.json").read_text()
    assert '"COMPLETED"' in before
    monkeypatch.setattr(tune.models, "build_network", build)
    table = tune.main([*arguments, "2"]).splitlines()
    assert len(table) == 2 + 2
    assert "2 trials, 0 failed" in capsys.readouterr().out
    assert (tmp_path / "s" / "trial_0" / "trial.json").read_text() == before
    assert (tmp_path / "s" / "results.md").read_text().split("\n")[:4] == table
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
