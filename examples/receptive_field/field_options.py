"""Options of receptive fields, and what to know their runs by."""

import argparse

from examples.common import exploring

# What runs had before there was a choice.
OLDER = {"gated": "output", "size_from": "input", "explore": "none"}
SETTINGS = tuple(OLDER)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the layer."""
    add = parser.add_argument
    add(
        "--gated",
        choices=("memory", "output", "all"),
        default="memory",
        help="states of the cell that a field gates",
    )
    add(
        "--size-from",
        choices=("input", "field"),
        default="input",
        help="sizes chosen before reading, or while reading",
    )


def settings(args: argparse.Namespace) -> dict[str, str]:
    """These options and the schedule's, by name, to know a run by."""
    return {
        "gated": args.gated,
        "size_from": args.size_from,
        "explore": exploring.describe(args),
    }
