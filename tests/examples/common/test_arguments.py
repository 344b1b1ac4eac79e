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
