"""Files that are replaced as a whole."""

import pytest

from examples.common import whole_files


def test_the_old_file_is_there_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "new" / "file.txt"
    with whole_files.replacing(path) as file:
        file.write("old")
    with whole_files.replacing(path, newline="") as file:
        file.write("né\r\n")
        file.flush()
        assert path.read_text() == "old"
    assert path.read_bytes() == "né\r\n".encode()
    with whole_files.replacing(path, "wb") as file:
        file.write(b"bytes")
    assert path.read_bytes() == b"bytes"
    assert list(path.parent.iterdir()) == [path]


def test_an_exception_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with (
        pytest.raises(KeyboardInterrupt),
        whole_files.replacing(path) as file,
    ):
        file.write("new")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
