"""Cases drawn afresh, with constant, repeated, integer, few-valued and heavy-tailed codes: every metric that needs no
learner is that of disentanglement_lib to 1e-6 in the study's terms."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.reference.arrays import FRESH, fresh
from whence.metrics import (
    Unmeasurable,
    code_information,
    dci_from,
    gaussian_total_correlation,
    gaussian_wasserstein_correlation,
    irs,
    mig,
    modularity,
    modularity_from,
    mutual_information,
    sap,
)

GOLDEN = json.loads((Path(__file__).parents[1] / "reference" / "disentanglement_lib_fresh.json").read_text())["results"]


@pytest.mark.parametrize("seed", GOLDEN)
def test_in_the_studys_terms_a_fresh_case_gives_the_reference(seed):
    kind, z, v, importances = fresh(int(seed))
    golden = GOLDEN[seed]
    assert [kind, *z.shape, v.shape[1]] == [golden["case"], *golden["shape"]]
    np.testing.assert_allclose(mutual_information(z, v, study=True).mutual, golden["mutual_information"], atol=1e-6)
    scored = dci_from(importances)
    found = {
        "mig": mig(z, v, study=True),
        "modularity": modularity(z, v, study=True),
        "sap_continuous": sap(z, v, continuous=True, study=True),
        "irs": irs(z, v, study=True),
        "mutual_info_score": code_information(z, study=True),
        "modularity_of_importances": modularity_from(importances),
        "dci_disentanglement": scored.disentanglement,
        "dci_completeness": scored.completeness,
    }
    assert found == pytest.approx({name: golden[name] for name in found}, abs=1e-6)
    for name, normalised in (
        ("gaussian_wasserstein_correlation", False),
        ("gaussian_wasserstein_correlation_norm", True),
    ):
        distance = gaussian_wasserstein_correlation(z, normalised=normalised, study=True)
        assert distance == pytest.approx(golden[name], abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("seed", GOLDEN)
def test_the_total_correlation_is_the_reference_where_that_is_a_number(seed):
    kind, z, _, _ = fresh(int(seed))
    golden = GOLDEN[seed]["gaussian_total_correlation"]
    varies = (z != z[:1]).any(0)
    if kind == "duplicated":  # there: infinity, or the logarithm of a rounding error
        with pytest.raises(Unmeasurable):
            gaussian_total_correlation(z)
    elif varies.all():
        assert gaussian_total_correlation(z, study=True) == pytest.approx(golden, abs=1e-6)
    else:
        assert golden == "nan"
        assert gaussian_total_correlation(z) == pytest.approx(gaussian_total_correlation(z[:, varies]), abs=1e-12)


def test_every_kind_of_codes_is_among_the_cases():
    assert {golden["case"] for golden in GOLDEN.values()} == set(FRESH)
    assert all(math.isfinite(x) for golden in GOLDEN.values() for x in (golden["mig"], golden["irs"]))
