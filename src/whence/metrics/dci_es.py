"""The E and S of DCI-ES: how much capacity does it take to use the codes, and how many are there?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, codes_and_factors
from whence.metrics.groups import ROWS, Units
from whence.metrics.maps import Network
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.r2 import columns, shares
from whence.metrics.targets import both_vary, kinds_of


class Curve(NamedTuple):
    """Of probes in the order of their capacity."""

    capacity: Array  #: (P,)
    loss: Array  #: (P, K): the least so far, as a share of that of a constant guess


class Told(NamedTuple):
    capacity: float
    predicted: Array  #: (N, M) of the test rows


class Probes(Protocol):
    """Learns y (N, M) from codes with probes of growing capacity."""

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Sequence[Told]: ...


def ease_of_use(
    codes: Any,
    factors: Any,
    *,
    probes: Probes | None = None,
    kinds: Sequence[str] | None = None,
    study: bool = False,
    seed: int = 0,
) -> float:
    r"""The mean over factors of the area above the loss-capacity curve, as a share of all the area there is.

    .. math:: 1 - \frac{1}{K} \sum_k \frac{1}{\kappa_P - \kappa_1} \int_{\kappa_1}^{\kappa_P} \ell_k(\kappa) \, d\kappa

    with :math:`\ell_k(\kappa)` the least squared error on the test rows (the last third) of the probes of capacity up
    to κ, as a share of that of a constant guess: 1 if the smallest probe tells all, 0 if the largest tells nothing.
    Categorical factors are told by the indicators of their values. `probes` is a family of growing capacity:
    `Features` (the default), `Forests`, `Networks`, or a function of your own. `kinds` is that of `dci`.

    `study=True` is the published explicitness, whose area lies above the curve's own least loss and is compared with
    that of a straight line from a constant guess: 1 as well for codes that tell nothing to any probe, to be read beside
    the informativeness alone.
    """
    return float(explicit(loss_capacity(codes, factors, probes=probes, kinds=kinds, seed=seed), study).mean())


def explicit(curve: Curve, study: bool = False) -> Array:
    """(K,): the explicitness of each factor."""
    capacity, loss = curve
    floor = loss[-1] if study else 0.0
    area = np.diff(capacity) @ ((loss[1:] + loss[:-1]) / 2 - floor) / (capacity[-1] - capacity[0])
    return 1 - (2 if study else 1) * area


def loss_capacity(
    codes: Any, factors: Any, *, probes: Probes | None = None, kinds: Sequence[str] | None = None, seed: int = 0
) -> Curve:
    """The curve itself. The options are those of `ease_of_use`."""
    pool = codes_and_factors(codes, factors)
    learn, test = pool.split()
    wanted, n = columns(pool.v, kinds_of(pool.v, kinds)), len(learn.z)
    for k, y in enumerate(wanted):
        both_vary(y[:n], y[n:], k)
    found = (Features() if probes is None else probes)(learn.z, np.hstack(wanted)[:n], test.z, seed=seed)
    capacity = np.array([told.capacity for told in found])
    if len(found) < 2 or (np.diff(capacity) <= 0).any():
        raise ValueError(f"A family has two or more probes of growing capacity, got {capacity.tolist()}.")
    parts = np.cumsum([y.shape[1] for y in wanted])[:-1]
    loss = np.array([1 - shares(wanted, np.split(told.predicted, parts, axis=1)) for told in found])
    return Curve(capacity, np.minimum.accumulate(loss.clip(0, 1), axis=0))


def code_size(codes: Any, factors: Any) -> float:
    """The number of factors as a share of the number of codes, S = K / D; 1 if there are no more codes than factors.

    Codes that do not vary count like others: a user has to look at them.
    """
    z, v = codes_and_factors(codes, factors)
    return min(1.0, v.shape[1] / z.shape[1])


# --- families of probes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Features:
    """Ridge regression on the codes and on ever more random Fourier features of them, of all widths at once.

    Capacity is the logarithm of the number of parameters. The penalty is found on the last fifth of the learned rows.
    """

    sizes: tuple[int, ...] = (0, 8, 32, 128, 512)  #: random features beside the codes
    rows: int = 30_000  #: to learn from, at most

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> list[Told]:
        rng = np.random.default_rng(seed)
        if len(z) > self.rows:
            some = rng.choice(len(z), self.rows, replace=False)
            z, y = z[some], y[some]
        n, d = z.shape
        units, most = Units.of(z), max(self.sizes)
        width = np.sqrt(d) * 2 ** rng.uniform(-1, 2, most)  # of the kernels, in typical distances of two rows
        turn = (rng.standard_normal((d, most)) / width).astype(np.float32)
        phase = rng.uniform(0, 2 * np.pi, most).astype(np.float32)

        def features(part: Array) -> Array:
            x = units(part)
            return np.hstack([np.ones((len(x), 1), np.float32), x, np.cos(x @ turn + phase)])

        cut, phi, mean = n - n // 5, features(z), y.mean(0)
        off = y - mean
        gram, cross = phi[:cut].T @ phi[:cut], phi[:cut].T @ off[:cut]
        told = []
        for size in sorted(self.sizes):
            p = 1 + d + size
            scale, axes = np.linalg.eigh(gram[:p, :p].astype(np.float64))
            on, held = axes.T @ cross[:p], phi[cut:, :p] @ axes
            penalties = scale[-1] * 10.0 ** np.arange(-8, 0)
            fits = [axes @ (on / (scale.clip(0) + penalty)[:, None]) for penalty in penalties]
            errors = [np.square(held @ (axes.T @ w) - off[cut:]).sum(0) for w in fits]
            w = np.take_along_axis(np.array(fits), np.argmin(errors, 0)[None, None], 0)[0]
            parts = [features(z_test[i : i + ROWS])[:, :p] @ w for i in range(0, len(z_test), ROWS)]
            told.append(Told(float(np.log(p)), np.concatenate(parts) + mean))
        return told


@dataclass(frozen=True, kw_only=True)
class Forests:
    """Random forests of growing depth, which is their capacity."""

    depths: tuple[int, ...] = (1, 2, 4, 8, 16)  #: of the trees
    trees: int = 20  #: in each forest

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> list[Told]:
        from sklearn.ensemble import RandomForestRegressor

        told = []
        for depth in sorted(self.depths):
            forest = RandomForestRegressor(n_estimators=self.trees, max_depth=depth, random_state=seed).fit(z, y)
            told.append(Told(float(depth), forest.predict(z_test).reshape(len(z_test), -1)))
        return told


@dataclass(frozen=True, kw_only=True)
class Networks:
    """Networks of one layer of growing width. Capacity is the logarithm of the number of parameters."""

    widths: tuple[int, ...] = (1, 4, 16, 64, 256)  #: hidden units
    epochs: int = 30  #: at most

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> list[Told]:
        d, m = z.shape[1], y.shape[1]
        return [
            Told(
                float(np.log(width * (d + 1) + (width + 1) * m)),
                Network(hidden=(width,), epochs=self.epochs)(z, y, z_test, seed),
            )
            for width in sorted(self.widths)
        ]


# --- metrics ---------------------------------------------------------------------------------------------------------

DCI_ES = Reference(
    key="eastwood2023dcies",
    authors="Eastwood, Cian and Nicolicioiu, Andrei Liviu and von Kügelgen, Julius and Kekić, Armin and "
    "Träuble, Frederik and Dittadi, Andrea and Schölkopf, Bernhard",
    title="DCI-ES: An Extended Disentanglement Framework with Connections to Identifiability",
    venue="International Conference on Learning Representations",
    year=2023,
    url="https://arxiv.org/abs/2210.00364",
)


@dataclass(frozen=True, kw_only=True)
class EaseOfUse(Metric):
    """Ease of use, the E of DCI-ES: how much of the factors can small probes tell from the codes?

    Misses: where a factor is, which is what the D and C of DCI ask. It depends on the family of probes: linear maps are
    easy to random features and hard to trees.
    """

    study: bool = False  #: the published area, which is as large for codes that tell nothing as for perfect ones

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = DCI_ES
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_dci_es.py"),)

    def measure(self, probe: Probe) -> float:
        kinds = [factor.kind for factor in probe.world.factors]
        return ease_of_use(*probe.pool, kinds=kinds, study=self.study, seed=probe.seed)


@dataclass(frozen=True, kw_only=True)
class CodeSize(Metric):
    """Size, the S of DCI-ES: how many codes are there for each factor?

    Misses: everything about what is in the codes.
    """

    compares: ClassVar[bool] = False
    resamples = False
    reference: ClassVar[Reference] = DCI_ES
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("closed-form", "tests/metrics/test_dci_es.py"),)

    def measure(self, probe: Probe) -> float:
        return code_size(*probe.pool)
