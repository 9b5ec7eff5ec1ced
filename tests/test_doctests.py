"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import whence

MODULES = sorted(m.name for m in pkgutil.walk_packages(whence.__path__, "whence.") if not m.name.endswith("__main__"))


@pytest.mark.parametrize("name", ["whence", *MODULES])
def test_examples_in_docstrings_hold(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
