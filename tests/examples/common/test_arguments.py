"""Command line arguments."""

import pytest

from examples.common import arguments


def test_a_missing_data_folder_is_one_line(capsys):
    parser = arguments.parser("A program.")
    parser.add_argument("--data-dir", type=arguments.folder)
    with pytest.raises(SystemExit):
        parser.parse_args(["--data-dir", "nowhere"])
    usage, error = capsys.readouterr().err.strip().splitlines()
    assert usage.startswith("usage:")
    assert error.endswith(arguments.WHERE_DATA_ARE)
