"""UMNI: linear mixings undone from interventions on unknown sets of latents."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence.descend import Run
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Method
from whence.methods.score_based import _multinode as multinode
from whence.methods.score_based._multinode import Blocks, Flag
from whence.methods.score_based._sources import flat, sources
from whence.representation import Representation, as_given
from whence.scm import topological_order
from whence.scores import ScoreEstimator, SingleGaussian, Support
from whence.views import Environments, Spec, View

LARGEST = 14  #: environments: all 2^14 sets of them are looked at
FINALISTS = 5  #: models whose likelihood is maximised before the best is taken
BLOCKS = 32  #: of points, left out in turn
RARE = 1e-3  #: a model that fits this rarely is said not to fit


class UnmixedCode(Representation):
    r"""Latents :math:`z = H (x - \mu)` in causal order, which environment hits which, and a linear model of them."""

    def __init__(self, spec: Spec, dims: int) -> None:
        super().__init__(spec, dims)
        d = int(np.prod(spec.shape))
        self.register_buffer("mean", torch.zeros(d))
        self.register_buffer("encoder", torch.zeros(dims, d))
        self.register_buffer("decoder", torch.zeros(d, dims))
        self.register_buffer("weights", torch.zeros(dims, dims))
        self.register_buffer("confidence", torch.zeros(dims, dims))
        self.register_buffer("hits", torch.zeros(dims, spec.environments, dtype=torch.bool))
        self.register_buffer("misfit", torch.zeros(2))

    mean: Tensor
    encoder: Tensor  #: H, (n, d)
    decoder: Tensor  #: (d, n)
    weights: Tensor  #: W[i, j]: the linear effect of latent i on latent j
    confidence: Tensor
    hits: Tensor
    misfit: Tensor  #: likelihood ratio against free Gaussians and its degrees of freedom; zeros for other scores

    def codes(self, x: Tensor) -> Tensor:
        return (x.flatten(1) - self.mean) @ self.encoder.T

    @as_given
    def decode(self, z: Tensor) -> Tensor:
        return (z @ self.decoder.T + self.mean).unflatten(1, self.spec.shape)

    def caused(self, z: Tensor) -> Tensor:
        """(B, n): of each latent what its causes make of it."""
        return z @ self.weights

    @property
    def graph(self) -> Tensor:
        """A[i, j]: the confidence that latent i causes latent j; above one half it counts as an edge."""
        return self.confidence

    @property
    def intervention_matrix(self) -> Tensor:
        """D[i, m] is one if environment m intervenes on latent i."""
        return self.hits.float()

    @property
    def targets(self) -> tuple[frozenset[int], ...]:
        """The latents that each environment intervenes on."""
        return tuple(frozenset(column.nonzero()[:, 0].tolist()) for column in self.hits.T)

    def do(self, x: Any, do: Mapping[int, float | Callable[[Tensor], Tensor]]) -> Any:
        """What x would have been, had latents been set otherwise: `{latent: value}`, or a function of its value.

        Noise is abducted with the linear effects of the observational environment. What of x the code does not hold
        stays as it was.
        """
        for i in do:
            if not 0 <= i < self.dims:
                raise IndexError(f"Latents are numbered 0 to {self.dims - 1}, got {i}.")

        def acted(self: UnmixedCode, x: Tensor) -> Tensor:
            self.check(x)
            z = self.codes(x)
            noise = z - self.caused(z)
            new = z.clone()
            for i in topological_order(self.graph > 0.5):
                new[:, i] = noise[:, i] + self.caused(new)[:, i]
                if i in do:
                    how = do[i]
                    new[:, i] = how(new[:, i]) if callable(how) else float(how)
            return x + ((new - z) @ self.decoder.T).unflatten(1, self.spec.shape)

        return as_given(acted)(self, x)


class Unmixed(NamedTuple):
    """What is found in the coordinates u of the support, latents in causal order."""

    H: Tensor  #: (n, n)
    hits: Tensor  #: (n, M)
    statistic: Tensor  #: (n, n), lower triangular: [i, j] grows with the evidence that j causes i
    critical: float  #: where it becomes an edge
    misfit: tuple[float, float] = (0.0, 0.0)
    closed: bool = False  #: edges are those of a transitive closure


@dataclass(frozen=True, kw_only=True)
class UMNI(Method):
    r"""Interventional environments of which nobody says what they intervene on, and each may hit several latents.

    .. math:: x = G z, \qquad s_0 - s_m = \sum_i D_{im}\, \delta_i, \qquad D \in \{0, 1\}^{n \times M}

    where :math:`\delta_i`, the score difference of hitting latent i alone, has components along i and its causes only.

    Departures from the paper, which searches integer combinations of environments, accepts the first whose score
    difference has rank one, and uses fixed thresholds: (1) the columns of the decoder are found from the last latent
    to the first, one eigenproblem for each of the 2^M sets of environments that may hit it, with a beam; this gives
    the intervention matrix itself. (2) With Gaussian scores everything is maximum likelihood for linear mechanisms:
    hits, order and encoder by likelihood ratios, and edges by a Wald test that carries the uncertainty of the encoder
    (its variance comes from blocks of rows, so noise may have any distribution). (3) With other scores the same
    search runs on their cross moments; hits are told apart by the second moments of the samples.

    Not identified: which latent is which (they come in a causal order), signs and scales; with soft interventions,
    more than a mixture of each latent with its ancestors, so the graph is then the transitive closure. Whether
    interventions are hard cannot be seen in linear models: any soft ones look hard for some other latents.
    """

    latents: int | None = None  #: n; none: the dimensions that observations vary in
    kind: Literal["hard", "soft"] = "hard"  #: of the interventions
    scores: ScoreEstimator | None = None  #: of score differences; none: Gaussian, by likelihood
    examples: int = 100_000  #: observations to look at in each environment, at most
    beam: int = 10  #: partial models kept in the search
    level: float = 0.01  #: probability that there is any false edge

    needs: ClassVar[type[View]] = Environments
    reference: ClassVar[Reference] = Reference(
        key="varici2024linear",
        authors='Var{\\i}c{\\i}, Burak and Acart{\\"u}rk, Emre and Shanmugam, Karthikeyan and Tajer, Ali',
        title="Linear Causal Representation Learning from Unknown Multi-node Interventions",
        venue="Advances in Neural Information Processing Systems",
        year=2024,
        url="https://arxiv.org/abs/2406.05937",
    )
    guarantee: ClassVar[Guarantee] = Guarantee(
        "hard interventions: latents up to order and scale, the graph and the intervention matrix; "
        "soft ones: latents up to mixtures with their ancestors, the transitive closure and the intervention matrix",
        (
            "the mixing is linear and injective",
            "the intervention matrix has rank n",
            "an intervened latent has the same new mechanism in every environment that hits it",
            "interventions change mechanisms generically (no accidental cancellation)",
            "causal mechanisms are linear, if scores are Gaussian",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_umni.py"),
        Evidence("benchmarked", "benchmarks/umni.md"),
    )

    @property
    def promise(self) -> Guarantee:
        hard = self.kind == "hard"
        found = (
            "latents up to order and scale, the graph"
            if hard
            else ("latents up to mixtures with their ancestors, the transitive closure of the graph")
        )
        own = "interventions are hard: they cut a latent from its causes" if hard else "interventions may be soft"
        return Guarantee(
            f"{found} and the intervention matrix",
            (*self.guarantee.assumes, own),
            f"unknown multi-node {self.kind} interventions under a linear mixing (Varıcı et al. 2024)",
        )

    def __post_init__(self) -> None:
        if self.kind not in ("hard", "soft"):
            raise ValueError(f"Interventions are hard or soft, got kind={self.kind!r}.")
        if not 0 < self.level < 1:
            raise ValueError(f"level is a probability between 0 and 1, got {self.level}.")
        if self.beam < 1 or (self.latents is not None and self.latents < 1):
            raise ValueError(f"beam and latents are at least 1, got beam={self.beam} and latents={self.latents}.")

    def skeleton(self, spec: Spec) -> UnmixedCode:
        return UnmixedCode(spec, self.latents or spec.latents or spec.environments)

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"UMNI needs Environments, got {type(data).__name__}.")

        x = [flat(source) for source in sources(data, self.examples, run)]
        support = Support.find(x, self.latents)
        self.check(data, support)
        u = [support.project(source) for source in x]
        blocks = Blocks.of(u)
        check_rows(blocks, data, "UMNI")
        white, W = multinode.whiten(blocks.totals[0][0])
        blocks = blocks.under(white)
        scores = (self.scores or SingleGaussian()).within(support)
        if isinstance(scores, SingleGaussian):
            found = self.by_likelihood(blocks, data)
        else:
            found = self.by_moments(u, W, blocks, scores, data, run)
        code = UnmixedCode(data.spec._replace(latents=support.n), support.n)
        code.load_state_dict(state_of(found, blocks, white, support))
        return code

    def check(self, data: Environments, support: Support) -> None:
        n, m = support.n, len(data.told)
        if m < n:
            raise ValueError(
                f"UMNI needs at least as many interventional environments as latents, got {m} for {n} latents "
                f"({support.spectrum}). Pass more environments, or fewer latents."
            )
        if m > LARGEST:
            raise ValueError(
                f"UMNI looks at every set of environments, so it takes at most {LARGEST} of them, got {m}. "
                "Leave some out: as many as latents are enough."
            )
        soft = [name for name, env in zip(data.names, data.told, strict=True) if env.kind == "soft"]
        if soft and self.kind == "hard":
            raise ValueError(
                f"UMNI was asked to use hard interventions, and the view says that {', '.join(soft)} is soft. "
                "Use UMNI(kind='soft')."
            )

    # --- two ways ----------------------------------------------------------------------------------------------------

    def by_likelihood(self, blocks: Blocks, data: Environments) -> Unmixed:
        from scipy.stats import chi2

        T, count = blocks.totals
        n = T.shape[-1] - 1

        def fits(flag: Flag) -> bool:
            return bool(chi2.sf(flag.cost, multinode.freedom(n, flag.hits)) > RARE)

        best = self.likeliest(blocks, fits, independent=True)
        if not fits(best):
            other = self.likeliest(blocks, fits, independent=False)
            if other.cost < best.cost - chi2.isf(RARE, 2 * n):
                best = other
        seen = multinode.effects(T, count, best.L, best.hits)
        doubtful = chi2.sf(seen, torch.arange(n) + 2) * 2 ** len(data.told) > RARE
        self.check_hits(torch.where(torch.as_tensor(doubtful)[:, None], 0.0, best.hits), data)
        found = by_model(blocks, best, self.level, soft=self.kind == "soft")
        if chi2.sf(*found.misfit) < RARE:
            warnings.warn(
                f"The data do not look like linear causal mechanisms under a linear mixing with {n} latents: the "
                f"likelihood ratio against free covariances is {found.misfit[0]:.4g}, expected {found.misfit[1]:.0f}. "
                "For other mechanisms use scores that are not Gaussian.",
                stacklevel=2,
            )
        return found

    def likeliest(self, blocks: Blocks, fits: Callable[[Flag], bool], *, independent: bool) -> Flag:
        """The model of largest likelihood among the finalists of the search; the first that fits is taken."""
        T, count = blocks.totals
        best: Flag | None = None
        for flag in multinode.flags_by_likelihood(T, count, self.beam, independent=independent)[:FINALISTS]:
            flag = multinode.refine(blocks, flag.L, flag.hits)
            while not torch.equal(hits := multinode.likeliest_hits(T, count, flag.L), flag.hits):
                if independent and torch.linalg.matrix_rank(hits) < len(hits):
                    break
                better = multinode.refine(blocks, flag.L, hits)
                if better.cost >= flag.cost:
                    break
                flag = better
            best = flag if best is None or flag.cost < best.cost else best
            if fits(best):
                break
        assert best is not None
        return best

    def by_moments(
        self, u: list[Tensor], W: Tensor, blocks: Blocks, scores: ScoreEstimator, data: Environments, run: Run
    ) -> Unmixed:
        T, count = blocks.totals
        n = T.shape[-1] - 1
        points = u[0].double().tensor_split(min(BLOCKS, len(u[0])))
        each, error = cross_moments(scores, u, points, run)
        back = torch.linalg.inv(W)
        each, error = (torch.einsum("ia,...ij,jb->...ab", back, a, back) for a in (each, error))
        weight = torch.tensor([len(part) for part in points]).to(each) / len(u[0])
        R = torch.einsum("b,bmkij->mkij", weight, each)
        self.check_span(R, data)
        flag = multinode.flags_by_moments(R, self.beam)[0]
        hits = multinode.likeliest_hits(T, count, flag.L)
        if torch.linalg.matrix_rank(hits) < n:
            hits = flag.hits
        self.check_hits(hits, data)

        soft = self.kind == "soft"
        return by_cross_moments(each, error, weight, blocks, hits, self.level, soft=soft, told=scores.truth)

    # --- what must hold ----------------------------------------------------------------------------------------------

    def check_hits(self, hits: Tensor, data: Environments) -> None:
        n = len(hits)
        idle = [name for name, column in zip(data.names, hits.T, strict=True) if not column.any()]
        if (rank := int(torch.linalg.matrix_rank(hits))) < n:
            raise ValueError(
                f"UMNI needs an intervention matrix of rank {n}, the number of latents, got rank {rank}: "
                f"{deficiency(hits, idle, data)}. Add environments that hit other sets of latents."
            )
        if idle:
            warnings.warn(
                f"No difference from {data.control} is seen in {', '.join(idle)}; it tells UMNI nothing.", stacklevel=2
            )

    def check_span(self, R: Tensor, data: Environments) -> None:
        """Score differences that are told without error span n dimensions, or they do not."""
        n = R.shape[-1]
        value, vector = torch.linalg.eigh(torch.einsum("mkii->mk", R))
        floor = torch.finfo(torch.float32).eps ** 2 * float(value[-1]) * len(value)
        if (rank := int((value > floor).sum())) < n:
            among = [name for name, w in zip(data.names, vector[:, 0].abs(), strict=True) if w > 0.1 / len(value)]
            how = "are linearly dependent" if len(among) > 1 else "are zero"
            raise ValueError(
                f"UMNI needs an intervention matrix of rank {n}, the number of latents, got score differences that "
                f"span {rank} dimensions: those of {', '.join(among)} {how}. "
                "Add environments that hit other sets of latents."
            )


def state_of(found: Unmixed, blocks: Blocks, white: Tensor, support: Support) -> dict[str, Tensor]:
    """The numbers of an `UnmixedCode`: latents of unit variance where nothing is done, effects of the edges alone."""
    n = len(found.H)
    H = found.H / found.H.norm(dim=1, keepdim=True)  # unit variance: u is white in the observational environment
    confidence = torch.sigmoid((found.statistic - found.critical) / 2).T.triu(1)
    if found.closed:
        confidence = strongest_path(confidence)
    P, _ = multinode.pooled(*blocks.under(multinode.beside_one(H)).totals, found.hits)
    weights = torch.zeros(n, n).to(H)
    for i, T in enumerate(P[:, 0]):
        causes = (confidence[:, i] > 0.5).nonzero()[:, 0]
        seen = torch.cat([torch.zeros(1, dtype=torch.long), causes + 1])
        weights[causes, i] = torch.linalg.solve(T[seen][:, seen], T[seen, i + 1])[1:]
    H = H @ white[1:, 1:]
    decoder = support.basis @ torch.linalg.inv(H)
    sign = torch.where(decoder.gather(0, decoder.abs().argmax(0, keepdim=True))[0] < 0, -1.0, 1.0).to(H)
    return {
        "mean": support.lift(-torch.linalg.solve(white[1:, 1:], white[1:, 0])).float(),
        "encoder": (sign[:, None] * H @ support.basis.T).float(),
        "decoder": (decoder * sign).float(),
        "weights": (sign[:, None] * weights * sign).float(),
        "confidence": confidence.float(),
        "hits": found.hits.bool(),
        "misfit": torch.tensor(found.misfit),
    }


def by_model(blocks: Blocks, flag: Flag, level: float, *, soft: bool) -> Unmixed:
    """Latents and evidence for edges from linear mechanisms of largest likelihood."""
    T, count = blocks.totals
    n = T.shape[-1] - 1
    model = multinode.mechanisms(T, count, flag.L, flag.hits)
    se, inflation = multinode.uncertainty(blocks, model, flag.hits)
    ratio = torch.where(se > 0, model.B / se.clamp_min(1e-300), 0.0).square()
    H = model.H
    if soft:
        free = H - model.B @ H
        change = H[:, :, None] * H[:, None] / model.v[:, 1, None, None]
        change = change - free[:, :, None] * free[:, None] / model.v[:, 0, None, None]
        H = multinode.most_changed(change @ change)
    misfit = flag.cost / inflation, float(multinode.freedom(n, flag.hits))
    return Unmixed(H, flag.hits, ratio, critical(level, n, blocks.rows.shape[1]), misfit, soft)


def by_cross_moments(
    each: Tensor, error: Tensor, weight: Tensor, blocks: Blocks, hits: Tensor, level: float, *, soft: bool, told: bool
) -> Unmixed:
    """Latents and evidence for edges from cross moments (b, M, M, n, n) of score differences on blocks of points of
    these weights, and those of their errors, with hits in causal order. `told`: they have no errors."""
    T, count = blocks.totals
    n = T.shape[-1] - 1
    R = torch.einsum("b,bmkij->mkij", weight, each)

    def encoder(R: Tensor, T: Tensor) -> Tensor:
        if soft:
            return multinode.most_changed(multinode.single(R, hits))
        return multinode.mechanisms(T, count, multinode.flag_of(R, hits), hits).H

    H = encoder(R, T)
    b = min(len(each), blocks.rows.shape[1])
    without = []
    for i in range(b):
        left = weight.clone()
        left[i] = 0
        rows = blocks.rows.clone()
        rows[:, i::b] = 0
        part = Blocks(blocks.second, rows)
        new = encoder(torch.einsum("b,bmkij->mkij", left / left.sum(), each), part.totals[0])
        without.append(new * torch.where((new * H).sum(1, keepdim=True) < 0, -1.0, 1.0))
    ratio = multinode.leaks(H, multinode.single(R, hits), torch.stack(without), multinode.single(error, hits))
    if told:
        return Unmixed(H, hits, ratio.tril(-1), critical(level, n, b, tests=2), closed=soft)
    above = ratio[torch.ones(n, n).triu(1).bool()]  # a latent's score difference has no part along later ones
    unit = float(above.square().mean().sqrt()) if len(above) else 1.0
    squares = (ratio.clamp_min(0) / unit).square().tril(-1)
    return Unmixed(H, hits, squares, critical(level, n, len(above) + 1), closed=soft)


def critical(level: float, n: int, b: int, tests: int = 1) -> float:
    """Of a squared estimate over its variance, which is of b - 1 degrees, for all pairs of latents (Bonferroni)."""
    from scipy.stats import t as student

    return float(student.isf(level / max(n * (n - 1) * tests, 1), max(b - 1, 1))) ** 2


def check_rows(blocks: Blocks, data: Environments, method: str) -> None:
    """Every environment has a density in the support."""
    (T, count), names = blocks.totals, (data.control, *data.names)
    n = T.shape[-1] - 1
    for name, rows in zip(names, count.tolist(), strict=True):
        if rows < n + 2:
            raise ValueError(
                f"{method} needs more than {n + 1} observations of {n} latents, got {rows:.0f} in {name}. "
                "Leave that environment out, or ask for fewer latents."
            )
    cov = T[:, 1:, 1:] - T[:, 1:, :1] * T[:, :1, 1:]
    W = torch.linalg.inv(torch.linalg.cholesky(torch.einsum("g,gij->ij", count / count.sum(), cov)))
    value = torch.linalg.eigvalsh(W @ cov @ W.T)
    for name, least in zip(names, value[:, 0] / value[:, -1], strict=True):
        if least < n * torch.finfo(torch.float32).eps:
            raise ValueError(
                f"Every environment needs a density in the {n} dimensions of the support, and {name} varies in fewer: "
                "an intervention that fixes a value (do) has no score. Leave it out, or use interventions with noise."
            )


def cross_moments(
    scores: ScoreEstimator, u: list[Tensor], points: tuple[Tensor, ...], run: Run
) -> tuple[Tensor, Tensor]:
    """(b, M, M, n, n) on blocks of points, and those of the estimates' error, (M, M, n, n).

    Learned scores are fitted on either half of the samples: products of one half's with the other's have no bias
    of squares, and their difference is the error.
    """
    if scores.truth:
        told = scores.fit(u, run=run)
        moments = torch.stack([told.cross_moments(part) for part in points])
        return moments, torch.zeros_like(moments[0])
    one, two = (scores.fit([rows[half::2] for rows in u], run=run) for half in (0, 1))

    def products(a: Tensor, b: Tensor) -> Tensor:
        return torch.einsum("mbi,kbj->mkij", a, b) / a.shape[1]

    crossed, error = [], torch.zeros(())
    for part in points:
        a, b = one.differences(part).double(), two.differences(part).double()
        both = products(a, b)
        crossed.append((both + both.permute(1, 0, 3, 2)) / 2)
        error = error + products(a - b, a - b) / 4 * (len(part) / len(u[0]))
    return torch.stack(crossed), error


def strongest_path(confidence: Tensor) -> Tensor:
    """Of each pair the confidence in the weakest edge of the best path."""
    best = confidence.clone()
    for k in range(len(best)):
        best = torch.maximum(best, torch.minimum(best[:, k, None], best[None, k]))
    return best


def deficiency(hits: Tensor, idle: list[str], data: Environments) -> str:
    """Why hits are rank-deficient."""
    if idle:
        return f"no difference from {data.control} is seen in {', '.join(idle)}"
    same: dict[tuple[float, ...], list[str]] = {}
    for name, column in zip(data.names, hits.T.tolist(), strict=True):
        same.setdefault(tuple(column), []).append(name)
    if equal := [" and ".join(names) for names in same.values() if len(names) > 1]:
        return f"{'; '.join(equal)} hit the same latents"
    if not hits.any(1).all():
        return "some latents are hit in no environment, as far as the data show"
    if len(hits.unique(dim=0)) < len(hits):
        return "some latents are only hit together"
    return "target sets are linearly dependent"
