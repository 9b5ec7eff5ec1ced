"""What a learner sees: batches that are functions of a generator, from arrays that were checked."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from torch import Generator

from whence import Pairs, Singles, tables, views
from whence.views import Environments, Spec, View, as_float, resident


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def test_a_view_has_no_truth_and_cannot_be_built_bare():
    with pytest.raises(TypeError, match=r"abstract"):
        View(shape=(1,), draw_=lambda n, rng: torch.zeros(n), observe=lambda t, rng: t)  # type: ignore[abstract]
    assert set(vars(Singles.of(torch.zeros(3, 2)))) == {"shape", "draw_", "observe", "origin", "whole"}


def test_batches_are_rows_of_the_array(rng):
    x = torch.arange(20.0).reshape(10, 2)
    batch = Singles.of(x).batch(50, rng).x
    assert batch.shape == (50, 2)
    assert {tuple(row) for row in batch.tolist()} <= {tuple(row) for row in x.tolist()}


def test_batches_depend_on_the_generator_alone():
    view = Singles.of(torch.randn(100, 3))
    assert torch.equal(view.batch(8, seeded(1)).x, view.batch(8, seeded(1)).x)
    assert not torch.equal(view.batch(8, seeded(1)).x, view.batch(8, seeded(2)).x)


def test_every_row_is_drawn_equally_often():
    counts = torch.bincount(Singles.of(torch.zeros(5, 1)).draw(10_000, seeded()), minlength=5)
    assert (counts - 2000).abs().max() < 5 * (10_000 * 0.2 * 0.8) ** 0.5


def test_uint8_stays_uint8_in_memory_and_is_scaled_to_the_unit_interval_in_batches(rng):
    x = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    view = Singles.of(x)
    assert resident(x).data_ptr() == x.data_ptr()
    assert view.batch(1, rng).x.tolist() == [[0.0, pytest.approx(0.2), 1.0]]
    assert view.origin["dtype"] == "uint8"


def test_floats_pass_unscaled_in_float32(rng):
    x = np.array([[0.0, 51.0, 255.0]])
    batch = Singles.of(x).batch(1, rng).x
    assert batch.dtype == torch.float32
    assert batch.tolist() == x.tolist()
    assert as_float(torch.tensor([255.0])) == 255


def test_the_callers_array_is_not_changed(rng):
    x = np.full((4, 2), 200, dtype=np.uint8)
    Singles.of(x).batch(4, rng)
    assert (x == 200).all()


def test_rows_that_are_not_finite_are_counted_and_refused():
    x = torch.zeros(5, 2, 2)
    x[1, 0, 0], x[3, 1, 1] = float("nan"), float("inf")
    with pytest.raises(ValueError, match=r"must be finite, got NaN or infinity in 2 of 5 rows. Drop or impute them"):
        Singles.of(x)


@pytest.mark.parametrize("shape", [(), (3,), (0, 3)])
def test_observations_need_an_axis_of_items_and_one_of_values(shape):
    with pytest.raises(ValueError, match=r"Observations need a first axis of items .* Reshape a single observation"):
        Singles.of(torch.zeros(shape))


def test_taking_gives_all_of_a_small_view_in_order_and_draws_from_a_large_one(rng):
    x = torch.arange(10.0)[:, None]
    assert torch.equal(Singles.of(x).take(10, rng).x, x)
    assert len(Singles.of(x).take(4, rng).x) == 4


def test_the_origin_recognises_the_same_array_and_no_other():
    x = torch.randn(6, 2, generator=seeded())
    assert Singles.of(x).origin == Singles.of(x.clone()).origin == Singles.of(x.numpy()).origin
    y = x.clone()
    y[3, 1] += 1e-6
    assert Singles.of(y).origin["sha256"] != Singles.of(x).origin["sha256"]
    assert Singles.of(x.reshape(6, 2, 1)).origin != Singles.of(x).origin
    assert Singles.of(x.T.contiguous().T).origin == Singles.of(x).origin  # another memory layout


def test_pairs_keep_their_rows_together(rng):
    x = torch.arange(12.0).reshape(6, 2)
    pair = Pairs.of(x, x + 100).batch(40, rng)
    assert torch.equal(pair.x + 100, pair.x_)
    assert torch.equal(Pairs.of(x, x + 100).take(6, rng).x_, x + 100)


def test_pairs_of_different_shapes_are_refused():
    with pytest.raises(ValueError, match=r"Pairs need two arrays of the same shape, got \(3, 2\) and \(4, 2\)"):
        Pairs.of(torch.zeros(3, 2), torch.zeros(4, 2))


def test_pairs_of_different_types_are_refused_because_only_one_would_be_scaled():
    with pytest.raises(ValueError, match=r"same type, got torch.uint8 and torch.float32.*only uint8 is scaled"):
        Pairs.of(torch.zeros(3, 2, dtype=torch.uint8), torch.zeros(3, 2))


# --- environments ----------------------------------------------------------------------------------------------------


def three(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Arrays whose values tell environment and row."""
    return [(torch.arange(n)[:, None] + 100 * e).expand(n, 2).to(dtype) for e, n in enumerate((10, 3, 5))]


def test_environments_have_rows_of_their_own_and_what_is_told(rng):
    first, *rest = three()
    view = Environments.of(first, rest, targets=[2, {0, 1}], kinds=["hard", None], groups=[7, 7], names=["a", "b"])
    batch = view.batch(40, rng)
    for e, x in enumerate([batch.observational, *(e.x for e in batch.interventional)]):
        assert x.shape == (40, 2)
        assert {tuple(row) for row in x.tolist()} == {tuple(row) for row in three()[e].tolist()}
    a, b = batch.interventional
    assert (a.targets, a.kind, a.group) == (frozenset({2}), "hard", 7)
    assert (b.targets, b.kind, b.group) == (frozenset({0, 1}), None, 7)
    assert view.names == ("a", "b")
    assert view.spec == Spec((2,), environments=2)


def test_what_is_not_told_is_none(rng):
    first, *rest = three()
    for environment in Environments.of(first, rest).batch(2, rng).interventional:
        assert environment[1:] == (None, None, None, None)
    assert Environments.of(first, rest, kinds="soft").told[1].kind == "soft"


def test_a_ticket_of_environments_is_split_by_rows_and_made_anew(rng):
    first, *rest = three()
    view = Environments.of(first, rest)
    ticket = view.draw(6, rng)
    assert ticket.shape == (6, 3)
    whole = view.gather(ticket, rng)
    halves = [view.gather(half, rng) for half in ticket.chunk(2)]
    assert torch.equal(torch.cat([h.observational for h in halves]), whole.observational)
    assert torch.equal(torch.cat([h.interventional[1].x for h in halves]), whole.interventional[1].x)
    assert view.gather(ticket[:0], rng).observational.shape == (0, 2)


def test_taking_environments_gives_small_ones_whole_without_a_copy_and_a_part_of_large_ones(rng):
    first, *rest = three()
    first, rest = first.contiguous(), [x.contiguous() for x in rest]
    batch = Environments.of(first, rest).take(5, rng)
    assert len(set(batch.observational[:, 0].tolist())) == 5  # no row twice
    for got, given in zip(batch.interventional, rest, strict=True):
        assert got.x.data_ptr() == given.data_ptr()
        assert torch.equal(got.x, given)


def test_rows_of_an_environment_come_in_chunks(rng, monkeypatch):
    first, *rest = three()
    view = Environments.of(first, rest)
    monkeypatch.setattr(views, "CHUNK", 8)
    assert [len(rows) for rows in view.rows(0, 9, rng)] == [4, 4, 1]
    assert torch.equal(torch.cat(list(view.rows(2, 99, rng))), rest[1])


def test_images_of_environments_stay_uint8_in_memory(rng):
    x = torch.randint(256, (6, 3, 4, 4), dtype=torch.uint8)
    view = Environments.of(x, [x, x.flip(0)])
    assert view.blocks[0].data_ptr() == x.data_ptr()
    batch = view.take(6, rng)
    assert batch.observational.dtype == torch.float32
    assert torch.allclose(batch.interventional[1].x * 255, x.flip(0).float())


def test_the_origin_of_environments_tells_arrays_and_knowledge_apart():
    first, *rest = three()
    origins = [
        Environments.of(first, rest).origin,
        Environments.of(first, rest[::-1]).origin,
        Environments.of(first, rest, targets=[0, 1]).origin,
        Environments.of(first, rest, kinds="hard").origin,
        Environments.of(first, rest, groups=[1, 1]).origin,
    ]
    assert len({json.dumps(origin) for origin in origins}) == 5
    assert Environments.of(first, rest).origin == origins[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"interventional": []}, r"at least one under intervention, got none. Singles.of takes one array"),
        ({"targets": [0]}, r"targets has one entry for each of the 2 interventional environments, got 1"),
        ({"targets": [0, -1]}, r"Targets are numbers of latents from 0 on, got \[0, -1\]"),
        ({"kinds": ["hard", "sfot"]}, r"Unknown kind of intervention 'sfot'. Did you mean 'soft'"),
        ({"names": ["a", "a"]}, r"2 names, all different and not 'observational', got a, a"),
        ({"interventional": [*three()[:2][::-1], torch.zeros(3, 4)]}, r"\(2,\) torch.float32 in 'observational' and"),
        ({"interventional": three(torch.uint8)[1:]}, r"and \(2,\) torch.uint8 in 'environment 1'"),
        ({"interventional": [torch.full((2, 2), torch.nan)] * 2}, r"NaN or infinity in 2 of 2 rows"),
    ],
)
def test_environments_that_do_not_fit_together_are_refused(change, message):
    first, *rest = three()
    given = {"interventional": rest, **change}
    with pytest.raises(ValueError, match=message):
        Environments.of(first, **given)


# --- tables ----------------------------------------------------------------------------------------------------------


def write_csv(path, header="cell,a,perturbation,b", labels=("ctrl", "g1", "g2"), many=40, cell="{i}"):
    lines = [header]
    for e, label in enumerate(labels):
        lines += [f"{cell.format(i=i)},{i}.5,{label},{e}" for i in range(many)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("header", [",a,perturbation,b", "cell,a,perturbation,b"])
def test_a_table_with_labels_becomes_environments(tmp_path, rng, header):
    view = Environments.read(write_csv(tmp_path / "t.csv", header=header))
    batch = view.take(1_000, rng)
    assert (view.control, view.names) == ("ctrl", ("g1", "g2"))
    assert batch.observational.shape == (40, 2 if header.startswith(",") else 3)
    assert batch.observational[:, -2].tolist() == [i + 0.5 for i in range(40)]
    assert (batch.interventional[1].x[:, -1] == 2).all()
    assert batch.interventional[0].targets is None
    assert view.origin["view"].endswith("t.csv")


def test_a_table_is_read_in_pieces_and_compressed_ones_too(tmp_path, monkeypatch, rng):
    import gzip

    plain = write_csv(tmp_path / "t.csv")
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    whole = Environments.read(plain).blocks
    monkeypatch.setattr(tables, "CELLS", 28)
    for path in (plain, packed):
        for a, b in zip(whole, Environments.read(path).blocks, strict=True):
            assert torch.equal(a, b)


def test_columns_and_environments_can_be_chosen(tmp_path):
    view = Environments.read(write_csv(tmp_path / "t.csv", cell="c{i}"), columns=["b", "a"], skip=["g1"])
    assert view.names == ("g2",)
    assert view.blocks[1][3].tolist() == [2, 3.5]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({}, {"environment": "pertubation"}, r"Unknown column 'pertubation'. Did you mean 'perturbation'"),
        (
            {},
            {"control": "control"},
            r"In the column 'perturbation': Unknown label 'control'.* There are: ctrl, g1, g2",
        ),
        ({}, {"columns": ["A"]}, r"Unknown column 'A'"),
        ({"cell": "c{i}"}, {}, r"columns that are not numbers: cell \('c0' near line 2\). Leave them out \(ignore\)"),
        ({"cell": ""}, {}, r"missing or infinite values in 120 of 120 rows \(1 of 3 columns\). Drop or impute"),
        (
            {"many": 7},
            {},
            r"at least 30 rows, got fewer in ctrl \(7\), g1 \(7\), g2 \(7\). Leave them out \(skip\)",
        ),
        ({"labels": ("ctrl", "")}, {}, r"no label in the column 'perturbation' in 40 of 80 rows"),
        ({"header": "a,a,perturbation,b"}, {}, r"two columns named 'a'"),
        ({"header": "a,perturbation,b"}, {}, r"has 3 columns, but a row of 4 near line"),
        ({"labels": ()}, {}, r"has a header and no rows"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path, table, options, message):
    with pytest.raises(ValueError, match=message):
        Environments.read(write_csv(tmp_path / "t.csv", **table), **options)


def test_only_tables_that_are_known_are_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file .*Give the path of a .csv or .parquet table"):
        Environments.read(tmp_path / "none.csv")
    (tmp_path / "t.xlsx").write_text("")
    with pytest.raises(ValueError, match=r"A table is a .csv, .tsv or .parquet file, got 't.xlsx'"):
        Environments.read(tmp_path / "t.xlsx")
    (tmp_path / "t.csv").write_text("perturbation\nctrl\n")
    with pytest.raises(ValueError, match=r"no columns of numbers beside 'perturbation'"):
        Environments.read(tmp_path / "t.csv")


def test_what_is_no_table_is_told_apart(tmp_path):
    def refused(name, content, message):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=message):
            Environments.read(tmp_path / name)

    refused("t.csv", b"", "is empty. A table begins with a line of column names")
    refused("t.csv", bytes(range(256)), "is not text in UTF-8")
    refused("t.csv", b"perturbation;a;b\nctrl;1;2\n", "has 3 columns with ';' between them, and a .csv file has ','")
    refused("t.csv", b"perturbation\ta\nctrl\t1\n", "name it .tsv")
    refused("t.csv", b"perturbation,a\n" + 40 * b"ctrl,1\n", "at least one beside 'ctrl', got none in the column")


def test_a_table_with_tabs_is_read(tmp_path):
    path = write_csv(tmp_path / "t.csv")
    (tmp_path / "t.tsv").write_text(path.read_text().replace(",", "\t"))
    for a, b in zip(Environments.read(path).blocks, Environments.read(tmp_path / "t.tsv").blocks, strict=True):
        assert torch.equal(a, b)


def test_columns_can_be_ignored_and_environments_chosen(tmp_path):
    path = write_csv(tmp_path / "t.csv", cell="c{i}", labels=("ctrl", "g1", "g2", "g3"))
    view = Environments.read(path, ignore=("cell",), only=("g3", "g1"))
    assert view.names == ("g1", "g3")
    assert view.shape == (2,)
    with pytest.raises(ValueError, match="Unknown label 'g4'"):
        Environments.read(path, ignore=("cell",), only=("g4",))


def test_all_environments_together_are_single_observations(rng):
    first, *rest = three()
    view = Environments.of(first, rest)
    pooled = view.pooled()
    x = pooled.take(1_000, rng).x
    assert torch.equal(x, torch.cat([first, *rest]))
    assert pooled.origin == view.origin
    drawn = pooled.batch(200, rng).x
    assert {tuple(row) for row in drawn.tolist()} == {tuple(row) for row in x.tolist()}
    assert torch.equal(pooled.gather(torch.tensor([0, len(x) - 1]), rng).x, x[[0, -1]])


def test_environments_of_a_world_are_pooled_equally_often(rng):
    from whence.worlds import Mixed

    world = Mixed(nodes=2, dims=3)
    view = world.environments(kind="hard", scale=100.0)
    x = view.pooled().batch(3_000, rng).x.double() @ torch.linalg.pinv(world.mixing_matrix).T
    parts = view.batch(3_000, rng)
    each = [
        e @ torch.linalg.pinv(world.mixing_matrix).T
        for e in (parts.observational.double(), *(i.x.double() for i in parts.interventional))
    ]
    expected = torch.stack([e.square().mean(0) for e in each]).mean(0)
    assert torch.allclose(x.square().mean(0), expected, rtol=0.15)


def test_parquet_needs_its_extra(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'whence\[parquet\]'. Or save the table as CSV"):
        Environments.read(tmp_path / "t.parquet")


def test_parquet_gives_what_csv_gives(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    path = write_csv(tmp_path / "t.csv")
    parquet.write_table(csv.read_csv(path), tmp_path / "t.parquet")
    for a, b in zip(Environments.read(path).blocks, Environments.read(tmp_path / "t.parquet").blocks, strict=True):
        assert torch.equal(a, b)
    words = pyarrow.table({"perturbation": ["ctrl"], "a": ["x"]})
    parquet.write_table(words, tmp_path / "words.parquet")
    with pytest.raises(ValueError, match="columns that are not numbers: a"):
        Environments.read(tmp_path / "words.parquet")
    (tmp_path / "no.parquet").write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"is not a Parquet file. If it is text, name it \.csv"):
        Environments.read(tmp_path / "no.parquet")
