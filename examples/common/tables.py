"""Markdown tables of runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd


def table(lines: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; the first line is its header."""
    header, *body = lines
    lines = [header, ["---"] * len(header), *body]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Mean ± standard deviation; "" if there are none.

    >>> spread([20.0, 22.0])
    '21.0 ± 1.4'
    """
    if len(values) < 2:
        return f"{values[0]:{form}}" if values else ""
    return f"{np.mean(values):{form}} ± {np.std(values, ddof=1):{form}}"


def by_kind(
    rows: Sequence[dict],
    by: Sequence[str],
    measured: Sequence[str],
) -> str:
    """Markdown table of means and standard deviations over seeds.

    Rows with the same values in the columns `by` are of one kind. Empty numbers
    and "nan" do not count.
    """
    lines = [[*by, *measured, "seeds"]]
    runs = pd.DataFrame(rows, columns=[*by, *measured])
    for kind, own in runs.groupby([*by], sort=False):
        numbers = own[[*measured]].apply(pd.to_numeric, errors="coerce")
        spreads = [spread([*x.dropna()], ".4g") for _, x in numbers.items()]
        lines.append([*kind, *spreads, len(own)])
    return table(lines)


def publish(*parts: str) -> str:
    """Prints Markdown parts; returns them in one."""
    content = "\n\n".join(parts) + "\n"
    print(content)
    return content
