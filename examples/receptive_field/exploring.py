"""Options of receptive fields, and of how their sizes are trained."""

import argparse

from examples.common.arguments import real
from keras_seqmech import ExploreThenCommit
from keras_seqmech.training import exploration

# What runs had before there was a choice.
OLDER = {"gated": "output", "size_from": "input", "explore": "none"}
SETTINGS = tuple(OLDER)


def add_field_arguments(parser: argparse.ArgumentParser) -> None:
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


def add_schedule_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--explore` and what it may be given."""
    add = parser.add_argument
    add(
        "--explore",
        action="store_true",
        help="train with ExploreThenCommit: sizes explore, pay, then commit",
    )
    weight = real("[0, 100]")
    add("--entropy", type=weight, help="with --explore: exploration at first")
    add("--price", type=weight, help="with --explore: price at the end")


def check(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> argparse.Namespace:
    """Refuses numbers of a schedule where there is none."""
    for name in ("entropy", "price"):
        value = getattr(args, name)
        if value is not None and not args.explore:
            parser.error(f"--{name}: needs --explore. Received: {value}")
    return args


def schedule(
    args: argparse.Namespace, temperature: float = 1.0
) -> ExploreThenCommit | None:
    """The callback that is asked for: its defaults but for what is given.

    Args:
        args: Of the command line.
        temperature: That the schedule begins with.
    """
    if not args.explore:
        return None
    given = {"entropy": args.entropy, "price": args.price}
    given = {
        name: weight for name, weight in given.items() if weight is not None
    }
    cooling = exploration.TEMPERATURE
    cooling = cooling._replace(
        initial=temperature,
        final=temperature * cooling.final / cooling.initial,
    )
    return ExploreThenCommit(temperature=cooling, **given)


def settings(args: argparse.Namespace) -> dict[str, str]:
    """The options by name, to know a run by."""
    callback = schedule(args)
    explore = "none"
    if callback is not None:
        ramps = callback.ramps
        entropy, price = ramps["entropy_weight"], ramps["cost_weight"]
        explore = f"{entropy.initial:g}/{price.final:g}"
    return {
        "gated": args.gated,
        "size_from": args.size_from,
        "explore": explore,
    }
