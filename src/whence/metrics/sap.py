"""Separated attribute predictability: does one code predict a factor, and the next best one much worse?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from whence.evidence import Evidence, Reference
from whence.metrics.arrays import Array, Codes, codes_and_factors
from whence.metrics.boosting import cells
from whence.metrics.graphs import correlations
from whence.metrics.groups import Units
from whence.metrics.metric import Metric
from whence.metrics.probe import Probe
from whence.metrics.targets import both_vary, labels


def sap(
    codes: Any, factors: Any, *, continuous: bool = False, inactive: float = 0.0, bins: int = 20, study: bool = False
) -> float:
    r"""Mean over factors of the gap between the two codes that predict it best, each on its own.

    .. math:: \frac{1}{K} \sum_k \bigl( S_{j^{(k)} k} - \max_{j \ne j^{(k)}} S_{jk} \bigr)

    S is that of `sap_scores`, which has the same options. A single code has gap S.
    """
    return gap(sap_scores(codes, factors, continuous=continuous, inactive=inactive, bins=bins, study=study))


def gap(scores: Array) -> float:
    """Mean over columns of the greatest less the second greatest, which is 0 where there is but one row."""
    ranked = np.sort(np.vstack([scores, np.zeros_like(scores[:1])]), axis=0)
    return float((ranked[-1] - ranked[-2]).mean())


def sap_scores(
    codes: Any, factors: Any, *, continuous: bool = False, inactive: float = 0.0, bins: int = 20, study: bool = False
) -> Array:
    r"""(D, K): how well each code predicts each factor on its own.

    Discrete factors: the balanced accuracy of thresholds between a code's values, which cut it into one interval a
    class, in the order of the classes' means; the best ones on the first two thirds of the rows, tried on the others,
    and rescaled from chance, 0, to best, 1. A factor whose values hardly recur is cut into `bins` classes.
    `continuous=True`: the squared correlation, on all rows. Codes whose standard deviation is at most `inactive` times
    the largest one count 0, as do all that do not vary.

    `study=True`: plain accuracy, not rescaled, of a linear support vector machine (C = .01, balanced) on codes in their
    own units, as in disentanglement_lib. It falls with the scale of a code, cannot tell the middle classes of a code of
    many values, and gives a dead code the share of one class. Continuous codes of variance up to 1e-12 count 0 there.
    """
    pool = codes_and_factors(codes, factors)
    z, v = pool
    spread = Units.of(z).spread
    if continuous:
        for k, column in enumerate(v.T):
            both_vary(column, column, k)
        scores = np.square(correlations(z, v).r)
    else:
        scores = by_machine(pool, bins) if study else by_thresholds(pool, bins)
    if study:  # disentanglement_lib@86a644d (sap_score.py): absolute, and in the continuous score alone
        dead = continuous * (spread**2 * len(z) / max(len(z) - 1, 1) <= 1e-12)
    else:
        dead = spread <= inactive * spread.max()
    return scores * ~dead[:, None]


def by_thresholds(pool: Codes, bins: int) -> Array:
    """(D, K) balanced accuracies on the test rows, 0 for chance."""
    learn, test = pool.split()
    cut = cells(learn.z, test.z, 256)
    n, b = len(learn.z), int(cut.max()) + 1
    scores = np.empty((len(cut), pool.v.shape[1]))
    for k, label in enumerate(labels(pool.v, bins).T):
        y, y_test = label[:n], label[n:]
        both_vary(y, y_test, k)
        c, count = label.max() + 1, np.bincount(y_test)
        each = np.stack([np.bincount(y * b + row, minlength=c * b).reshape(c, b) for row in cut[:, :n]])
        says = intervals(each / np.maximum(each.sum(2, keepdims=True), 1))
        seen = count > 0
        for j, row in enumerate(cut[:, n:]):
            right = np.bincount(y_test, says[j, row] == y_test)[seen] / count[seen]
            scores[j, k] = (right.mean() - 1 / seen.sum()) / (1 - 1 / seen.sum())
    return scores.clip(0)


def intervals(share: Array) -> Array:
    """(D, bins): the class of each bin that catches the largest sum of shares (D, C, bins), if classes lie along the
    bins in the order of their means. Dynamic programming from the lowest bin to the highest, exact."""
    d, c, b = share.shape
    order = np.argsort(share @ np.arange(b), axis=1, kind="stable")
    along = np.take_along_axis(share, order[:, :, None], axis=1)
    before = np.empty((b, d, c), np.intp)
    caught = np.zeros((d, c))
    for i in range(b):
        best = np.maximum.accumulate(caught, axis=1)
        before[i] = np.maximum.accumulate(np.where(caught == best, np.arange(c), 0), axis=1)
        caught = best + along[:, :, i]
    says, rows = np.empty((d, b), np.intp), np.arange(d)
    at = caught.argmax(1)
    for i in reversed(range(b)):
        says[:, i] = order[rows, at]
        at = before[i, rows, at]
    return says


def by_machine(pool: Codes, bins: int) -> Array:
    """(D, K) accuracies in the study's terms."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    learn, test = pool.split()
    n, d = learn.z.shape
    scores = np.empty((d, pool.v.shape[1]))
    for k, label in enumerate(labels(pool.v, bins).T):
        both_vary(label[:n], label[n:], k)
        for j in range(d):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                machine = LinearSVC(C=0.01, class_weight="balanced", random_state=0).fit(learn.z[:, [j]], label[:n])
            scores[j, k] = machine.score(test.z[:, [j]], label[n:])
    return scores


@dataclass(frozen=True, kw_only=True)
class SAP(Metric):
    """Separated attribute predictability: does one code predict each factor, and the next best one much worse?

    Misses: a code may predict several factors. And a factor that needs two codes, such as an angle, looks as bad as one
    that is not there.
    """

    continuous: bool = False  #: squared correlations, instead of thresholds between classes
    inactive: float = 0.0  #: codes whose standard deviation is at most this share of the largest count 0
    bins: int = 20  #: classes of a factor whose values hardly recur
    study: bool = False  #: support vector machines on codes in their own units, as in disentanglement_lib

    saturates: ClassVar[bool] = True
    reference: ClassVar[Reference] = Reference(
        key="kumar2018variational",
        authors="Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash",
        title="Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
        venue="International Conference on Learning Representations",
        year=2018,
        url="https://arxiv.org/abs/1711.00848",
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (Evidence("reference-checked", "tests/metrics/test_sap.py"),)

    def measure(self, probe: Probe) -> float:
        return sap(*probe.pool, continuous=self.continuous, inactive=self.inactive, bins=self.bins, study=self.study)
