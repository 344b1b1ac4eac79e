"""Python in processes of their own."""

import os
import subprocess
import sys

from tests import ROOT


def run_python(*arguments, timeout=500, **environment):
    """A new Python that finds the package and the tests; how it ended."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def printed_by(*arguments, **options):
    """Lines that it prints, once it ended well."""
    result = run_python(*arguments, **options)
    assert result.returncode == 0, result.stderr[-3000:]
    return result.stdout.splitlines()
