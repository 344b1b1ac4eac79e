"""Tables that are printed while they are measured."""

from benchmarks.printed_tables import print_table
from examples.common import tables


def test_rows_are_printed_as_they_come(capsys):
    printed = []

    def rows():
        for row in (["a", 1], ["b", 2]):
            printed.append(capsys.readouterr().out)
            yield row

    header = ["name", "ms"]
    print_table(header, rows())
    printed.append(capsys.readouterr().out)
    assert printed[0] == tables.table([header]) + "\n"
    assert printed[1:] == ["| a | 1 |\n", "| b | 2 |\n"]
    whole = tables.table([header, ["a", 1], ["b", 2]])
    assert "".join(printed) == whole + "\n"
