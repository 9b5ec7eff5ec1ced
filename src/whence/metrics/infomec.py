"""InfoMEC: modularity, explicitness and compactness from information."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Codes, Unmeasurable, codes_and_factors
from whence.metrics.information import Information, classes, entropy, varying
from whence.metrics.metric import Metric, Part
from whence.metrics.noise import evident, evident_of
from whence.metrics.probe import Probe
from whence.metrics.targets import both_vary

ROWS = 60_000  #: of more rows, this many evenly spaced ones tell all about a linear model
SINGULAR = 1e-6  #: variance added to standardised codes within a class, so that noiseless codes can be told apart


class MEC(NamedTuple):
    modularity: float
    explicitness: float
    compactness: float


def info_mec(
    codes: Any, factors: Any, *, bins: int = 20, study: bool = False, discrete: bool = False, seed: int = 0
) -> MEC:
    r"""InfoM, InfoE and InfoC of codes z and factors v, each 1 at best and 0 by chance.

    .. math:: \mathrm{InfoM} = \frac{1}{D} \sum_j r_K(m_{j \cdot}), \quad
              \mathrm{InfoC} = \frac{1}{K} \sum_k r_D(m_{\cdot k}), \quad
              m_{jk} = \frac{I(z_j; v_k)}{H(v_k)}

    with

    .. math:: r_n(m) = \frac{\max_i m_i / \sum_i m_i - 1/n}{1 - 1/n}

    and, with the entropies that a linear model finds,

    .. math:: \mathrm{InfoE} = \frac{1}{K} \sum_k \frac{H_\mathcal{V}(v_k) - H_\mathcal{V}(v_k \mid z)}
              {H_\mathcal{V}(v_k)}

    Information is that of `evident`. Codes that tell nothing take no part and are not counted in D; a factor that no
    code tells of counts 0. InfoE is `linear_information`, on rows that were not learnt from.

    `study=True` is the authors' estimate: a code is active if its range is more than a twentieth of the largest;
    information is `neighbour_information`, or counted if `discrete` says that codes are quantised; InfoE is in-sample,
    by 100 steps of an unpenalised logistic regression with balanced classes. Codes of pure noise have InfoM of 0.5
    there, because ratios of estimates that are nearly 0 are far from equal. Noise that splits ties has `seed`.
    """
    z, v = codes_and_factors(codes, factors)
    if study:
        return as_published(z, v, discrete, seed)
    m, c = ratios(evident(z, v, bins=bins))
    return MEC(m, linear_information(z, v, bins=bins), c)


def ratios(information: Information) -> tuple[float, float]:
    """InfoM and InfoC, of the codes that know something."""
    share = information.shared()
    if share.shape[1] < 2:
        raise Unmeasurable("InfoMEC needs two factors: a code cannot mix what is alone. Give more factors.")
    share = share[share.any(1)]
    return (float(dominance(share).mean()), float(dominance(share.T).mean())) if len(share) else (0.0, 0.0)


def dominance(rows: Array) -> Array:
    """How much of each row is in its greatest entry: 1 all, 0 no more than in the others, or nothing anywhere."""
    n, total = rows.shape[1], rows.sum(1)
    part = np.divide(rows.max(1), total, out=np.full(len(rows), 1 / n), where=total > 0)
    return (part - 1 / n) / (1 - 1 / n) if n > 1 else (total > 0).astype(np.float64)


def linear_information(codes: Any, factors: Any, *, bins: int = 20) -> float:
    r"""Mean over factors of the predictive information of codes, as a share of the factor's entropy.

    .. math:: 1 - \frac{\mathbb{E}[-\log p(v_k \mid z)]}{\mathbb{E}[-\log p(v_k)]}, \qquad
              p(v \mid z) = (1 - \tfrac{1}{n})\, \mathrm{softmax}(W z + b)_v + \tfrac{1}{n}\, p(v)

    on the last third of the rows, with W and b from the n others: `discriminant`, sharpened by a factor. It needs no
    penalty, which would keep noiseless codes from their 1, and no single row can cost much. A model may ignore the
    codes, so no factor counts less than 0. A factor whose values hardly recur is cut into `bins` classes.
    """
    z, v = codes_and_factors(codes, factors)
    v = classes(v, bins)
    some = slice(None) if len(z) <= ROWS else np.linspace(0, len(z) - 1, ROWS).astype(np.intp)
    learn, test = Codes(z[some].astype(np.float64), v[some]).split()
    moves = learn.z.max(0) > learn.z.min(0)
    centre, spread = learn.z[:, moves].mean(0), learn.z[:, moves].std(0)
    a, b = ((rows.z[:, moves] - centre) / spread for rows in (learn, test))
    for k in range(v.shape[1]):
        both_vary(v[:, k], v[:, k], k)
    return float(np.mean([explained(a, learn.v[:, k], b, test.v[:, k]) for k in range(v.shape[1])]))


def explained(z: Array, y: Array, z_test: Array, y_test: Array) -> float:
    """`linear_information` of one factor, from standardised codes."""
    from scipy.optimize import minimize_scalar
    from scipy.special import softmax

    count = np.bincount(y, minlength=max(y.max(), y_test.max()) + 1)
    prior = (count + 1) / (count + 1).sum()
    weight, offset = discriminant(z, y, count)

    def cost(doublings: float, at: Array, truth: Array) -> float:
        told = softmax(2**doublings * (at @ weight + offset) + np.log(prior), axis=1)[np.arange(len(at)), truth]
        return float(-np.log((1 - 1 / len(y)) * told + prior[truth] / len(y)).mean())

    best = minimize_scalar(cost, bounds=(-3, 10), args=(z, y), method="bounded", options={"xatol": 0.2}).x
    return max(1 - cost(best, z_test, y_test) / -np.log(prior[y_test]).mean(), 0.0)


def discriminant(z: Array, y: Array, count: Array) -> tuple[Array, Array]:
    """Weights (D, classes) and offsets of y's linear discriminant: as if codes were Gaussian around a mean for each
    value, with one covariance. Rows rarer than one in n under it are left out, and it is found once more."""
    from scipy.stats import chi2

    n, d = z.shape
    keep = np.ones(n, bool)
    for _ in range(2):
        kept = np.bincount(y[keep], minlength=len(count)).clip(1)
        mean = np.array([np.bincount(y[keep], c[keep], len(count)) / kept for c in z.T]).reshape(d, len(count)).T
        apart = z - mean[y]
        precision = np.linalg.inv(apart[keep].T @ apart[keep] / keep.sum() + SINGULAR * np.eye(d))
        keep = ((apart @ precision) * apart).sum(1) <= chi2.isf(1 / n, max(d, 1))
    weight = precision @ mean.T
    return weight, -(mean.T * weight).sum(0) / 2


def as_published(z: Array, v: Array, discrete: bool, seed: int) -> MEC:
    # kylehkhsu/latent_quantization@4ba4c9d (disentangle/metrics/infomec.py)
    labels = np.stack([np.unique(c, return_inverse=True)[1] for c in v.T], 1)
    of_factors = varying(np.array([entropy(np.bincount(c)) for c in labels.T]))
    reach = np.ptp(z, axis=0)
    active = reach > (0 if discrete else reach.max() / 20)
    told = (counted if discrete else neighbour_information)(
        z[:, active], labels, **({} if discrete else {"seed": seed})
    )
    share = told / of_factors
    if min(share.shape) < 2 or not (share.any(0).all() and share.any(1).all()):
        raise Unmeasurable(
            "The published InfoMEC divides by 0 here: it needs two factors, two codes of similar range, and some "
            "estimated information in each. The default (study=False) knows what to do without."
        )
    explicitness = published_explicitness(z, labels, discrete)
    return MEC(float(dominance(share).mean()), explicitness, float(dominance(share.T).mean()))


def counted(z: Array, labels: Array) -> Array:
    """(D, K): mutual information of discrete codes, from counts."""
    cells = [np.unique(c, return_inverse=True)[1] for c in z.T]
    pairs = [(b, b.max() + 1, entropy(np.bincount(b))) for b in labels.T]
    return np.array(
        [[entropy(np.bincount(a)) + h - entropy(np.bincount(a * n + b)) for b, n, h in pairs] for a in cells]
    )


def neighbour_information(codes: Any, labels: Any, *, neighbours: int = 10, seed: int = 0) -> Array:
    r"""(D, K): mutual information of a continuous code and a discrete factor, by the distance to near neighbours.

    .. math:: I(z; v) = \psi(N) + \overline{\psi(k_i)} - \overline{\psi(N_{v_i})} - \overline{\psi(m_i)}

    with :math:`m_i` the codes nearer than the k-th neighbour among the :math:`N_{v_i}` with the same value, itself
    included. Values that occur once are left out; ties are split by noise of 1e-10, as scikit-learn does. Ross (2014),
    Mutual Information between Discrete and Continuous Data Sets.
    """
    from scipy.special import digamma

    z, v = codes_and_factors(codes, labels)
    spread = z.std(0)
    z = z.astype(np.float64) / np.where(spread > 0, spread, 1)
    z += 1e-10 * np.maximum(1, np.abs(z).mean(0)) * np.random.default_rng(seed).standard_normal(z.shape)
    out = np.empty((z.shape[1], v.shape[1]))
    for k, label in enumerate(v.T):
        _, value, count = np.unique(label, return_inverse=True, return_counts=True)
        often = count[value] > 1
        value, n = value[often], often.sum()
        near = np.minimum(neighbours, count - 1)
        constant = digamma(n) + digamma(near[value]).mean() - digamma(count[value]).mean()
        for j, code in enumerate(z[often].T):
            radius = np.empty(n)
            for c in np.flatnonzero(count > 1):
                mine = np.flatnonzero(value == c)
                order = mine[code[mine].argsort()]
                radius[order] = kth_distance(code[order], near[c])
            radius -= 4 * np.spacing(np.abs(code) + radius)  # the k-th neighbour itself is not nearer
            ranked = np.sort(code)
            inside = ranked.searchsorted(code + radius, "right") - ranked.searchsorted(code - radius, "left")
            out[j, k] = max(constant - digamma(inside.clip(1)).mean(), 0.0)
    return out


def kth_distance(ranked: Array, k: int) -> Array:
    """Of each of these sorted numbers to its k-th nearest neighbour: the narrowest window of k + 1 that holds it."""
    n = len(ranked)
    padded = np.concatenate([np.full(k, -np.inf), ranked, np.full(k, np.inf)])
    at = [padded[a : a + n] for a in range(2 * k + 1)]
    return np.min([np.maximum(ranked - at[a], at[a + k] - ranked) for a in range(k + 1)], axis=0)


def published_explicitness(z: Array, labels: Array, discrete: bool) -> float:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    unit = (OneHotEncoder() if discrete else StandardScaler()).fit_transform(z)
    left = []
    for y in labels.T:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 100 steps are part of the definition
            model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(unit, y)
        told = model.predict_proba(unit)[np.arange(len(y)), y]
        left.append(-np.log(told.clip(np.finfo(np.float64).eps)).mean() / np.log(y.max() + 1))
    return float(1 - np.mean(left))


@dataclass(frozen=True, kw_only=True)
class InfoMEC(Metric):
    """InfoMEC: is each code of one factor (modularity), each factor of one code (compactness), and linear in them
    (explicitness)?

    Misses: modularity and compactness say nothing of how much is known, only how it is spread; explicitness says
    nothing of which codes tell.
    """

    bins: int = 20  #: of each code's histogram
    study: bool = False  #: as the authors estimate it: nearest neighbours, a logistic regression, activity by range
    discrete: bool = False  #: for study: codes are quantised, so count them

    parts: ClassVar[tuple[Part, ...]] = (Part("modularity"), Part("explicitness"), Part("compactness"))
    reference: ClassVar[Reference] = Reference(
        key="hsu2023disentanglement",
        authors="Hsu, Kyle and Dorrell, Will and Whittington, James C. R. and Wu, Jiajun and Finn, Chelsea",
        title="Disentanglement via Latent Quantization",
        venue="Advances in Neural Information Processing Systems",
        year=2023,
        url="https://arxiv.org/abs/2305.18378",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_infomec.py"),)

    def measure(self, probe: Probe) -> MEC:
        z, v = probe.pool
        if self.study:
            seed = int(probe.rng("infomec").integers(2**31))
            return info_mec(z, v, study=True, discrete=self.discrete, seed=seed)
        m, c = ratios(evident_of(probe, self.bins))
        return MEC(m, linear_information(z, v, bins=self.bins), c)
