"""Options of decisions that explore, then commit."""

import argparse

from examples.common.arguments import real
from keras_seqmech import ExploreThenCommit
from keras_seqmech.training import exploration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--explore` and what it may be given."""
    add = parser.add_argument
    add(
        "--explore",
        action="store_true",
        help="train with ExploreThenCommit",
    )
    weight = real("[0, 100]")
    add(
        "--entropy",
        type=weight,
        help="with --explore: weight of the entropy at first",
    )
    add(
        "--price",
        type=weight,
        help="with --explore: weight of what is read at the end",
    )


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
    given = {"entropy": args.entropy, "reading": args.price}
    given = {
        name: weight for name, weight in given.items() if weight is not None
    }
    cooling = exploration.TEMPERATURE
    cooling = cooling._replace(
        initial=temperature,
        final=temperature * cooling.final / cooling.initial,
    )
    return ExploreThenCommit(temperature=cooling, **given)


def describe(args: argparse.Namespace) -> str:
    """Weights of the entropy at first and of reading at the end, or "none"."""
    callback = schedule(args)
    if callback is None:
        return "none"
    entropy = callback.values(0.0)["entropy"]
    reading = callback.values(1.0)["reading"]
    return f"{entropy:g}/{reading:g}"
