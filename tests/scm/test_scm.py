"""Structural causal models against closed forms, quadrature and the laws of counterfactuals, in float64."""

from __future__ import annotations

import math

import networkx
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor
from torch.distributions import (
    AffineTransform,
    Bernoulli,
    Beta,
    Categorical,
    Cauchy,
    Exponential,
    Laplace,
    MixtureSameFamily,
    Normal,
    StudentT,
    Uniform,
)

from whence import scm
from whence.scm import SCM, Additive, Boxed, Hard, Linear, Moved, Point, Quadratic, Soft

FAMILIES = [scm.RandomLinear(), scm.RandomQuadratic(), scm.RandomMLP(), scm.RandomBoxed()]
FAMILIES_ = [*FAMILIES, scm.RandomLinear(noise="laplace"), scm.RandomMLP(noise="student")]


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def model(family: scm.Random, seed: int = 0, n: int = 4, p: float = 0.7, shuffle: bool = True) -> SCM:
    rng = seeded(seed)
    return SCM.random(scm.random_graph(n, probability=p, shuffle=shuffle, rng=rng), family, rng=rng)


models = st.builds(model, st.sampled_from(FAMILIES_), st.integers(0, 10**6), n=st.integers(1, 6), p=st.floats(0, 1))


def normal(scale: float = 1.0, loc: float = 0.0) -> Normal:
    return Normal(torch.tensor(loc).double(), torch.tensor(scale).double())


def linear(*weights: float) -> Linear:
    return Linear(torch.tensor(weights, dtype=torch.float64))


# --- sampling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_samples_of_a_linear_gaussian_model_have_its_mean_and_covariance(seed):
    m = model(scm.RandomLinear(), seed, n=5).do({"z1": Soft(gain=-0.5, variance=3.0, shift=2.0)})
    g = m.gaussian
    z = m.sample(200_000, rng=seeded(seed))
    deviation = g.covariance.diagonal().sqrt()
    assert ((z.mean(0) - g.mean) / deviation).abs().max() < 5 / 200_000**0.5
    assert ((z.T.cov() - g.covariance) / torch.outer(deviation, deviation)).abs().max() < 0.02
    assert torch.allclose(g.covariance @ g.precision, torch.eye(5).double(), atol=1e-9)
    assert m.sample(3, rng=seeded()).dtype == torch.float64


def test_the_closed_form_belongs_to_linear_gaussian_models_alone():
    assert model(scm.RandomMLP(), p=1.0).gaussian is None
    assert model(scm.RandomBoxed()).gaussian is None
    assert model(scm.RandomLinear(noise="laplace")).gaussian is None
    assert model(scm.RandomLinear()).do({0: 1.0}).gaussian is None
    assert model(scm.RandomMLP(), p=0.0).gaussian is not None


@pytest.mark.parametrize("family", FAMILIES_, ids=str)
def test_random_parameters_lie_in_their_ranges(family):
    for seed in range(5):
        for m in model(family, seed, p=1.0).mechanisms:
            assert family.variance[0] <= m.variance <= family.variance[1] + 1e-9
            match m.link:
                case Linear(weights=w):
                    low, high = family.weight
                    assert low <= w.abs().min() <= w.abs().max() <= high
                case Quadratic(root=b):
                    assert torch.linalg.svdvals(b).min() >= 0.1
                    assert b.abs().max() <= 1
                case scm.Network(W=W, v=v):
                    assert W.shape[0] == len(v) == 32
                    assert W.abs().max() <= W.shape[1] ** -0.5
                    assert v.abs().max() <= 32**-0.5
    signs = torch.cat([m.link.weights.sign() for m in model(scm.RandomLinear(), n=9, p=1.0).mechanisms if m.link])
    assert {-1.0, 1.0} == set(signs.tolist())


def test_the_quadratic_link_is_its_formula_and_has_a_finite_gradient_at_zero():
    b = torch.randn(3, 3, dtype=torch.float64, generator=seeded())
    pa = torch.randn(7, 3, dtype=torch.float64, generator=seeded(1))
    expected = torch.einsum("bi,ij,bj->b", pa, b.T @ b, pa).sqrt()
    assert torch.allclose(Quadratic(b)(pa), expected)
    zero = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(Quadratic(b)(zero).sum(), zero)[0].tolist() == [[0, 0, 0]]


def test_the_network_link_is_that_of_torch():
    link = scm.RandomMLP().link(3, seeded())
    net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)).double()
    net.load_state_dict({"0.weight": link.W, "0.bias": link.b, "2.weight": link.v[None], "2.bias": link.c[None]})
    pa = torch.randn(5, 3, dtype=torch.float64, generator=seeded())
    assert torch.allclose(link(pa), net(pa)[:, 0])


@given(models)
@settings(deadline=None, max_examples=20)
def test_samples_with_and_without_an_intervention_share_their_noise(m):
    z, z_ = m.sample(50, rng=seeded(1)), m.sample(50, do={0: 0.05}, rng=seeded(1))
    assert torch.allclose(m.counterfactual(z, {0: 0.05}), z_, atol=1e-6)


def test_environments_in_one_pass_are_the_distributions_of_each_alone():
    m = model(scm.RandomMLP(), 3, n=4, p=1.0)
    dos = [None, {0: Hard(variance=0.25)}, {1: Soft(gain=0.5), 3: 1.5}, {}, {2: Normal(4.0, 0.1)}]
    z = m.sample_environments(20_000, dos, rng=seeded())
    assert z.shape == (5, 20_000, 4)
    for together, do in zip(z, dos, strict=True):
        alone = m.sample(20_000, do=do, rng=seeded(9))
        for j in range(4):
            if alone[:, j].std() == 0:
                assert torch.equal(together[:, j], alone[:, j])
            else:
                assert scipy.stats.ks_2samp(together[:, j].numpy(), alone[:, j].numpy()).pvalue > 1e-4
        assert (together.T.cov() - alone.T.cov()).abs().max() < 0.08
    assert z[0].T.cov().sub(z[3].T.cov()).abs().max() > 0  # noise of its own in each
    assert abs(torch.corrcoef(torch.stack([z[0, :, 0], z[3, :, 0]]))[0, 1]) < 0.05


def test_a_value_for_each_sample_and_one_for_all():
    m = model(scm.RandomLinear())
    value = torch.arange(5.0)
    assert torch.equal(m.sample(5, do={"z2": value}, rng=seeded())[:, 2], value.double())
    assert (m.sample(5, do={"z2": 3}, rng=seeded())[:, 2] == 3).all()
    with pytest.raises(ValueError, match=r"one value or to one for each sample, \(5,\), got \(3,\)"):
        m.sample(5, do={"z2": value[:3]}, rng=seeded())


# --- densities and scores --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_score_of_a_linear_gaussian_model_is_minus_theta_z(seed):
    m = model(scm.RandomLinear(), seed, n=6)
    do = {2: Hard(variance=0.25), 4: Soft(gain=0.5, variance=1.0, change="increase", shift=1.0)}
    for d in (None, do):
        g = m.do(d).gaussian
        z = m.sample(50, rng=seeded())
        assert torch.allclose(m.score(z, do=d), -(z - g.mean) @ g.precision, atol=1e-10)
        expected = torch.distributions.MultivariateNormal(g.mean, precision_matrix=g.precision).log_prob(z)
        assert torch.allclose(m.log_prob(z, do=d), expected, atol=1e-9)


@given(models, st.sampled_from([None, {0: Hard(variance=0.25)}, {0: Soft(gain=0.5, variance=4.0)}]))
@settings(deadline=None, max_examples=30)
def test_the_score_is_the_finite_difference_of_log_prob(m, do):
    z = 0.9 * m.sample(20, rng=seeded())
    h = 1e-6 * z.abs().mean()
    s = m.score(z, do=do)
    for j in range(len(m)):
        step = torch.zeros(len(m), dtype=torch.float64)
        step[j] = h
        slope = (m.log_prob(z + step, do=do) - m.log_prob(z - step, do=do)) / (2 * h)
        near = torch.isclose(s[:, j], slope, rtol=1e-3, atol=1e-3 * s.abs().max())
        assert near.float().mean() >= 0.9  # a step may cross the bend of a ReLU or of a Laplace density
    assert s.shape == z.shape
    assert torch.equal(m.score(z.reshape(2, 10, -1), do=do), s.reshape(2, 10, -1))


@given(models)
@settings(deadline=None, max_examples=20)
def test_score_differences_are_differences_of_scores_with_exact_zeros(m):
    do, base = {0: Soft(gain=0.3, variance=4.0)}, {len(m) - 1: Hard(variance=0.25)}
    z = 0.9 * m.sample(30, rng=seeded())
    assert torch.allclose(m.score_difference(z, do), m.score(z, do=do) - m.score(z), atol=1e-8)
    assert torch.allclose(m.score_difference(z, do, base), m.score(z, do=do) - m.score(z, do=base), atol=1e-8)
    reached = {0, *m.parents[0]}
    assert (m.score_difference(z, do)[:, [j for j in range(len(m)) if j not in reached]] == 0).all()
    assert (m.score_difference(z, {}) == 0).all()


def box(m: SCM, reach: float, points: int) -> tuple[Tensor, float]:
    """A grid over two nodes, and the area of a cell."""
    axis = (torch.arange(points, dtype=torch.float64) + 0.5) / points * 2 * reach - reach
    return torch.cartesian_prod(axis, axis), (2 * reach / points) ** 2


@pytest.mark.parametrize("family", FAMILIES_, ids=str)
@pytest.mark.parametrize("do", [None, {1: Hard(variance=0.25)}, {1: Soft(gain=0.5, variance=1.0, change="increase")}])
def test_densities_integrate_to_one(family, do):
    m = model(family, 1, n=2, p=1.0, shuffle=False)
    boxed = isinstance(family, scm.RandomBoxed)
    z, cell = box(m, 0.1 if boxed else 60.0 if family.noise == "student" else 16.0, 600 if not boxed else 200)
    assert m.log_prob(z, do=do).exp().sum() * cell == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize(
    "noise",
    [
        Laplace(0.0, 1.0),
        StudentT(5.0),
        Exponential(2.0),
        Uniform(-1.0, 1.0),
        Beta(2.0, 3.0),
        Cauchy(0.0, 1.0),
        MixtureSameFamily(Categorical(torch.tensor([0.3, 0.7])), Normal(torch.tensor([-2.0, 1.0]), torch.ones(2))),
    ],
    ids=lambda d: type(d).__name__,
)
def test_any_continuous_distribution_can_be_the_noise(noise):
    m = SCM.of([[0, 1], [0, 0]], [Additive(noise=noise), Additive(noise=noise, link=linear(0.5), scale=2.0)])
    state = torch.random.get_rng_state()
    z = m.sample(5_000, rng=seeded())
    assert torch.equal(state, torch.random.get_rng_state())
    assert torch.equal(z, m.sample(5_000, rng=seeded()))
    u = (z[:, 1] - 0.5 * z[:, 0]) / 2
    torch.manual_seed(0)
    assert scipy.stats.ks_2samp(u.numpy(), noise.sample((5_000,)).numpy()).pvalue > 1e-3
    torch.random.set_rng_state(state)
    assert torch.allclose(m.abduct(z)[:, 1], u, atol=1e-6)
    expected = noise.log_prob(z[:, 0]) + noise.log_prob(u) - math.log(2)
    assert torch.allclose(m.log_prob(z), expected, atol=1e-5)
    assert torch.isfinite(m.score(z)).all()


def test_outside_of_the_support_the_density_is_zero_and_the_score_refused():
    m = SCM.of([[0]], [Additive(noise=Exponential(2.0))])
    z = torch.tensor([[1.0], [-1.0]])
    assert m.log_prob(z).tolist() == [pytest.approx(math.log(2) - 2), -math.inf]
    assert m.log_prob(z[1:]).tolist() == [-math.inf]
    with pytest.raises(ValueError, match="density is positive: 1 of 2 points lie outside"):
        m.score(z)
    with pytest.raises(ValueError, match="1 of 1 points lie outside of the support, or are not finite"):
        model(scm.RandomLinear(), n=1).score(torch.tensor([[float("nan")]]))


def test_a_point_mass_has_no_density():
    m = model(scm.RandomLinear())
    z = m.sample(3, rng=seeded())
    for call in (m.log_prob, m.score):
        with pytest.raises(ValueError, match=r"do\(z1 = value\) is a point mass and has no density.*hard intervention"):
            call(z, do={"z1": 0.0})
    with pytest.raises(ValueError, match="point mass and has no density"):
        m.score_difference(z, {1: 0.0})
    with pytest.raises(ValueError, match="point mass and has no density"):
        Point(1.0).log_prob(z[:, 0], z[:, :0])


# --- truncation ------------------------------------------------------------------------------------------------------


@given(st.floats(-1, 1), st.floats(0.01, 1), st.floats(0.05, 2), st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_truncated_samples_lie_in_the_box_with_the_right_cdf(centre, deviation, b, seed):
    m = Boxed(noise=normal(deviation), link=linear(1.0), box=b)
    if (abs(centre) - b) / deviation > 30:
        return
    pa = torch.full((2_000, 1), centre, dtype=torch.float64)
    z = m.sample(pa, seeded(seed))
    assert z.abs().max() <= b
    law = scipy.stats.truncnorm((-b - centre) / deviation, (b - centre) / deviation, loc=centre, scale=deviation)
    assert scipy.stats.kstest(z.numpy(), law.cdf).pvalue > 1e-5
    assert torch.allclose(m.log_prob(z, pa), torch.from_numpy(law.logpdf(z.numpy())), atol=1e-6, rtol=1e-6)
    u = m.abduct(z, pa)
    assert ((u >= 0) & (u <= 1)).all()
    assert torch.allclose(m.predict(u, pa), z, atol=1e-9)


def test_truncated_samples_survive_rounding_to_float32():
    m = model(scm.RandomBoxed(), n=3, p=1.0)
    z = torch.tensor([[0.1, -0.1, 0.1]])
    assert torch.isfinite(m.log_prob(z)).all()
    assert torch.isfinite(m.score(z)).all()
    assert m.score(z).dtype == torch.float32
    assert m.log_prob(z * 1.01).tolist() == [-math.inf]


def test_a_box_out_of_reach_is_refused():
    m = Boxed(noise=normal(0.01), link=linear(1.0), box=0.1)
    with pytest.raises(ValueError, match="more than 37 deviations from the mean in 2 rows"):
        m.sample(torch.ones(2, 1).double(), seeded())
    with pytest.raises(ValueError, match=r"Boxed needs noise Normal\(0, sigma\) and a positive box"):
        Boxed(noise=Laplace(0.0, 1.0), box=0.1)


# --- interventions ---------------------------------------------------------------------------------------------------


def test_hard_and_soft_interventions_do_what_they_say():
    m = SCM.of([[0, 1], [0, 0]], [Additive(noise=normal(1.0)), Additive(noise=normal(2.0), link=linear(3.0))])
    cases = {
        Hard(): (0.0, 4.0, 0.0),
        Hard(variance=0.25): (0.0, 1.0, 0.0),
        Hard(variance=5.0, change="increase", shift=-1.0): (0.0, 9.0, -1.0),
        Soft(): (1.5, 4.0, 0.0),
        Soft(gain=2.0, variance=0.25, shift=1.0): (6.0, 1.0, 1.0),
        Soft(gain=1.0, link=linear(7.0)): (7.0, 4.0, 0.0),
    }
    for how, (weight, variance, shift) in cases.items():
        g = m.do({1: how}).gaussian
        assert (g.weights[0, 1], g.shifts[1]) == (weight, shift), how
        assert g.variances[1] == pytest.approx(variance)
        assert m.do({1: how}).graph[0, 1] == (how.kind == "soft")
    assert m.graph[0, 1]


def test_a_change_of_variance_keeps_the_mean_of_noise_that_has_one():
    m = SCM.of([[0]], [Additive(noise=Exponential(torch.tensor(0.5).double()))])
    z = m.sample(400_000, do={0: Soft(variance=9.0)}, rng=seeded())
    assert z.mean() == pytest.approx(2, abs=0.05)
    assert z.var() == pytest.approx(36, rel=0.05)
    m = SCM.of([[0]], [Additive(noise=Cauchy(0.0, 1.0))])
    assert m.do({0: Hard(variance=4.0)}).mechanisms[0].scale == 2
    with pytest.raises(ValueError, match=r"no finite variance to increase. Use change='scale'"):
        m.do({0: Hard(variance=4.0, change="increase")})


def test_the_plain_forms_of_do():
    m = SCM.of(
        networkx.DiGraph([("rain", "wet"), ("hose", "wet")]),
        {
            "hose": Additive(noise=normal()),
            "rain": Additive(noise=normal()),
            "wet": Additive(noise=normal(0.1), link=linear(1.0, 1.0)),
        },
    )
    forms = {
        "do": 1.0,
        "hard": Normal(0.0, 1.0),
        "soft": lambda pa: pa.sum(-1) ** 2,
    }
    for kind, how in forms.items():
        assert scm.kind_of({"wet": how}) == kind
        assert m.do({"wet": how}).graph[:, 1].any() == (kind == "soft")
    z = m.sample(1_000, rng=seeded())
    r, w, h = (m.names.index(name) for name in ("rain", "wet", "hose"))
    out = m.counterfactual(z, {"wet": forms["soft"]})
    assert torch.allclose(out[:, w], (z[:, r] + z[:, h]) ** 2 + z[:, w] - z[:, r] - z[:, h])
    moved = m.counterfactual(z, {"rain": Moved(lambda x: x + 1)})
    assert torch.allclose(moved - z, torch.eye(3).double()[r] + torch.eye(3).double()[w])
    assert scm.kind_of({"wet": 1.0, "rain": Hard()}) is None
    assert scm.kind_of({}) is None
    replaced = m.do({"wet": Additive(noise=normal(), link=linear(2.0, 0.0))})
    assert replaced.graph.sum() == 2


def test_a_transformed_value_has_a_density_if_its_inverse_is_known():
    m = model(scm.RandomLinear(), n=3, p=1.0)
    z = m.sample(20, rng=seeded())
    moved = {2: Moved(AffineTransform(loc=torch.tensor(1.0).double(), scale=torch.tensor(2.0).double()))}
    gain, shift, factor = 2.0, 1.0, 4.0
    same = {2: Soft(gain=gain, shift=shift, variance=factor)}
    assert torch.allclose(m.log_prob(z, do=moved), m.log_prob(z, do=same))
    assert torch.allclose(m.do(moved).abduct(z), m.do(same).abduct(z))
    with pytest.raises(ValueError, match=r"Pass a torch.distributions.Transform, such as AffineTransform"):
        m.log_prob(z, do={2: Moved(lambda x: x + 1)})


@pytest.mark.parametrize(
    ("do", "kind", "message"),
    [
        ({"z9": 0.0}, KeyError, r"Unknown node 'z9'. Did you mean"),
        ({7: 0.0}, IndexError, "Nodes are numbered 0 to 3, got 7"),
        ({0: 1.0, "z0": 2.0}, ValueError, "Node 'z0' is given twice"),
        ({0: "high"}, TypeError, r"a number or one for each sample \(do\).*got 'high'"),
        ({0: float("nan")}, ValueError, "set to finite values, got nan"),
        ({0: Hard(variance=0.0)}, ValueError, "stays positive and finite.*For a constant use do="),
        ({0: Hard(variance=-9.0, change="increase")}, ValueError, "stays positive and finite"),
        ({0: Bernoulli(0.5)}, ValueError, "one scalar continuous distribution"),
        ({0: Normal(torch.zeros(2), 1.0)}, ValueError, r"one scalar continuous distribution.*batch \(2,\)"),
        ({3: lambda pa: pa + 1}, ValueError, r"from \(5, 3\) it must give \(5,\), got \(5, 3\).*Moved\(f\)"),
    ],
)
def test_impossible_interventions_are_refused(do, kind, message):
    m = model(scm.RandomLinear(), p=1.0, shuffle=False)
    with pytest.raises(kind, match=message):
        m.sample(5, do=do, rng=seeded())


def test_a_mechanism_of_ones_own_cannot_be_softened_but_replaced():
    m = model(scm.RandomLinear()).do({0: Point(1.0)})
    with pytest.raises(TypeError, match="Point does not say how its link and variance change"):
        m.do({0: Soft()})
    assert m.do({0: Normal(0.0, 1.0)}).sample(2, rng=seeded()).shape == (2, 4)


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_random_intervention_matrices_are_invertible_and_columns_are_environments(n, seed):
    d = scm.random_intervention_matrix(n, rng=seeded(seed))
    assert abs(torch.linalg.det(d.double())) == pytest.approx(1)
    for m, targets in enumerate(scm.targets_of(d)):
        assert targets == {i for i in range(n) if d[i, m]}
    with pytest.raises(ValueError, match=r"a row a node and a column an environment, got \(3,\)"):
        scm.targets_of(torch.zeros(3))


# --- counterfactuals -------------------------------------------------------------------------------------------------


@given(models)
@settings(deadline=None, max_examples=25)
def test_counterfactuals_keep_their_laws(m):
    z = m.sample(20, rng=seeded())
    n = len(m)
    i = m.order[0]
    below = {i, *scm.descendants(m.graph, i)}
    near = {"atol": 1e-7, "rtol": 1e-6}
    # Consistency: what was done by itself changes nothing.
    assert torch.allclose(m.counterfactual(z, {i: z[:, i]}), z, **near)
    assert torch.equal(m.counterfactual(z, {}), z)
    # Effectiveness, and only descendants move.
    a = m.counterfactual(z, {i: 0.03})
    assert (a[:, i] == 0.03).all()
    rest = [j for j in range(n) if j not in below]
    assert torch.equal(a[:, rest], z[:, rest])
    # Composition: setting another node to what it would have been anyway changes nothing.
    for j in range(n):
        if j != i:
            assert torch.allclose(m.counterfactual(z, {i: 0.03, j: a[:, j]}), a, **near)
    # There and back, with the noise kept by hard and soft interventions.
    for how in (Hard(variance=0.25), Soft(gain=0.5, variance=4.0), Hard(), Soft(gain=-1.0)):
        there = m.counterfactual(z, {i: how})
        assert torch.allclose(m.do({i: how}).counterfactual(there, {i: m.mechanisms[i]}), z, atol=1e-6)
    assert torch.allclose(m.predict(m.abduct(z)), z, **near)
    assert torch.equal(z, m.sample(20, rng=seeded()))  # inputs are left alone


def test_noise_of_its_own_has_no_single_counterfactual():
    m = model(scm.RandomLinear())
    z = m.sample(4, rng=seeded())
    with pytest.raises(ValueError, match=r"'z1' brings noise of its own.*Pass rng=torch.Generator\(\) to draw one"):
        m.counterfactual(z, {1: Normal(0.0, 1.0)})
    drawn = m.counterfactual(z, {1: Normal(9.0, 0.1)}, rng=seeded())
    assert ((drawn[:, 1] - 9).abs() < 1).all()


# --- the value -------------------------------------------------------------------------------------------------------


def test_networkx_carries_mechanisms_both_ways():
    m = model(scm.RandomMLP(), p=1.0)
    back = SCM.from_networkx(m.to_networkx())
    assert torch.equal(back.graph, m.graph)
    assert torch.equal(back.sample(5, rng=seeded()), m.sample(5, rng=seeded()))
    with pytest.raises(ValueError, match="attribute 'mechanism', there is none on a, b"):
        SCM.from_networkx(networkx.DiGraph([("a", "b")]))


def test_what_does_not_fit_together_is_refused():
    root = Additive(noise=normal())
    with pytest.raises(ValueError, match="a mechanism and a name for each of its 2 nodes, got 1 and 2"):
        SCM.of(torch.zeros(2, 2), [root])
    with pytest.raises(ValueError, match="different names, got a, a"):
        SCM.of(torch.zeros(2, 2), [root, root], ["a", "a"])
    with pytest.raises(ValueError, match="Unknown node 'c'"):
        SCM.of(torch.zeros(1, 1), {"c": root}, ["a"])
    with pytest.raises(ValueError, match="there is none for b"):
        SCM.of(torch.zeros(2, 2), {"a": root}, ["a", "b"])
    with pytest.raises(ValueError, match="no cycle, got a -> b -> a"):
        SCM.of([[0, 1], [1, 0]], [root, root], ["a", "b"])
    with pytest.raises(ValueError, match=r"2 nodes \(z0, z1\): values are floats of shape \(..., 2\)"):
        SCM.of(torch.zeros(2, 2), [root, root]).log_prob(torch.zeros(3, 4))
    with pytest.raises(ValueError, match="scale of noise is positive, got 0"):
        Additive(noise=normal(), scale=0)
    with pytest.raises(ValueError, match="range of positive numbers"):
        scm.RandomLinear(variance=(0.0, 1.0))
    with pytest.raises(ValueError, match="Truncation to a box is for normal noise"):
        scm.RandomBoxed(noise="laplace")


def test_a_module_in_single_precision_can_be_a_link():
    net = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1), torch.nn.Flatten(0))
    m = SCM.of(
        [[0, 1], [0, 0]],
        [Additive(noise=Normal(0.0, 1.0)), Additive(noise=Normal(0.0, 1.0), link=net)],
        dtype=torch.float32,
    )
    z = m.sample(6, rng=seeded())
    assert z.dtype == m.score(z).dtype == torch.float32
    with torch.no_grad():
        assert torch.isfinite(m.score(z)).all()


def test_a_flexible_mechanism_lets_gradients_reach_its_parameters():
    w = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    m = SCM.of([[0, 1], [0, 0]], [Additive(noise=normal()), Additive(noise=normal(), link=Linear(w))])
    z = torch.randn(100, 2, dtype=torch.float64, generator=seeded())
    slope = torch.autograd.grad(m.log_prob(z).sum(), w)[0]
    assert torch.allclose(slope, ((z[:, 1] - 0.5 * z[:, 0]) * z[:, 0]).sum())
