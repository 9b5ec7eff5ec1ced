"""Folders of pictures with labels, and what is said of them before anything is fitted."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Generator

from whence import cli
from whence.examine import differences, examine
from whence.folders import read_labels, read_pictures
from whence.views import Environments


def noise(seed: int, n: int = 40, size: int = 16, bright: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.clip(255 * (bright + 0.2 * rng.standard_normal((n, size, size, 3))), 0, 255).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    """Three environments of 40 pictures, the last brighter than the control."""
    lines = [("file", "environment", "targets", "kind", "group")]
    for label, told, bright in (("ctrl", ("", "", ""), 0.4), ("a", ("0", "hard", ""), 0.4), ("b", ("", "", "7"), 0.6)):
        (tmp_path / label).mkdir()
        for i, x in enumerate(noise(ord(label[0]), bright=bright)):
            Image.fromarray(x).save(tmp_path / label / f"{i}.png")
            lines.append((f"{label}/{i}.png", label, *told))
    write(tmp_path, lines)
    return tmp_path


def write(folder, lines) -> None:
    with open(folder / "environments.csv", "w", newline="") as file:
        csv.writer(file).writerows(lines)


def lines_of(folder) -> list[list[str]]:
    with open(folder / "environments.csv", newline="") as file:
        return list(csv.reader(file))


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_folder_becomes_environments_as_they_are(folder):
    view = Environments.pictures(folder, "ctrl")
    assert view.shape == (3, 16, 16)
    assert view.names == ("a", "b")
    assert [(e.targets, e.kind, e.group) for e in view.told] == [(frozenset({0}), "hard", None), (None, None, 7)]
    x = view.take(100, Generator()).observational
    assert torch.equal((x * 255).round().byte(), torch.from_numpy(noise(ord("c"), bright=0.4)).permute(0, 3, 1, 2))
    assert view.blocks[0].dtype == torch.uint8


def test_without_a_file_of_labels_folders_are_environments(folder):
    (folder / "environments.csv").unlink()
    view = Environments.pictures(folder, "ctrl", skip=("a",))
    assert view.names == ("b",)
    assert view.told[0].targets is None


def test_pictures_are_brought_to_one_size_and_one_mode(tmp_path):
    wide = np.zeros((4, 8, 3), np.uint8)
    wide[:, 2:6] = 255
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(np.full((2, 2), 77, np.uint8)).save(tmp_path / "grey.png")
    clear = np.zeros((4, 4, 4), np.uint8)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    names = ["wide.png", "grey.png", "clear.png"]
    crop = read_pictures(tmp_path, names, size=4)
    assert crop.shape == (3, 3, 4, 4)
    assert (crop[0] == 255).all()  # the middle
    assert (crop[1] == 77).all()
    assert (crop[2] == 255).all()  # see-through is white
    stretched = read_pictures(tmp_path, names[:1], size=4, fit="stretch")
    assert (stretched[0, 0, 0] == [0, 255, 255, 0]).all()
    assert read_pictures(tmp_path, names, size=4, mode="L").shape == (3, 1, 4, 4)
    with pytest.raises(ValueError, match=r"got 8 x 4 in 'wide.png' and 2 x 2 in 'grey.png'. Ask for a size"):
        read_pictures(tmp_path, names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: [["name", *rows[0][1:]], *rows[1:]], "Unknown column 'file'"),
        (lambda rows: rows[:1], "has a header and no lines"),
        (lambda rows: [*rows, rows[1]], "two lines for 'ctrl/0.png', the second in line 122"),
        (lambda rows: [*rows, ["../x.png", "a", "0", "hard", ""]], "outside of the folder in line 122"),
        (lambda rows: [*rows, ["x.png", "", "", "", ""]], "no environment in line 122"),
        (lambda rows: [*rows, ["x.png", "a"]], "but a line of 2: line 122"),
        (lambda rows: [*rows, ["x.png", "a", "1", "hard", ""]], "different things of environment 'a': line 122"),
        (lambda rows: [*rows, ["x.png", "c", "one", "", ""]], "targets are numbers of latents"),
        (lambda rows: [*rows, ["x.png", "a", "0", "hard", ""]], "labels of pictures that are not there: x.png"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(folder, change, message):
    write(folder, change(lines_of(folder)))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Environments.pictures(folder, "ctrl")


def test_what_is_missing_is_said(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        read_labels(folder / "elsewhere")
    with pytest.raises(ValueError, match="Unknown label 'control'"):
        Environments.pictures(folder, "control")
    with pytest.raises(ValueError, match=r"at least 50 pictures, got fewer in ctrl \(40\)"):
        Environments.pictures(folder, "ctrl", least=50)
    (folder / "a" / "0.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match="no picture that can be read"):
        Environments.pictures(folder, "ctrl")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no environments.csv. Write one"):
        read_labels(empty)


# --- examining --------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_well_is_said_to_be(folder, capsys):
    assert cli.main(["data", "check", str(folder), "--control", "ctrl", "--size", "16"]) == 0
    said = capsys.readouterr().out
    assert "120 labelled pictures of 3 environments" in said
    assert "16 x 16 (120)" in said
    assert "mean by" in said
    assert "targets 0, hard" in said
    assert "next: whence fit" in said


def test_a_change_is_seen_and_no_change_is_not(folder):
    rows = {row[0]: row[2] for row in examine(folder, "ctrl").table[1:]}
    assert rows["a"] == "not that one can see"
    assert rows["b"].startswith("mean by")


def test_false_alarms_are_as_rare_as_was_asked_for():
    alarms = 0
    for seed in range(100):
        x = np.random.default_rng(seed).standard_normal((5, 300, 12))
        alarms += any(differences(x[0], {str(k): x[k] for k in range(1, 5)}).values())
    assert alarms <= 5  # 1 on average
    rng = np.random.default_rng(0)
    wider = {"spread": 2 * rng.standard_normal((300, 12))}
    assert differences(rng.standard_normal((300, 12)), wider)["spread"].startswith("spread times")


def test_faults_are_found(folder, capsys):
    (folder / "a" / "0.png").write_bytes(b"no picture")
    (folder / "a" / "1.png").unlink()
    (folder / "loose.png").write_bytes((folder / "a" / "2.png").read_bytes())
    (folder / "b" / "0.png").write_bytes((folder / "ctrl" / "0.png").read_bytes())
    Image.new("RGB", (16, 16), "red").save(folder / "b" / "1.png")
    Image.new("L", (32, 32), 9).save(folder / "b" / "2.png")
    assert cli.main(["data", "check", str(folder), "--control", "ctrl"]) == 1
    said = capsys.readouterr().out
    for line in (
        "1 label without a file: a/1.png",
        "1 file that cannot be read: a/0.png",
        "1 picture without a label, which nobody will see: loose.png",
        "1 picture more than once: ctrl/0.png, b/0.png are equal",
        "1 of them in different environments",
        "2 pictures of one colour only: b/1.png, b/2.png",
        "pictures of 2 sizes: ask for one, such as --size 16",
        "next: mend what is missing or wrong",
    ):
        assert line in said


def test_without_a_control_it_says_which_labels_there_are(folder, capsys):
    assert cli.main(["data", "check", str(folder)]) == 1
    said = capsys.readouterr().out
    assert "(is it 'ctrl'?)" in said
    assert f"next: whence data check {folder} --control ctrl" in said


@pytest.mark.parametrize(
    ("targets", "kind", "message"),
    [
        ("0 0 1 1", "hard", "two hard interventions on each of 2 latents: each latent up to a monotone map"),
        ("0 0 1", "hard", "GSCALE identifies the 1 latents with two interventions"),
        ("0 1", "hard", "wants a second intervention on 2 of 2"),
        ("0 0 1 1", "soft", "here are 4 soft: leave them out"),
        ("0 0 0", "hard", "at most two environments of a target"),
        ("", "", "nobody says what the 4 environments intervene on"),
    ],
)
def test_it_says_what_can_be_learned(folder, targets, kind, message):
    lines = [row for row in lines_of(folder) if row[1] in ("environment", "ctrl")]
    spare = sorted(p.relative_to(folder).as_posix() for p in folder.glob("[ab]/*.png"))
    for k, target in enumerate(targets.split() or [""] * 4):
        lines += [[spare.pop(), f"e{k}", target, kind, ""] for _ in range(10)]
    write(folder, lines)
    assert message in str(examine(folder, "ctrl"))


def test_tables_are_examined_too(tmp_path, capsys):
    rng = np.random.default_rng(0)
    with open(tmp_path / "cells.csv", "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["perturbation", "g1", "g2", "still"])
        for label, shift in (("ctrl", 0), ("drug", 1)):
            out.writerows([label, *(shift + rng.standard_normal(2)), 1] for _ in range(100))
    words = ["data", "check", str(tmp_path / "cells.csv"), "--environment", "perturbation", "--control", "ctrl"]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "200 rows of 2 environments, 3 columns" in said
    assert "1 column that never change" in said
    assert "LSCALE" in said
    assert cli.main(["data", "check", str(tmp_path / "none.csv")]) == 2
    assert "no folder or file" in capsys.readouterr().err


# --- fitting ----------------------------------------------------------------------------------------------------------


def test_options_of_the_other_kind_of_data_are_refused(folder, capsys):
    base = ["fit", "gscale", "--data", str(folder), "--control", "ctrl"]
    assert cli.main([*base, "--columns", "g1"]) == 2
    assert "--columns says how to read a table" in capsys.readouterr().err
    assert cli.main(["fit", "gscale", "--size", "16"]) == 2
    assert "give --data cells.csv, or a folder of pictures" in capsys.readouterr().err
    assert cli.main(["fit", "gscale", "--data", "nothing"]) == 2
    assert "there is no file or folder 'nothing'" in capsys.readouterr().err
