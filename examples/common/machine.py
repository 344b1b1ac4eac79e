"""The machine that a program runs on."""

import os
import platform
import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def machine() -> str:
    """Cores and processor, as far as the system tells."""
    content = CPUINFO.read_text(encoding="utf8") if CPUINFO.exists() else ""
    # ARM has no names, nor have some containers.
    named = re.search(r"^model name\s*:[ \t]*(\S.*)$", content, re.MULTILINE)
    processor = named[1] if named else platform.machine()
    return f"{os.cpu_count()} cores, {processor}"
