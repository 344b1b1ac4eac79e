"""Markdown tables that are printed while they are measured."""

from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from examples.common import tables


def print_table(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a table, each row as soon as there is one.

    Args:
        header: Names of the columns.
        rows: Their cells; an iterator may measure them.
    """
    print(tables.table([header]), flush=True)
    for row in rows:
        line, _ = tables.table([row]).split("\n")
        print(line, flush=True)
