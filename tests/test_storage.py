"""Files are whole or not there, and what is read back is what was written."""

from __future__ import annotations

import hashlib
import os

import pytest
import torch
from torch import nn

from whence import storage
from whence.storage import StorageError


def test_writing_replaces_a_file_and_returns_its_hash(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    assert storage.write(path, "néw") == hashlib.sha256("néw".encode()).hexdigest()
    assert path.read_text(encoding="utf-8") == "néw"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(error, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(file):
        raise error

    monkeypatch.setattr(os, "fsync", full)
    expected = StorageError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        storage.write(path, "new")
    if isinstance(error, OSError):
        assert "Writing 3 bytes to" in str(caught.value)
        assert "No space left on device. What was there before is untouched. Free some space" in str(caught.value)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_missing_file_says_that_the_run_is_not_complete(tmp_path):
    with pytest.raises(StorageError, match=r"weights.safetensors is missing from .*: the run is not complete"):
        storage.read(tmp_path / "weights.safetensors")


def test_a_changed_file_is_noticed_by_its_hash(tmp_path):
    seal = storage.write(tmp_path / "a", b"abc")
    assert storage.read(tmp_path / "a", seal) == b"abc"
    (tmp_path / "a").write_bytes(b"abd")
    with pytest.raises(StorageError, match=r"is not the file this run wrote: its sha256 differs"):
        storage.read(tmp_path / "a", seal)


def test_json_survives_and_half_of_it_is_refused(tmp_path):
    storage.write_json(tmp_path / "a.json", {"ü": [1, None, 2.5]})
    assert storage.read_json(tmp_path / "a.json") == {"ü": [1, None, 2.5]}
    (tmp_path / "a.json").write_text('{"a": [1, ')
    with pytest.raises(StorageError, match=r"a.json' is not whole JSON .*truncated or edited"):
        storage.read_json(tmp_path / "a.json")


def test_tensors_and_notes_survive_packing():
    tensors = {
        "float": torch.randn(3, 4),
        "bfloat": torch.randn(2).bfloat16(),
        "whole": torch.arange(5),
        "flag": torch.tensor(True),
        "none": torch.empty(0, 3),
        "layout": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "slice": torch.randn(10, 3)[:4],
        "learned": nn.Parameter(torch.randn(2)),
    }
    again, about = storage.unpack(storage.pack(tensors, {"step": 3, "names": ["a"]}), "file")
    assert about == {"step": 3, "names": ["a"]}
    for name, tensor in tensors.items():
        assert torch.equal(again[name], tensor), name
        assert again[name].dtype == tensor.dtype


def test_tied_weights_are_packed():
    shared = torch.randn(3)
    again, _ = storage.unpack(storage.pack({"a": shared, "b": shared}), "file")
    assert torch.equal(again["a"], again["b"])


def test_packing_is_a_function_of_the_contents():
    tensors = {"b": torch.ones(3), "a": torch.zeros(2)}
    assert storage.pack(tensors, {"x": 1}) == storage.pack(dict(reversed(tensors.items())), {"x": 1})


@pytest.mark.parametrize("data", [b"", b"not tensors at all", b"\xff" * 100])
def test_what_is_not_safetensors_is_refused_by_name(data):
    with pytest.raises(StorageError, match=r"'some/file' is not the whole file that was written .*Remove it and start"):
        storage.unpack(data, "some/file")


def test_safetensors_without_our_seal_are_refused():
    from safetensors.torch import save

    with pytest.raises(StorageError, match=r"do not match its sha256"):
        storage.unpack(save({"a": torch.ones(2)}), "file")


def test_weights_of_another_network_are_refused_with_the_first_difference():
    with pytest.raises(
        StorageError, match=r"'file' does not fit the network it is meant for: size mismatch for weight"
    ):
        storage.load_state(nn.Linear(2, 3), nn.Linear(2, 4).state_dict(), "file")


def test_a_folder_is_made_with_its_parents(tmp_path):
    assert storage.folder(tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_tidying_removes_only_what_was_half_written(tmp_path):
    for name in (".a.safetensors.12.part", "a.safetensors", ".hidden", "note.part"):
        (tmp_path / name).touch()
    storage.tidy(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"a.safetensors", ".hidden", "note.part"}
