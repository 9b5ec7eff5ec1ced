"""Every method, world and metric of the library keeps the promises that `whence check` runs; broken ones are caught."""

import abc
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from whence.check import (
    CheckFailed,
    check_method,
    method_checks,
    metric_checks,
    ranking_checks,
    run_checks,
    world_checks,
)
from whence.descend import Terms
from whence.methods import METHODS, BetaVAE, CauCA, Gradient, Method
from whence.metrics import METRICS, RANKINGS, Metric, Ranking
from whence.nets import MLP, Architecture
from whence.representation import Representation
from whence.terms import Likelihood
from whence.views import View
from whence.worlds import Sprites, Unmixed, World
from whence.worlds.dsprites import DSprites

pytestmark = pytest.mark.filterwarnings("ignore:FastICA did not converge")


def small(kind: type[Method]) -> Method:
    """The method as it is, with networks small enough for a test."""
    method: Any = kind()
    if isinstance(getattr(method, "critic", None), tuple):
        method = replace(method, critic=(8,))
    if isinstance(method, CauCA):  # refuses to go without a graph
        method = replace(method, graph=("0->1",), hidden=(8,))
    if hasattr(method, "drawing"):
        method = replace(method, drawing=MLP(hidden=(8,)))
    return replace(method, net=MLP(hidden=(16,))) if hasattr(method, "net") else method


METHOD_CHECKS = [(k.__name__, c) for k in METHODS for c in method_checks(small(k))]
WORLD_CHECKS = [
    (str(w), c) for w in (Sprites(), Sprites(colour=True), Sprites(noise=0.5), Unmixed()) for c in world_checks(w)
]
METRIC_CHECKS = [(k.__name__, c) for k in METRICS for c in metric_checks(k())]
RANKING_CHECKS = [(k.__name__, c) for k in RANKINGS for c in ranking_checks(k())]


@pytest.mark.parametrize(("name", "check"), METHOD_CHECKS, ids=lambda v: v if isinstance(v, str) else v.name)
def test_method(name, check):
    check.run()


@pytest.mark.parametrize(("name", "check"), WORLD_CHECKS, ids=lambda v: v if isinstance(v, str) else v.name)
def test_world(name, check):
    check.run()


@pytest.mark.parametrize(("name", "check"), METRIC_CHECKS, ids=lambda v: v if isinstance(v, str) else v.name)
def test_metric(name, check):
    check.run()


@pytest.mark.parametrize(("name", "check"), RANKING_CHECKS, ids=lambda v: v if isinstance(v, str) else v.name)
def test_ranking(name, check):
    check.run()


def test_dsprites_keeps_the_promises_of_a_world(tmp_path):
    from tests.worlds.test_dsprites import write_dsprites

    run_checks(world_checks(DSprites(write_dsprites(tmp_path / "small.npz"))))


@pytest.mark.parametrize(
    "base",
    [Method, Gradient, World, Metric, Ranking, Representation, View, Architecture, Likelihood],
    ids=lambda b: b.__name__,
)
def test_base_classes_cannot_be_built(base):
    assert issubclass(base, abc.ABC)
    with pytest.raises(TypeError, match="abstract"):
        base()


def test_evidence_points_at_files_that_exist(request):
    for kind in (*METHODS, *METRICS, *RANKINGS):
        for evidence in kind.evidence:
            assert (request.config.rootpath / evidence.where).is_file(), (kind.__name__, evidence.where)


def test_a_state_outside_the_networks_is_caught():
    counts = []

    @dataclass(frozen=True, kw_only=True)
    class Forgetful(BetaVAE):
        """Its loss depends on how often it was called: a resumed run differs."""

        def loss(self, nets, batch, t):
            counts.append(1)
            _, terms = self.elbo(nets, batch.x)
            return Terms(**{name: term * (1 + len(counts) % 7) for name, term in terms.items()})

    with pytest.raises(CheckFailed, match="determinism: two fits with one seed differ"):
        check_method(Forgetful(net=MLP(hidden=(8,))))


def test_a_method_that_reseeds_the_caller_is_caught():
    import numpy as np

    @dataclass(frozen=True, kw_only=True)
    class Rude(BetaVAE):
        """Seeds the world."""

        def init(self, spec):
            np.random.seed(0)  # noqa: NPY002  the fault that must be found
            return super().init(spec)

    with pytest.raises(CheckFailed, match="random_state: fit leaves NumPy's random state changed"):
        check_method(Rude(net=MLP(hidden=(8,))))


def test_a_mutable_method_is_caught():
    @dataclass(kw_only=True)
    class Soft(Method):
        """Not frozen."""

        beta: float = 1.0
        needs = BetaVAE.needs
        reference, guarantee, evidence = BetaVAE.reference, BetaVAE.guarantee, BetaVAE.evidence

        def fit(self, data, run):
            return self.skeleton(data.spec)

        def skeleton(self, spec):
            torch.manual_seed(0)
            return BetaVAE(net=MLP(hidden=(8,))).skeleton(spec)

    with pytest.raises(CheckFailed, match="can be changed after it is made"):
        check_method(Soft())
