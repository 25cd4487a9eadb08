# SPDX-License-Identifier: Apache-2.0
"""Tables that say the class of each image of a folder: a line an image, file and class."""

import csv
import pathlib

import numpy as np

from opendpu.ir import Array
from opendpu_arch.errors import TensorError


def find_table(folder: pathlib.Path) -> pathlib.Path | None:
    """Return the only ``.csv`` file of a folder; nothing where there is none, or are several."""
    found = [one for one in folder.iterdir() if one.suffix.lower() == ".csv"]
    return found[0] if len(found) == 1 else None


def read_table(path: pathlib.Path) -> tuple[list[pathlib.Path], Array]:
    """Return the images that a table names, and the number of the class of each.

    Classes are numbers, or names, which are numbered in order. A first line whose file is none is
    a heading. Files are beside the table, or below.

    Raises
    ------
    TensorError
        It cannot be read, or names a file that is not there.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [[cell.strip() for cell in row] for row in csv.reader(file) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TensorError(f"{path} cannot be read as a table: {error}") from None
    if rows and not (path.parent / rows[0][0]).is_file():
        rows = rows[1:]
    files, classes = [], []
    for row in rows:
        if len(row) < 2 or not (path.parent / row[0]).is_file():
            raise TensorError(f"{path}: {','.join(row)!r} must be a file beside it, and a class")
        files.append(path.parent / row[0])
        classes.append(row[1])
    if not files:
        raise TensorError(f"{path} names no images")
    if all(one.isdecimal() for one in classes):
        return files, np.array([int(one) for one in classes])
    names = sorted(set(classes))
    return files, np.array([names.index(one) for one in classes])
