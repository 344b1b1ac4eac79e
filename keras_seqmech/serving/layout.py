"""Where TensorFlow Serving looks for versions and warm-up requests."""

import pathlib

LARGEST = 2**63 - 1
WARMUP = pathlib.Path("assets.extra", "tf_serving_warmup_requests")


def versions(directory: pathlib.Path) -> set[int]:
    """Version numbers in use; TensorFlow Serving reads `007` as 7.

    Numbers larger than `LARGEST` do not count: no server reads them.
    """
    if not directory.is_dir():
        return set()
    names = [path.name for path in directory.iterdir()]
    numbers = (int(n) for n in names if n.isascii() and n.isdigit())
    return {number for number in numbers if number <= LARGEST}
