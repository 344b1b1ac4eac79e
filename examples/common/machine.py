"""The machine that a program runs on."""

import os
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Cores and processor, as far as the system tells."""
    return f"{os.cpu_count()} cores, {_processor()}"


def _processor() -> str:
    try:
        lines = CPUINFO.read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name" and value.strip():
            return value.strip()
    return platform.machine()  # ARM has no names, nor have some containers.
