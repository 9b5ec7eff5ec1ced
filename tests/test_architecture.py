"""The layout is the pipeline: imports point only up the list of rooms, and a learner cannot see the truth."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import whence

SOURCE = Path(whence.__file__).parent

#: From the first room to the last; rooms in one line may use each other.
ROOMS = [
    {"values", "storage", "evidence"},
    {"tables", "folders"},
    {"views"},
    {"scm"},
    {"worlds"},
    {"nets"},
    {"terms"},
    {"descend"},
    {"scores"},
    {"representation"},
    {"methods"},
    {"runs"},
    {"fit"},
    {"metrics"},
    {"studies"},
    {"cite"},
    {"report"},
    {"sklearn", "check", "advise", "flags", "examine", "cli"},
]
RANK = {name: rank for rank, names in enumerate(ROOMS) for name in names}
LEARNERS = {"methods", "nets", "terms", "scores", "descend", "representation"}  #: these never see the truth
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def rooms_used(path: Path) -> Iterator[tuple[str, int]]:
    """Every room of Whence that a file imports from, inside functions too, with the line."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module="whence", names=names, level=0):
                modules = [f"whence.{alias.name}" for alias in names]
            case ast.ImportFrom(module=module, level=0):
                modules = [module or ""]
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno} imports relatively; rooms are imported by their full name")
            case _:
                continue
        for module in modules:
            if module == "whence" or module.startswith("whence."):
                yield (module.split(".")[1] if "." in module else "whence"), node.lineno


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_only_up_the_list_of_rooms(path):
    mine = room(path)
    assert mine in RANK, f"the room {mine!r} is new: give it its place in ROOMS and in the architecture page"
    if mine in {"cli", "examine", "check", "sklearn", "advise", "cite", "flags", "studies", "report"}:
        used = [(name, line) for name, line in rooms_used(path) if name in RANK]  # these may use the front door
    else:
        used = list(rooms_used(path))
    for name, line in used:
        assert name in RANK, f"{path}:{line} imports {name!r}, which is no room"
        assert RANK[name] <= RANK[mine], f"{path}:{line}: {mine} may not import {name}, which comes later"


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_a_learner_cannot_see_the_truth(name):
    for path in FILES:
        if room(path) == name:
            for used, line in rooms_used(path):
                assert used not in {"worlds", "metrics", "fit", "runs"}, f"{path}:{line} imports {used}"


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call))


def test_there_is_one_optimiser_step_in_the_library():
    steps = [
        path.name
        for path in FILES
        for call in calls(path)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "step"
    ]
    assert steps == ["descend.py"]


def test_nothing_is_pickled():
    for path in FILES:
        for node in ast.walk(tree(path)):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.Import(names=names):
                    assert not {a.name for a in names} & {"pickle", "joblib", "dill", "shelve", "marshal"}, where
                case ast.ImportFrom(module="pickle" | "joblib" | "dill" | "shelve" | "marshal"):
                    raise AssertionError(where)
                case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save"):
                    raise AssertionError(where)
                case ast.keyword(arg="allow_pickle", value=ast.Constant(value=value)):
                    assert value is False, where


IMPORT = """
import random, sys, threading, time
import numpy, torch
state = torch.random.get_rng_state(), random.getstate(), str(numpy.random.get_state())
threads, running = torch.get_num_threads(), threading.active_count()
before = set(sys.modules)
begin = time.process_time()
import whence
seconds = time.process_time() - begin
after = torch.random.get_rng_state(), random.getstate(), str(numpy.random.get_state())
import json
print(json.dumps({
    "seconds": seconds,
    "rng": bool((state[0] == after[0]).all()) and state[1:] == after[1:],
    "threads": torch.get_num_threads() == threads and threading.active_count() == running,
    "modules": sorted(set(sys.modules) - before),
}))
"""


def test_importing_whence_is_quick_and_does_nothing_else():
    def imported() -> dict:
        return json.loads(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, check=True).stdout)

    found = imported()
    assert min(found["seconds"], *(imported()["seconds"] for _ in range(2))) < 2  # the best of three, as machines stall
    assert found["rng"]
    assert found["threads"]
    heavy = {"sklearn", "matplotlib", "scipy", "PIL", "jinja2", "pandas", "networkx", "tensorboard"}
    assert not heavy & {name.split(".")[0] for name in found["modules"]}
