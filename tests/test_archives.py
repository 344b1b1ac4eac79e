"""What is in the wheel and in the source archive."""

import email
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

import keras_seqmech
from tests import ROOT

pytestmark = pytest.mark.long

NAME = f"keras_seqmech-{keras_seqmech.__version__}"
# Of the source archive; all of a folder's files are in it.
FOLDERS = {
    "benchmarks",
    "docs",
    "examples",
    "keras_seqmech",
    "saved_models",
    "tests",
}
FILES = {
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
    "LICENSE",
    "MANIFEST.in",
    "Makefile",
    "README.md",
    "RESULTS.md",
    "SECURITY.md",
    "pyproject.toml",
    "setup.cfg",
}
MADE_BY_BUILD = {"PKG-INFO", "keras_seqmech.egg-info"}
NOT_IN_ARCHIVES = {"__pycache__", "generated"}


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The folder that holds both: that of `make dist`, or a new one."""
    if "ARCHIVES" in os.environ:
        return pathlib.Path(os.environ["ARCHIVES"])
    pytest.importorskip("build", reason="needs keras_seqmech[release]")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return folder


def files_of(folder: str) -> set[str]:
    """Files under a folder of the project, as archives name them."""
    files = (
        path.relative_to(ROOT)
        for path in ROOT.joinpath(folder).rglob("*")
        if path.is_file()
    )
    return {x.as_posix() for x in files if not NOT_IN_ARCHIVES & set(x.parts)}


def test_the_wheel_holds_the_package_alone(archives):
    (path,) = archives.glob("*.whl")
    assert path.name == f"{NAME}-py3-none-any.whl"
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        metadata = email.message_from_bytes(
            wheel.read(f"{NAME}.dist-info/METADATA")
        )
    package = {name for name in names if ".dist-info/" not in name}
    assert package == files_of("keras_seqmech")
    assert f"{NAME}.dist-info/licenses/LICENSE" in names
    assert metadata["License-Expression"] == "Apache-2.0"
    extras = {"text", "tuning", "plots", "examples", "serving", "docs", "dev"}
    assert extras <= set(metadata.get_all("Provides-Extra"))


def test_the_source_archive_holds_the_project(archives):
    (path,) = archives.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    prefix = path.name.removesuffix(".tar.gz") + "/"
    assert prefix == f"{NAME}/"
    names = {x.name.removeprefix(prefix) for x in members if x.isfile()}
    top = {name.split("/")[0] for name in names}
    assert top == FOLDERS | FILES | MADE_BY_BUILD
    for folder in FOLDERS:
        inside = {name for name in names if name.startswith(f"{folder}/")}
        assert inside == files_of(folder), folder
