"""The line that names the machine."""

import os
import platform

import pytest

from benchmarks import timing
from examples.common import machine

ARM = "processor\t: 0\nBogoMIPS\t: 243.75\nCPU part\t: 0xd0c\n"


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(machine, "CPUINFO", path)
    return path


def test_the_processor_is_named(cpuinfo):
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Xeon: 2 GHz\n" * 2)
    assert machine.machine() == f"{os.cpu_count()} cores, Xeon: 2 GHz"


@pytest.mark.parametrize("content", [ARM, "", "model name\t:\n"])
def test_a_processor_without_a_name(cpuinfo, content):
    cpuinfo.write_text(content)
    expected = f"{os.cpu_count()} cores, {platform.machine()}"
    assert machine.machine() == expected
    assert timing.environment().startswith(f"{expected}, Python ")


def test_a_system_without_the_file(cpuinfo, monkeypatch):
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    assert machine.machine() == f"{os.cpu_count()} cores, arm64"
