"""Where TensorFlow Serving looks for versions and warm-up requests."""

import pathlib

WARMUP = pathlib.Path("assets.extra", "tf_serving_warmup_requests")


def versions(directory: pathlib.Path) -> set[int]:
    """Version numbers in use; TensorFlow Serving reads `007` as 7."""
    if not directory.is_dir():
        return set()
    names = [path.name for path in directory.iterdir()]
    return {int(n) for n in names if n.isascii() and n.isdigit()}
