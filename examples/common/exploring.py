"""Options of decisions that explore, then commit."""

import argparse

from keras_seqmech import ExploreThenCommit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds `--explore` and what it may be given."""
    add = parser.add_argument
    add("--explore", action="store_true", help="train with ExploreThenCommit")
    price = "with --explore: weight of what is read at the end"
    add("--price", type=float, help=price)


def check(
    parser: argparse.ArgumentParser, args: argparse.Namespace
) -> argparse.Namespace:
    """Refuses a price without `--explore`."""
    if args.price is not None and not args.explore:
        parser.error(f"--price: needs --explore. Received: {args.price}")
    return args


def schedule(args: argparse.Namespace) -> ExploreThenCommit | None:
    """The callback with what the command line gives; None without one."""
    if not args.explore:
        return None
    given = {} if args.price is None else {"reading": args.price}
    return ExploreThenCommit(**given)


def describe(args: argparse.Namespace) -> str:
    """Weights of the entropy at first and of reading at the end, or "none"."""
    callback = schedule(args)
    if callback is None:
        return "none"
    entropy = callback.values(0.0)["entropy"]
    return f"{entropy:g}/{callback.values(1.0)['reading']:g}"
