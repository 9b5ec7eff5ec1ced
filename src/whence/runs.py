"""10. A fitted method, in memory or as a folder.

`runs/<name>/` holds `run.json` (method, data, recipe, seed, versions, hashes), `weights.safetensors`, `curve.csv`
(one a stage), and later `results.json` and `report.html`. All are text, JSON or safetensors; none can run code.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from whence import storage, values
from whence.descend import RECIPE_PARTS, Curve, Recipe
from whence.methods import METHODS, Method
from whence.methods._divergence import DIVERGENCES
from whence.methods.score_based.fronts import FRONTS
from whence.nets import ARCHITECTURES
from whence.representation import Representation
from whence.scores import ESTIMATORS, Oracle, PictureRatio
from whence.terms.likelihood import LIKELIHOODS
from whence.terms.mmd import KERNELS
from whence.views import Label, Spec
from whence.worlds import WORLD_PARTS, WORLDS

FORMAT = 1  #: of the folder; raised when an older reader could misread it

PARTS: tuple[type, ...] = (
    *ARCHITECTURES,
    *LIKELIHOODS,
    *KERNELS,
    *DIVERGENCES,
    *FRONTS,
    *ESTIMATORS,
    PictureRatio,
    *RECIPE_PARTS,
)
#: Every dataclass that a record or a flag may name.
KNOWN: tuple[type, ...] = (*METHODS, *PARTS, *WORLDS, *WORLD_PARTS)
#: What carries the truth is read back, and offered nowhere.
TOLD: tuple[type, ...] = (Oracle,)


def this_version() -> str:
    try:
        return version("whence")
    except PackageNotFoundError:  # run from a source tree that was not installed
        return "0.1.0"


def compatible(other: str) -> bool:
    """Before 1.0, networks may change with the second number."""
    return other.split(".")[:2] == this_version().split(".")[:2]


def versions() -> dict[str, str]:
    import numpy

    return {
        "whence": this_version(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
    }


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What `fit` returns: a representation and how it came about."""

    method: Method
    representation: Representation
    spec: Spec
    data: Mapping[str, Any]  #: where the view came from
    seed: int
    recipe: Recipe | None = None  #: None for methods without descent
    curves: Mapping[str, Curve] = field(default_factory=dict)
    device: str = "cpu"
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)  #: seconds of each that has steps
    folder: Path | None = None

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.method, self.data, self.seed, self.recipe)


def fingerprint(method: Method, data: Mapping[str, Any], seed: int, recipe: Recipe | None) -> str:
    """A hash of everything the result depends on."""
    return values.digest({"method": method, "data": data, "seed": seed, "recipe": recipe})


def record(
    method: Method, data: Mapping[str, Any], spec: Spec, seed: int, recipe: Recipe | None, device: str
) -> dict[str, Any]:
    """What `run.json` says from the first moment on."""
    return {
        "format": FORMAT,
        "status": "running",
        "method": values.describe(method),
        "data": values.describe(data),
        **values_of(spec),
        "seed": seed,
        "recipe": values.describe(recipe),
        "fingerprint": fingerprint(method, data, seed, recipe),
        "device": device,
        "threads": torch.get_num_threads(),
        "versions": versions(),
    }


def values_of(spec: Spec) -> dict[str, Any]:
    """A spec in a record; what is at its default is left out."""
    told = {name: getattr(spec, name) for name in ("environments", "latents", "labels")}
    told["labels"] = values.describe(told["labels"])
    return {"shape": list(spec.shape), **{k: v for k, v in told.items() if v and v != Spec._field_defaults[k]}}


def spec_of(about: Mapping[str, Any]) -> Spec:
    """The inverse of `values_of`."""
    labels = tuple(Label(name, low, high, tuple(classes)) for name, low, high, classes in about.get("labels", ()))
    return Spec(tuple(about["shape"]), about.get("environments", 0), about.get("latents"), labels)


def save(fitted: Fitted, folder: Path) -> Fitted:
    """Write weights and curves, then mark the run as done, and remove its checkpoints."""
    about = record(fitted.method, fitted.data, fitted.spec, fitted.seed, fitted.recipe, fitted.device)
    hashes = {
        "weights.safetensors": storage.write(
            folder / "weights.safetensors", storage.pack(fitted.representation.state_dict())
        )
    }
    for stage, curve in fitted.curves.items():
        name = "curve.csv" if len(fitted.curves) == 1 else f"curve-{stage}.csv"
        hashes[name] = storage.write(folder / name, curve.csv())
    about |= {
        "status": "done",
        "seconds": round(fitted.seconds, 3),
        "stages": list(fitted.curves),
        "stage_seconds": {stage: round(t, 3) for stage, t in fitted.stages.items()},
        "sha256": hashes,
    }
    storage.write_json(folder / "run.json", about)
    for checkpoint in folder.glob("checkpoint-*.safetensors"):
        checkpoint.unlink()
    return replace(fitted, folder=folder)


def read_record(folder: str | Path) -> dict[str, Any]:
    """`run.json`, checked: of this version and not edited."""
    folder = Path(folder)
    if not (folder / "run.json").is_file():
        near = values.unknown("run", folder.name, [p.parent.name for p in folder.parent.glob("*/run.json")])
        raise storage.StorageError(f"{str(folder)!r} is not a run: it has no run.json. {near}")
    about = storage.read_json(folder / "run.json")
    if about.get("format") != FORMAT or not compatible(about.get("versions", {}).get("whence", "")):
        raise storage.StorageError(
            f"{str(folder)!r} was made by whence {about.get('versions', {}).get('whence', '(unknown)')}, and this is "
            f"{this_version()}, which cannot be sure to build the same networks. Install that version, or fit anew."
        )
    parts = {key: about.get(key) for key in ("method", "data", "seed", "recipe")}
    if values.digest(parts) != about.get("fingerprint"):
        raise storage.StorageError(
            f"{str(folder / 'run.json')!r} was edited: its settings do not match its fingerprint. "
            "Restore it, or fit anew."
        )
    return about


def load(folder: str | Path, *, known: Iterable[type] = ()) -> Fitted:
    """The fitted run in a folder. Methods and networks of your own must be listed in `known`: nothing is imported."""
    folder = Path(folder)
    about = read_record(folder)
    if about["status"] != "done":
        raise storage.StorageError(
            f"{str(folder)!r} is not finished. Finish it with: whence resume {folder} (or the same call to fit)."
        )
    method: Method = values.build(about["method"], [*KNOWN, *TOLD, *known])
    spec = spec_of(about)
    representation = method.skeleton(spec)
    files = {name: storage.read(folder / name, sha256) for name, sha256 in about["sha256"].items()}
    tensors, _ = storage.unpack(files["weights.safetensors"], str(folder / "weights.safetensors"))
    storage.load_state(representation, tensors, str(folder / "weights.safetensors"))
    curves = {
        stage: Curve.read(files.get("curve.csv", files.get(f"curve-{stage}.csv", b"")).decode())
        for stage in about["stages"]
    }
    return Fitted(
        method=method,
        representation=representation.frozen(),
        spec=spec,
        data=about["data"],
        seed=about["seed"],
        recipe=values.build(about["recipe"], [*KNOWN, *known]),
        curves=curves,
        device=about["device"],
        seconds=about["seconds"],
        stages=about.get("stage_seconds", {}),
        folder=folder,
    )


def outside(text: str, base: type) -> type:
    """The class of "path.py:Class", for methods that live in a user's own file."""
    path, _, name = text.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"There is no file {path!r}. A class of your own is given as path.py:Class.")
    spec = importlib.util.spec_from_file_location(f"whence_outside_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    kinds = [
        k for k in vars(module).values() if isinstance(k, type) and issubclass(k, base) and k.__module__ == spec.name
    ]
    found = {kind.__name__: kind for kind in kinds}
    if name not in found:
        raise ValueError(values.unknown(f"{base.__name__} in {path}", name, found))
    return found[name]


def world_of(data: Mapping[str, Any], known: Sequence[type] = ()) -> Any:
    """The world a run learned from, or an error if it was an array."""
    if "world" not in data:
        raise ValueError(
            "This run was fitted on an array, so there is no truth to compare with. What it "
            "found is in its report: whence report RUN. If you know the world, pass it: evaluate(run, world)."
        )
    return values.build(data["world"], [*KNOWN, *known])
