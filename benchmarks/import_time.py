"""What `import keras_seqmech` costs beyond `import keras`.

    python -m benchmarks.import_time [--repeats 7]

Each import is timed in a process of its own, the two in turn, and the medians
compared; what the package adds is also timed by itself, after Keras. These are
seconds of the processor, which other processes do not lengthen. Ends with an
error if the package adds more than 0.3 s to Keras.
"""

import argparse
import datetime
import statistics
import subprocess
import sys

from benchmarks import timing
from benchmarks.printed_tables import print_table
from examples.common.arguments import positive

LIMIT = 0.3
SCRIPT = """
import time
start = time.process_time()
import keras
between = time.process_time()
if {package}:
    import keras_seqmech
end = time.process_time()
print(end - start, end - between)
"""


def measure(repeats: int) -> tuple[float, float, float]:
    """Times imports in fresh processes.

    Args:
        repeats: Processes of each kind, after one to warm the disk's cache.

    Returns:
        Median seconds of Keras, of Keras and the package, and of the package
        alone.
    """
    rounds = []
    for _ in range(repeats + 1):
        rounds.append([_run(package) for package in (False, True)])
    keras_alone, both = zip(*rounds[1:])
    return (
        statistics.median(total for total, _ in keras_alone),
        statistics.median(total for total, _ in both),
        statistics.median(added for _, added in both),
    )


def _run(package):
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(package=package)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    total, added = map(float, result.stdout.split())
    return total, added


def main(argv: list[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=positive, default=7)
    arguments = parser.parse_args(argv)
    print(f"{datetime.date.today()}; {timing.environment()}; {vars(arguments)}")
    keras_alone, both, added = measure(arguments.repeats)
    seconds = {
        "keras": keras_alone,
        "keras, keras_seqmech": both,
        "difference": both - keras_alone,
        "keras_seqmech after keras": added,
    }
    print_table(
        ["import", "seconds"],
        [[name, f"{value:.2f}"] for name, value in seconds.items()],
    )
    if added > LIMIT:
        raise SystemExit(f"keras_seqmech adds {added:.2f} s, not {LIMIT} s")


if __name__ == "__main__":
    main()
