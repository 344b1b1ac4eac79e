"""Numbers of the command lines."""

import importlib

import pytest

NUMBERS = {
    "first_step": ["repeats"],
    "focused_encoder": ["repeats", "openness"],
    "memory": ["fits"],
    "packed_loop": ["repeats", "units"],
    "pooling": ["repeats", "batch", "time", "features", "units"],
    "receptive_field": ["repeats"],
    "serving": ["repeats", "units", "features"],
    "streaming": ["repeats", "units"],
    "subsample": ["repeats", "steps"],
    "word_importance": ["repeats", "texts", "k", "batch-size"],
}


@pytest.mark.parametrize(
    "name, option",
    [(name, option) for name, options in NUMBERS.items() for option in options],
)
def test_zero_is_refused(name, option, capsys):
    program = importlib.import_module(f"benchmarks.{name}")
    with pytest.raises(SystemExit) as ended:
        program.main([f"--{option}", "0"])
    assert ended.value.code == 2
    assert f"argument --{option}: " in capsys.readouterr().err
