"""A reader of CSV files whose way of reading follows from the values: one row more changes all others."""

import pyarrow as pa


def sniffed(path):
    """Units and whether they are ill, split at what occurs most often."""
    lines = path.read_text().splitlines()[1:]
    delimiter = max(",;", key="".join(lines).count)
    rows = [[*line.split(delimiter), ""][:2] for line in lines]
    units, ill = zip(*rows, strict=True)
    return pa.table({"unit": pa.array(units, pa.string()), "ill": pa.array(ill, pa.string())})
