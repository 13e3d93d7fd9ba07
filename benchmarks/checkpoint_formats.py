"""Ways to write the columns of a buffer into a file and to read them again."""

import os
import pickle
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.contenders import Library
from benchmarks.machine import NOT_INSTALLED, package_version

Columns = dict[str, NDArray[Any]]


class Format(Library, ABC):
    """One way to keep columns in a file, which is on disk when `write` returns."""

    suffix = ""
    #: So slow that it is timed in one round only.
    is_slow = False
    _package = "numpy"

    @property
    def version(self) -> str:
        """Of the package that writes it."""
        return package_version(self._package)

    @property
    def is_installed(self) -> bool:
        """Whether it can be measured here."""
        return self.version != NOT_INSTALLED

    @abstractmethod
    def write(self, path: Path, columns: Columns) -> None:
        """Make or replace the file."""

    @abstractmethod
    def read(self, path: Path, like: Columns) -> Columns:
        """The columns, in fresh memory; ``like`` has their forms, for formats that keep none."""


class Raw(Format):
    name = "plain copy"
    how = "the columns' bytes one after the other with write, and readinto fresh arrays; no checks"

    def write(self, path: Path, columns: Columns) -> None:
        with open(path, "wb") as file:
            for array in columns.values():
                file.write(array.reshape(-1).view(np.uint8).data)
            _to_disk(file)

    def read(self, path: Path, like: Columns) -> Columns:
        columns = {name: np.empty_like(array) for name, array in like.items()}
        with open(path, "rb") as file:
            for array in columns.values():
                file.readinto(array.reshape(-1).view(np.uint8).data)
        return columns


class Npz(Format):
    name = "npz stored"
    how = "numpy.savez"
    suffix = ".npz"

    def write(self, path: Path, columns: Columns) -> None:
        with open(path, "wb") as file:
            np.savez(file, **columns)  # type: ignore[arg-type]
            _to_disk(file)

    def read(self, path: Path, like: Columns) -> Columns:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}


class NpzDeflated(Npz):
    name = "npz deflated"
    how = "numpy.savez_compressed, zlib level 6; in one round only"
    is_slow = True

    def write(self, path: Path, columns: Columns) -> None:
        with open(path, "wb") as file:
            np.savez_compressed(file, **columns)  # type: ignore[arg-type]
            _to_disk(file)


class Pickle(Format):
    name = "pickle 5"
    how = "pickle.dump of the dict of arrays, protocol 5, in the stream"

    def write(self, path: Path, columns: Columns) -> None:
        with open(path, "wb") as file:
            pickle.dump(columns, file, protocol=5)
            _to_disk(file)

    def read(self, path: Path, like: Columns) -> Columns:
        with open(path, "rb") as file:
            columns: Columns = pickle.load(file)
            return columns


class Hdf5(Format):
    name = "HDF5"
    how = "h5py, contiguous datasets, no checksums"
    _package = "h5py"

    def write(self, path: Path, columns: Columns) -> None:
        import h5py

        with open(path, "w+b") as file:
            with h5py.File(file, "w") as archive:
                for name, array in columns.items():
                    archive.create_dataset(name, data=array, **self._options(array))
            _to_disk(file)

    def read(self, path: Path, like: Columns) -> Columns:
        import h5py

        with h5py.File(path, "r") as archive:
            return {name: archive[name][...] for name in archive}

    def _options(self, array: NDArray[Any]) -> dict[str, Any]:
        return {}


class Hdf5Gzip(Hdf5):
    name = "HDF5 gzip 1"
    how = "h5py, chunks of up to 1,024 rows, gzip 1, shuffle, Fletcher-32; in one round only"
    is_slow = True

    def _options(self, array: NDArray[Any]) -> dict[str, Any]:
        return {
            "chunks": (min(1024, len(array)), *array.shape[1:]),
            "compression": "gzip",
            "compression_opts": 1,
            "shuffle": True,
            "fletcher32": True,
        }


def other_formats() -> list[Format]:
    """All that cpreplay is compared with."""
    return [Raw(), Npz(), NpzDeflated(), Pickle(), Hdf5(), Hdf5Gzip()]


def _to_disk(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())
