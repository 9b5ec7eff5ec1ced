"""Disentanglement, completeness and informativeness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Unmeasurable, as_array, codes_and_factors
from whence.metrics.boosting import Boosting, Learned
from whence.metrics.metric import Metric, Part
from whence.metrics.probe import Probe
from whence.metrics.targets import both_vary, kinds_of, labels, r_squared, target


class Importance(Protocol):
    """Learns one factor from codes. y has whole numbers (N,) for classes, or numbers (N, M) to regress."""

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Learned: ...


class DCINumbers(NamedTuple):
    disentanglement: float
    completeness: float
    informativeness: float


class Structure(NamedTuple):
    """What a matrix of importances says."""

    disentanglement: float
    completeness: float
    of_codes: Array  #: (D,): disentanglement of each code
    of_factors: Array  #: (K,): completeness of each factor


class Importances(NamedTuple):
    matrix: Array  #: (D, K): of each code for each factor; columns sum to 1
    informativeness: Array  #: (K,)


def dci(
    codes: Any,
    factors: Any,
    *,
    importance: Importance | None = None,
    kinds: Sequence[str] | None = None,
    study: bool = False,
    seed: int = 0,
) -> DCINumbers:
    r"""How concentrated are the importances R of codes for factors, by code and by factor, and how much do codes tell?

    .. math::
        D = \sum_j \rho_j \Bigl( 1 - H_K\bigl(\tfrac{R_{j \cdot}}{\sum_k R_{jk}}\bigr) \Bigr), \quad
        C = \sum_k \rho_k \Bigl( 1 - H_D\bigl(\tfrac{R_{\cdot k}}{\sum_j R_{jk}}\bigr) \Bigr), \quad
        I = \frac{1}{K} \sum_k \Bigl( 1 - \frac{E_k}{E_k^0} \Bigr)

    with entropies to the base K and D, and each code (factor) weighted by its share :math:`\rho` of R. Codes that do
    not vary are not counted in D, unless fewer than two do.
    :math:`E_k` is the error on the test rows (the last third) of a learner fitted on the others, :math:`E_k^0` that of
    a constant guess: I is R² for quantities, and for classes the share of a constant guess's mistakes that codes avoid.

    `importance` learns one factor and says what its codes were worth: `Boosting` (the default), `ExactBoosting`,
    `Forest`, `Lasso`, or a function of your own. `kinds` says what each factor is, as in `Factor.kind`: categorical
    ones are classified, the others regressed. Without it, factors of more than 10 values are taken as ordinal.

    `study=True` classifies every factor, value by value, counts every code, and I is the plain accuracy, as in
    disentanglement_lib: with many ordered values, trees then fit noise, and all codes seem important.
    """
    matrix, informativeness = importances(codes, factors, importance=importance, kinds=kinds, study=study, seed=seed)
    z = as_array(codes)
    varies = (z != z[:1]).any(0)
    d, c, _, _ = dci_from(matrix if study or varies.sum() < 2 else matrix[varies])
    return DCINumbers(d, c, float(informativeness.mean()))


def importances(
    codes: Any,
    factors: Any,
    *,
    importance: Importance | None = None,
    kinds: Sequence[str] | None = None,
    study: bool = False,
    seed: int = 0,
) -> Importances:
    """The matrix behind DCI, and how well each factor is told. The options are those of `dci`."""
    learner: Importance = importance or (ExactBoosting() if study else Boosting())
    pool = codes_and_factors(codes, factors)
    z, v = pool
    kind = ("categorical",) * v.shape[1] if study else kinds_of(v, kinds)
    learn, test = pool.split()
    ys = [labels(v[:, [k]])[:, 0] if kind[k] == "categorical" else target(v[:, k], kind[k]) for k in range(v.shape[1])]
    found, told = np.zeros((z.shape[1], len(ys))), np.zeros(len(ys))
    for k, y in enumerate(ys):
        y, y_test = y[: len(learn.z)], y[len(learn.z) :]
        both_vary(y, y_test, k)
        if y.ndim == 1:  # a learner is asked for the classes there are
            seen, y = np.unique(y, return_inverse=True)
            worth, predicted = learner(learn.z, y, test.z, seed=seed)
            told[k] = accuracy(seen[predicted], y_test, seen[np.bincount(y).argmax()], study)
        else:
            worth, predicted = learner(learn.z, y, test.z, seed=seed)
            told[k] = max(r_squared(predicted, y_test), 0)
        found[:, k] = shares(worth, k)
    return Importances(found, told)


def accuracy(predicted: Array, truth: Array, usual: int, study: bool) -> float:
    """Of classes: plain in the study's terms, else the share of a constant guess's mistakes that were not made."""
    wrong = float((predicted != truth).mean())
    return 1 - wrong if study else max(1 - wrong / float((truth != usual).mean()), 0)


def shares(worth: Any, k: int) -> Array:
    """Importances that sum to 1, or zeros if no code is of any."""
    found = np.asarray(worth, np.float64)
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise ValueError(
            f"Importances are finite and not negative, got {found} for factor {k}. Take magnitudes, or clip at 0."
        )
    return found / (found.sum() or 1)


def dci_from(importance: Any) -> Structure:
    """Disentanglement and completeness of a (D, K) matrix of importances, which no scale changes.

    A code (or factor) without any importance counts 0; its weight is 0 unless the whole matrix is zero.
    """
    r = as_array(importance).astype(np.float64)
    if not (np.isfinite(r).all() and (r >= 0).all()):
        raise ValueError("Importances are finite and not negative. Take magnitudes, or clip at 0.")
    d, k = r.shape
    if d < 2 or k < 2:
        raise Unmeasurable(f"Importances are shared among two or more codes and two or more factors, got {d} and {k}.")
    of_codes, of_factors = concentration(r), concentration(r.T)
    return Structure(average(of_codes, r.sum(1)), average(of_factors, r.sum(0)), of_codes, of_factors)


def concentration(r: Array) -> Array:
    """1 - entropy of each row's shares, to the base of their number: 1 if one has all, 0 if all have the same."""
    from scipy.special import entr

    total = r.sum(1, keepdims=True)
    p = np.divide(r, total, out=np.full_like(r, 1 / r.shape[1]), where=total > 0)
    return np.clip(1 - entr(p).sum(1) / np.log(r.shape[1]), 0, 1)


def average(each: Array, weight: Array) -> float:
    return float(np.average(each, weights=weight) if weight.sum() > 0 else each.mean())


# --- learners --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ExactBoosting:
    """scikit-learn's GradientBoosting as in disentanglement_lib, but seeded. Minutes where `Boosting` takes seconds."""

    rounds: int = 100  #: trees for each class

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Learned:
        from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

        kind = GradientBoostingClassifier if y.ndim == 1 else GradientBoostingRegressor
        models = [kind(n_estimators=self.rounds, random_state=seed).fit(z, column) for column in columns(y)]
        return together(models, y, z_test)


@dataclass(frozen=True, kw_only=True)
class Forest:
    """scikit-learn's random forest, one of the two learners of Eastwood and Williams; every split sees all codes."""

    trees: int = 50  #: in the forest
    leaf: int = 5  #: rows in a leaf, at least: deeper trees find noise important

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Learned:
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        kind = RandomForestClassifier if y.ndim == 1 else RandomForestRegressor
        options = {"n_estimators": self.trees, "min_samples_leaf": self.leaf, "max_features": 1.0, "random_state": seed}
        return together([kind(**options).fit(z, column) for column in columns(y)], y, z_test)


@dataclass(frozen=True, kw_only=True)
class Lasso:
    """Linear regression with few codes, the other learner of Eastwood and Williams: a code is important as far as it
    moves the prediction, |coefficient| times standard deviation. The penalty is found by cross-validation. Classes are
    regressed as indicators. A code that is related to a factor, but not linearly, has no importance.
    """

    folds: int = 5  #: of the cross-validation

    def __call__(self, z: Array, y: Array, z_test: Array, seed: int = 0) -> Learned:
        from sklearn.linear_model import LassoCV

        spread = z.std(0)
        spread = np.where(np.ptp(z, axis=0) > 0, spread, 1)
        unit, unit_test = (z - z.mean(0)) / spread, (z_test - z.mean(0)) / spread
        numbers = np.eye(y.max() + 1)[y] if y.ndim == 1 else y
        models = [LassoCV(cv=self.folds).fit(unit, column) for column in numbers.T]
        told = np.stack([model.predict(unit_test) for model in models], 1)
        worth = np.sum([np.abs(model.coef_) for model in models], 0)
        return Learned(worth, told.argmax(1) if y.ndim == 1 else told)


def columns(y: Array) -> list[Array]:
    """What a model of one target learns: classes, or each number."""
    return [y] if y.ndim == 1 else list(y.T)


def together(models: Sequence[Any], y: Array, z_test: Array) -> Learned:
    told = [model.predict(z_test) for model in models]
    worth = np.mean([model.feature_importances_ for model in models], 0)
    return Learned(worth, told[0] if y.ndim == 1 else np.stack(told, 1))


# --- metrics ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DCI(Metric):
    """DCI: does each code matter for one factor, each factor for one code, and how much do codes tell of factors?

    Disentanglement notices codes that mix factors, completeness factors that are spread over codes, informativeness
    factors that are missing.

    Misses: when a factor is missing from the codes, disentanglement and completeness fall only as far as trees find
    noise important for it. And importance is that of one kind of learner: trees do not care whether a code is a curved
    map of its factor.
    """

    study: bool = False  #: classify every value with slow exact trees, and report accuracy, as disentanglement_lib does

    importance: ClassVar[Importance | None] = None  #: that of `dci`
    parts: ClassVar[tuple[Part, ...]] = (Part("disentanglement"), Part("completeness"), Part("informativeness"))
    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="eastwood2018framework",
        authors="Eastwood, Cian and Williams, Christopher K. I.",
        title="A Framework for the Quantitative Evaluation of Disentangled Representations",
        venue="International Conference on Learning Representations",
        year=2018,
        url="https://openreview.net/forum?id=By-7dz-AZ",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_dci.py"),)

    def measure(self, probe: Probe) -> DCINumbers:
        kinds = [factor.kind for factor in probe.world.factors]
        return dci(*probe.pool, importance=self.importance, kinds=kinds, study=self.study, seed=probe.seed)


@dataclass(frozen=True, kw_only=True)
class ForestDCI(DCI):
    """DCI by random forests: does each code matter for one factor, and each factor for one code?

    Misses: as DCI. Forests find noise more important than boosted trees do.
    """

    importance: ClassVar[Importance | None] = Forest()


@dataclass(frozen=True, kw_only=True)
class LassoDCI(DCI):
    """DCI by linear regression: does each code matter for one factor, and each factor for one code?

    Misses: as DCI, and every relation that is not linear.
    """

    importance: ClassVar[Importance | None] = Lasso()
