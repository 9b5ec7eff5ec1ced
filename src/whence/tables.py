"""1. Tables of labelled observations from CSV and Parquet files."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from whence import values

CELLS = 2**18  # of text in memory at once
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")


def ending(path: Path) -> str:
    return "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower()


def read_table(
    path: Path, labels: str, columns: Sequence[str] | None = None, ignore: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """The column of labels (N,) as text, and the others but those to ignore, or those named, (N, d) in float32."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {str(path)!r}. Give the path of a .csv or .parquet table.")
    read = read_parquet if ending(path) == ".parquet" else read_csv
    if ending(path) not in ENDINGS:
        raise ValueError(f"A table is a .csv, .tsv or .parquet file, got {path.name!r}. Convert it to one of them.")
    try:
        names, x = read(path, labels, columns, ignore)
    except UnicodeDecodeError:
        raise ValueError(f"{str(path)!r} is not text in UTF-8. Save the table as CSV, in UTF-8.") from None
    if unnamed := int((np.char.strip(names) == "").sum()):
        raise ValueError(f"{str(path)!r} has no label in the column {labels!r} in {unnamed} of {len(names)} rows.")
    if bad := int((~np.isfinite(x)).any(1).sum()):
        columns_ = int((~np.isfinite(x)).any(0).sum())
        raise ValueError(
            f"{str(path)!r} has missing or infinite values in {bad} of {len(x)} rows ({columns_} of {x.shape[1]} "
            "columns). Drop or impute them."
        )
    return names, x


def chosen(
    path: Path, header: Sequence[str], labels: str, columns: Sequence[str] | None, ignore: Sequence[str]
) -> list[str]:
    """The columns of numbers that are asked for."""
    if labels not in header:
        raise ValueError(f"{str(path)!r}: {values.unknown('column', labels, header)}")
    given = (*(columns or ()), *ignore)
    if columns is None:
        columns = [name for name in header if name != labels and name not in ignore and name.strip()]
    for name in given:
        if name not in header:
            raise ValueError(f"{str(path)!r}: {values.unknown('column', name, header)}")
    if not columns:
        raise ValueError(f"{str(path)!r} has no columns of numbers beside {labels!r}.")
    return list(columns)


def text(path: Path) -> Any:
    return gzip.open(path, "rt", newline="") if path.suffix == ".gz" else open(path, newline="")


def read_csv(
    path: Path, labels: str, columns: Sequence[str] | None, ignore: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    mark = "\t" if ending(path).startswith(".tsv") else ","
    with text(path) as file:
        rows = csv.reader(file, delimiter=mark)
        header = next(rows, [])
        if not header:
            raise ValueError(f"{str(path)!r} is empty. A table begins with a line of column names.")
        if len(header) == 1 and (other := next((m for m in ";\t," if m in header[0]), None)):
            raise ValueError(
                f"{str(path)!r} has {header[0].count(other) + 1} columns with {other!r} between them, and a "
                f"{ending(path)} file has {mark!r} there. Save it with {mark!r}"
                + (", or name it .tsv." if other == "\t" else ".")
            )
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise ValueError(f"{str(path)!r} has two columns named {twice!r}. Rename one.")
        wanted = chosen(path, header, labels, columns, ignore)
        at, places = header.index(labels), [header.index(name) for name in wanted]
        names, parts = [], []
        while block := list(islice(rows, max(1, CELLS // len(header)))):
            block = [row for row in block if row]
            if ragged := [row for row in block if len(row) != len(header)]:
                raise ValueError(
                    f"{str(path)!r} has {len(header)} columns, but a row of {len(ragged[0])} near line "
                    f"{rows.line_num}. Is every row whole, and every comma inside a text quoted?"
                )
            names += [row[at] for row in block]
            parts.append(numbers(path, block, places, wanted, rows.line_num - len(block) + 1))
    if not names:
        raise ValueError(f"{str(path)!r} has a header and no rows.")
    return np.array(names), np.concatenate(parts)


def numbers(path: Path, rows: list[list[str]], places: list[int], columns: list[str], line: int) -> np.ndarray:
    """Cells as float32; empty ones are NaN. `line` is where the first of the rows stands in the file."""
    try:
        return np.array([[row[k] or "nan" for k in places] for row in rows], dtype=np.float32)
    except ValueError:
        wrong = {}
        for name, k in zip(columns, places, strict=True):
            first = next((i for i, row in enumerate(rows) if not is_number(row[k])), None)
            if first is not None:
                wrong[name] = f"{name} ({rows[first][k]!r} near line {line + first})"
        raise ValueError(not_numbers(path, list(wrong.values()))) from None


def is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def not_numbers(path: Path, columns: Sequence[str]) -> str:
    shown = ", ".join(columns[:5]) + (f" and {len(columns) - 5} more" if len(columns) > 5 else "")
    return (
        f"{str(path)!r} has columns that are not numbers: {shown}. Leave them out (ignore), name the columns to use "
        "(columns), or mend the cells."
    )


def read_parquet(
    path: Path, labels: str, columns: Sequence[str] | None, ignore: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            f"Reading {path.name!r} needs an extra: pip install 'whence[parquet]'. Or save the table as CSV."
        ) from error
    try:
        schema = parquet.read_schema(path)
    except pyarrow.ArrowInvalid:
        raise ValueError(f"{str(path)!r} is not a Parquet file. If it is text, name it .csv.") from None
    header = [name for name in schema.names if not name.startswith("__index_level_")]
    wanted = chosen(path, header, labels, columns, ignore)
    types = {name: schema.field(name).type for name in wanted}
    is_numeric = (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean)
    if wrong := [name for name, kind in types.items() if not any(check(kind) for check in is_numeric)]:
        raise ValueError(not_numbers(path, wrong))
    table = parquet.read_table(path, columns=[labels, *wanted])
    x = np.empty((table.num_rows, len(wanted)), np.float32)
    for k, name in enumerate(wanted):
        x[:, k] = table.column(name).cast(pyarrow.float32(), safe=False).to_numpy()  # null becomes NaN
    if not len(x):
        raise ValueError(f"{str(path)!r} has no rows.")
    return np.array(["" if label is None else str(label) for label in table.column(labels).to_pylist()]), x
