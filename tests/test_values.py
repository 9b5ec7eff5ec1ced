"""Values to JSON and back, command-line words, names and the nearest right one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence import Adam, BetaVAE, Cosine, DSprites, FactorVAE, Recipe, Sprites, values
from whence.methods import METHODS
from whence.nets import ARCHITECTURES, MLP, Architecture, Conv64
from whence.runs import KNOWN
from whence.terms import Gaussian


def round_trip(value: Any) -> Any:
    return values.build(json.loads(json.dumps(values.describe(value))), KNOWN)


@pytest.mark.parametrize(
    "value",
    [
        BetaVAE(beta=8.0, net=MLP(hidden=(8, 4)), likelihood=Gaussian(scale=0.1)),
        FactorVAE.recipe,
        Recipe(schedule=Cosine(warmup=3), players={"critic": Adam(lr=1e-3)}, ema=0.99, clip=None),
        Sprites(noise=0.5),
        Sprites(backgrounds=Path("pictures")),
        DSprites(Path("some/file.npz")),
        *(kind() for kind in METHODS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_survives_json(value):
    again = round_trip(value)
    assert again == value
    assert values.digest(again) == values.digest(value)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_plain_data_survive_json_with_lists_as_tuples(data):
    def tuples(item):
        return tuple(map(tuples, item)) if isinstance(item, list) else item

    assert round_trip(data) == tuples(data)


def test_a_whole_number_for_a_decimal_field_is_that_decimal():
    assert values.describe(BetaVAE(beta=4))["beta"] == 4.0
    assert values.digest(BetaVAE(beta=4)) == values.digest(BetaVAE(beta=4.0))
    assert isinstance(values.describe(BetaVAE())["latents"], int)
    assert values.describe(Sprites())["colour"] is False


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match=r"A recorded value is a number, string, path.* got <built-in function len>"):
        values.describe({"f": len})


def test_only_listed_classes_are_built():
    with pytest.raises(ValueError, match=r"Unknown recorded type 'BetaVAE'. Did you mean 'BetaTCVAE'"):
        values.build(values.describe(BetaVAE()), [k for k in METHODS if k is not BetaVAE])
    with pytest.raises(ValueError, match=r"Unknown recorded type 'os.system'"):
        values.build({"type": "os.system", "command": "true"}, KNOWN)


def test_a_field_of_another_version_is_refused_by_name():
    with pytest.raises(ValueError, match=r"BetaVAE has no field 'gamma': the record is of another version"):
        values.build({**values.describe(BetaVAE()), "gamma": 1.0}, KNOWN)


def test_the_digest_knows_every_setting_and_no_order():
    assert values.digest({"a": 1, "b": 2}) == values.digest({"b": 2, "a": 1})
    assert values.digest(BetaVAE(beta=1)) != values.digest(BetaVAE(beta=2))
    assert len(values.digest(None)) == 16


def test_names_on_the_command_line_are_unique_and_find_their_class():
    names = [values.name_of(kind) for kind in KNOWN]
    assert len(set(names)) == len(names)
    for kind, name in zip(KNOWN, names, strict=True):
        assert values.pick("class", name, KNOWN) is kind


def test_a_wrong_name_gets_the_nearest_right_one_and_all_of_them():
    with pytest.raises(ValueError, match=r"Unknown method 'beta_vea'. Did you mean 'beta_vae'\?"):
        values.pick("method", "beta_vea", METHODS)
    assert values.unknown("method", "vea", ["vae", "pca"]).endswith("Did you mean 'vae'? There are: pca, vae.")
    assert "Did you mean" not in values.unknown("method", "zzz", ["vae"])


@pytest.mark.parametrize("got", ["beta_vae", "beta-vae", "BetaVAE", "betavae"])
def test_names_are_found_however_they_are_spelled(got):
    assert values.pick("method", got, METHODS).__name__ == "BetaVAE"


@dataclass(frozen=True)
class Parent:
    a: int = 1  #: the first
    b: str | None = None  # a comment for programmers


@dataclass(frozen=True)
class Child(Parent):
    a: int = 2  #: the first, otherwise
    c: tuple[int, ...] = ()  #: the third


def test_help_is_read_from_the_fields_comments_inherited_ones_too():
    assert values.field_help(Child) == {"a": "the first, otherwise", "c": "the third"}


def test_every_field_of_every_public_value_explains_itself():
    from dataclasses import fields

    for kind in KNOWN:
        assert {f.name for f in fields(kind)} <= set(values.field_help(kind)), kind


@pytest.mark.parametrize(
    ("text", "annotation", "expected"),
    [
        ("3", int, 3),
        ("1e-4", float, 1e-4),
        ("4", float, 4.0),
        ("word", str, "word"),
        ("a/b", Path, Path("a/b")),
        ("yes", bool, True),
        ("0", bool, False),
        ("none", float | None, None),
        ("0.5", float | None, 0.5),
        ("32,64", tuple[int, ...], (32, 64)),
        ("", tuple[int, ...], ()),
        ("0.5,0.9", tuple[float, float], (0.5, 0.9)),
        ("bfloat16", Literal["float32", "bfloat16"], "bfloat16"),
        ("conv64", Architecture, Conv64()),
        ("mlp", Architecture | None, MLP()),
        ("none", Architecture | None, None),
    ],
)
def test_words_become_values(text, annotation, expected):
    got = values.parse(text, annotation, ARCHITECTURES)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("text", "annotation", "message"),
    [
        ("3.5", int, "needs a whole number, got '3.5'"),
        ("x", float, "needs a number, got 'x'"),
        ("maybe", bool, "needs true or false, got 'maybe'"),
        ("1,2,3", tuple[float, float], "needs 2 values with commas between, got '1,2,3'"),
        ("1,x", tuple[int, ...], "needs a whole number, got 'x'"),
        ("float16", Literal["float32", "bfloat16"], "Unknown choice 'float16'. Did you mean 'bfloat16'"),
        ("conv46", Architecture, "Unknown architecture 'conv46'. Did you mean 'conv64'"),
        ("x", float | None, "needs a number, got 'x'"),
        ("x", dict[str, int], "cannot be set from the command line"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_the_reason(text, annotation, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        values.parse(text, annotation, ARCHITECTURES)
