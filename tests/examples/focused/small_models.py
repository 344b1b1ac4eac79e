"""Options of tiny models of the picking task."""

from pathlib import Path

SMALL = [
    *("--batch-size", "16"),
    *("--units", "8"),
    *("--length", "6"),
    *("--steps", "4"),
    *("--evaluate-every", "2"),
    *("--test-size", "40"),
]


def small(output: str | Path, *more: object) -> list[str]:
    """Options of a study that takes seconds."""
    return [*SMALL, *map(str, ["--output", output, *more])]
