"""Command line arguments."""

import pytest

from examples.common import arguments


@pytest.mark.parametrize("given", [[], ["--data-dir", "nowhere"]])
def test_a_missing_data_folder_is_one_line(given, capsys):
    parser = arguments.parser("A program.")
    parser.add_argument("--data-dir", type=arguments.folder, required=True)
    with pytest.raises(SystemExit):
        parser.parse_args(given)
    usage, error = capsys.readouterr().err.strip().splitlines()
    assert usage.startswith("usage:")
    assert error.endswith(arguments.WHERE_DATA_ARE)


@pytest.mark.parametrize("given", ["0", "-5", "1.5", "many"])
def test_numbers_below_one_are_refused(given, capsys):
    parser = arguments.parser("A program.")
    parser.add_argument("--epochs", type=arguments.positive)
    assert parser.parse_args(["--epochs", "12"]).epochs == 12
    with pytest.raises(SystemExit):
        parser.parse_args(["--epochs", given])
    told = f"--epochs: must be an integer of at least 1. Received: '{given}'"
    assert told in capsys.readouterr().err
