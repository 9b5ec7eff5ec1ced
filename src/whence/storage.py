"""Files that are either whole or not there: atomic writes, safetensors and JSON, and errors that name the cure.

Nothing here can run code on reading: no pickle, anywhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

PART = ".part"  #: ends the name of a file that is being written
SEAL = "0" * 64  #: stands in the file for its own sha256 while that is computed


class StorageError(OSError):
    """A file could not be written, or is not what it should be."""


def folder(path: Path) -> Path:
    """Make sure that a folder is there and can be written, before work is spent."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise StorageError(
            f"A run needs a folder it can write, but {str(path)!r} cannot be used: {error.strerror or error}. "
            "Choose another place with into=... (command line: --into)."
        ) from error
    return path


def write(path: Path, content: bytes | str) -> str:
    """Replace a file in one move, so that a crash or a full disk leaves the old one whole. Returns the sha256."""
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(
            f"Writing {len(data):,} bytes to {str(path)!r} failed: {error.strerror or error}. What was there before is "
            "untouched. Free some space or make the folder writable, then start the same run again: it resumes."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()  # still there only if something went wrong, Ctrl-C included
    return hashlib.sha256(data).hexdigest()


def tidy(path: Path) -> None:
    """Remove what a process that was killed while writing left half-written in a folder."""
    for part in path.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            part.unlink()


def write_json(path: Path, value: Any) -> str:
    return write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(read(path))
    except ValueError as error:
        raise StorageError(
            f"{str(path)!r} is not whole JSON ({error}): it was truncated or edited. Run it anew."
        ) from None


def read(path: Path, sha256: str | None = None) -> bytes:
    """A file's bytes, checked against its recorded hash."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise StorageError(f"{path.name} is missing from {str(path.parent)!r}: the run is not complete.") from None
    except OSError as error:
        raise StorageError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from error
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise StorageError(
            f"{str(path)!r} is not the file this run wrote: its sha256 differs from the recorded one, so it was "
            "changed or truncated. Restore it, or run it anew."
        )
    return data


def pack(tensors: Mapping[str, Tensor], about: Mapping[str, Any] | None = None) -> bytes:
    """Tensors and a little JSON as one safetensors file, sealed with its own sha256."""
    from safetensors.torch import save

    # Copies, because safetensors refuses tensors that share memory, as tied weights do.
    whole = {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    data = save(whole, metadata={"about": json.dumps({**(about or {}), "sha256": SEAL})})
    return data.replace(SEAL.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def unpack(data: bytes, name: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The inverse of `pack`; `name` is for the error."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        about = json.loads(header.get("__metadata__", {}).get("about", "{}"))
        seal = about.pop("sha256", "")
        if hashlib.sha256(data.replace(seal.encode(), SEAL.encode(), 1)).hexdigest() != seal:
            raise ValueError("its contents do not match its sha256")
    except (SafetensorError, ValueError) as error:
        raise StorageError(
            f"{name!r} is not the whole file that was written ({error}): it was truncated or changed. "
            "Remove it and start the run again."
        ) from None
    return tensors, about


def load_state(module: torch.nn.Module, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy tensors into a module that must have exactly these."""
    try:
        module.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip()  # the line before it only announces
        raise StorageError(f"{name!r} does not fit the network it is meant for: {first}") from None
