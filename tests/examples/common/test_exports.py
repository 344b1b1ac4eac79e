"""Folders of exported models."""

from examples.common.exports import newest


def test_the_newest_version_is_taken(tmp_path):
    assert newest(tmp_path / "missing") is None
    assert newest(tmp_path) is None
    for name in ("2", "10", ".tmp-export-11", "notes"):
        (tmp_path / name).mkdir()
    assert newest(tmp_path) == tmp_path / "10"
