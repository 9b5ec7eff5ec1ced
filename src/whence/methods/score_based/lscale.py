"""LSCALE: linear mixings undone from one intervention on each latent."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import comb, log
from typing import ClassVar, Literal

import torch
from torch import Tensor

from whence.descend import Run
from whence.evidence import Evidence, Guarantee, Reference
from whence.methods._method import Method
from whence.methods.score_based import _additive as additive
from whence.methods.score_based import _multinode as multinode
from whence.methods.score_based._additive import Monomials
from whence.methods.score_based._multinode import Blocks
from whence.methods.score_based._sources import flat, sources
from whence.methods.score_based.umni import (
    RARE,
    Unmixed,
    UnmixedCode,
    by_cross_moments,
    by_model,
    check_rows,
    cross_moments,
    state_of,
    strongest_path,
)
from whence.representation import Representation
from whence.scores import ScoreEstimator, SingleGaussian, Support
from whence.views import Environments, Spec, View

BLOCKS = 32  #: of rows in each environment, or of points, left out in turn
SEEN = 0.05  #: a change that chance makes as often as this is not seen
LEAST = 1.5  #: factor of a variance; where there are too few rows to see it, that nothing is seen is no error
HELD = 2**24  #: coordinates that are kept; more of them are computed anew each time
ENOUGH = 4  #: rows for each monomial, at least
SHARED = 0.05  #: squared sine of an angle below which a direction counts as common to two subspaces
LINEAR = 0.1  #: linear mechanisms that would fit no better this often are given up for cubics, these for quartics
MONOMIALS = (170, 210)  #: at most, up to degree three and above: degree four up to 6 latents, three up to 8, two to 16
SEARCHED = 3  #: the degree with which orders are tried, at most
ROUGH = 30  #: times chance that mechanisms differ between environments, beyond which the level is not promised


class CausalCode(UnmixedCode):
    r"""Latents :math:`z = H (x - \mu)`, latent i the one that the i-th target names, and polynomial mechanisms."""

    def __init__(self, spec: Spec, dims: int, degree: int) -> None:
        super().__init__(spec, dims)
        self.basis = Monomials(dims, degree_for(dims, degree))
        self.register_buffer("mechanisms", torch.zeros(dims, len(self.basis)))

    mechanisms: Tensor  #: row i has the coefficients of latent i on the monomials of its causes

    def caused(self, z: Tensor) -> Tensor:
        return self.basis.of(z) @ self.mechanisms.T


def degree_for(n: int, degree: int) -> int:
    """The largest degree of not too many monomials in n variables, up to the one that is asked for."""
    return max(d for d in range(1, degree + 1) if d == 1 or comb(n + d, d) <= MONOMIALS[d > SEARCHED])


@dataclass(frozen=True, kw_only=True)
class LSCALE(Method):
    r"""One intervention on each latent, of which it is told on which latent it is.

    .. math:: x = G z, \qquad s_0 - s_i = H^\top \delta_i, \qquad
              \delta_{ij} \ne 0 \text{ only for } j \in \{i\} \cup \operatorname{pa}(i)

    where :math:`s_i` is the score under the intervention on latent i, and H the left inverse of G. So
    :math:`R_i = \mathbb{E}[(s_0 - s_i)(s_0 - s_i)^\top]` spans the encoder's rows of latent i and its causes, and
    its part along latent j tells whether j is a cause.

    Departures from the paper, which takes eigenvectors of :math:`R_i` and fixed thresholds: (1) without `scores`
    everything is maximum likelihood, in which environments share all mechanisms but one: of linear mechanisms and,
    where interventions are hard and a test says that linear ones do not fit, of polynomials with additive noise. An
    edge is a test of all coefficients that a cause has, whose variance comes from blocks of rows and carries the
    uncertainty of the encoder. What polynomials leave unsaid widens it: a mechanism is the same in all environments
    that do not intervene on its latent, so what its coefficients differ there more than chance measures how wrong the
    model is, without the truth; and polynomials of one degree less say what would be left of an edge, were they of
    any degree. An edge is no surer than the order of its ends (a likelihood ratio), which is that of cubics. (2) With
    `scores`, latents come from their moments as in the paper, in an order that is found from the last latent to the
    first, without trying all; an edge must exceed what the errors of the encoder and of the scores put there. (3) One
    probability of any false edge is the only threshold, whatever the setting. By count it is kept for linear mechanisms
    and small networks (`benchmarks/edge_calibration.md`). A sharp kink, as roots of quadratic forms have, may lead
    cubics to a wrong order, which nothing mends; a warning says when mechanisms are that far from polynomials. With
    more than 6 latents polynomials are cubic at most, nothing says what would last of an edge, and kinks make false
    ones.

    Targets may be told, or only coupled (`Environments` without targets): then the order of the environments is that
    of the latents. One environment of each latent is used; of others on the same latent a warning says that they are
    not, because two interventions on one latent have two mechanisms, and the search knows one.

    Hard or soft is an assumption. A soft intervention that makes :math:`z_i = b_i^\top z_{pa} + e_i` into
    :math:`\tilde b_i^\top z_{pa} + \tilde e_i` is a hard one on :math:`y_i = z_i - \tilde b_i^\top z_{pa}`, and
    elsewhere :math:`y_i = (b_i - \tilde b_i)^\top z_{pa} + e_i` is a linear mechanism of the same causes: all
    environments have the same laws in both models, whatever the noise, so that no method can tell. (Where only
    variances change, y has no edges at all.) What can be seen, and is warned of, is an intervened mechanism that is
    not linear: no linear mixing takes it away.

    Not identified: signs and scales of latents; with soft interventions, more than a mixture of each latent with its
    causes and the transitive closure of the graph. With `full_rank`, soft interventions give the graph itself.
    """

    latents: int | None = None  #: n; none: the dimensions that observations vary in
    kind: Literal["hard", "soft"] = "hard"  #: of the interventions
    scores: ScoreEstimator | None = None  #: of score differences; none: likelihood
    degree: int = 4  #: of polynomial mechanisms, where linear ones do not fit; 1: linear at any rate
    full_rank: bool = False  #: soft interventions on mechanisms complex enough: the graph itself, by ranks
    examples: int = 100_000  #: observations to look at in each environment, at most
    beam: int = 10  #: partial orders kept in the search
    level: float = 0.01  #: probability that there is any false edge

    needs: ClassVar[type[View]] = Environments
    reference: ClassVar[Reference] = SingleGaussian.reference
    guarantee: ClassVar[Guarantee] = Guarantee(
        "hard interventions: latents up to scale and the graph; soft ones: latents up to mixtures with their causes "
        "and the transitive closure; soft ones and score differences of full rank: the graph, and mixtures with those "
        "causes only that cause all effects too",
        (
            "the mixing is linear and injective",
            "every latent is intervened on, alone, and it is told in which environment",
            "interventions really change mechanisms (no accidental cancellation)",
            "without scores: mechanisms are linear, or (hard interventions) polynomials with additive noise",
        ),
    )
    evidence: ClassVar[tuple[Evidence, ...]] = (
        Evidence("closed-form", "tests/methods/test_lscale.py"),
        Evidence("benchmarked", "benchmarks/lscale_table6.md"),
        Evidence("benchmarked", "benchmarks/lscale_table7.md"),
    )

    @property
    def promise(self) -> Guarantee:
        assumes = self.guarantee.assumes
        if self.kind == "hard":
            found = "latents up to scale, and the graph"
            assumes += ("interventions are hard: they cut a latent from its causes",)
        elif self.full_rank:
            found = "the graph, and latents up to mixtures with those causes that cause all of their effects too"
            assumes += ("score differences have full rank: mechanisms are complex enough",)
        else:
            found = "latents up to mixtures with their causes, and the transitive closure of the graph"
        theorem = f"one {self.kind} intervention a latent under a linear mixing (Varıcı et al. 2025)"
        return Guarantee(found, assumes, theorem)

    def __post_init__(self) -> None:
        if self.kind not in ("hard", "soft"):
            raise ValueError(f"Interventions are hard or soft, got kind={self.kind!r}.")
        if not 0 < self.level < 1:
            raise ValueError(f"level is a probability between 0 and 1, got {self.level}.")
        if min(self.beam, self.degree, 1 if self.latents is None else self.latents) < 1:
            raise ValueError(
                f"beam, degree and latents are at least 1, got beam={self.beam}, degree={self.degree} and "
                f"latents={self.latents}."
            )
        if self.full_rank and (self.kind == "hard" or self.scores is None):
            raise ValueError(
                "full_rank reads the graph off the ranks of score differences of soft interventions. Give it "
                "kind='soft' and an estimator of scores; hard interventions identify the graph without it."
            )

    def skeleton(self, spec: Spec) -> CausalCode:
        return CausalCode(spec, self.latents or spec.latents or spec.environments, self.degree)

    def fit(self, data: View, run: Run) -> Representation:
        if not isinstance(data, Environments):
            raise TypeError(f"LSCALE needs Environments, got {type(data).__name__}.")
        one = self.one_for_each(data)

        x = [flat(source) for source in sources(data, self.examples, run)]
        support = Support.find(x, self.latents)
        self.check(one, data, support)
        kept: dict[int, list[Tensor]] = {}

        def coordinates(e: int) -> Iterable[Tensor]:
            parts = kept.get(e) or (support.coordinates(part) for part in x[e]())
            if self.examples * support.n * len(x) <= HELD:
                parts = kept[e] = list(parts)
            return parts

        blocks = Blocks.of([partial(coordinates, e) for e in range(len(x))], multinode.BLOCKS)
        check_rows(blocks, data, "LSCALE")
        white, W = multinode.whiten(blocks.totals[0][0])
        chosen = [0, *one]
        blocks = Blocks(blocks.second[chosen], blocks.rows[chosen]).under(white)
        names = [data.names[e - 1] for e in one]
        if self.scores is None or not self.scores.truth:
            self.check_changes(blocks, names, data.control)
        if self.scores is None:
            centre = torch.linalg.solve(W, white[1:, 0])

            def white_rows(e: int) -> Iterator[Tensor]:
                return ((u.double() + centre) @ W.T for u in coordinates(e))

            found, seen = self.by_likelihood(blocks, [partial(white_rows, e) for e in chosen], names)
        else:
            u = [torch.cat(list(coordinates(e))) for e in range(len(x))]
            found, seen = self.by_scores(u, W, one, blocks, self.scores.within(support), data, run), blocks
        code = CausalCode(data.spec._replace(latents=support.n), support.n, self.degree)
        code.load_state_dict(self.state(found, seen, blocks, white, support, one, code))
        return code

    # --- two ways ----------------------------------------------------------------------------------------------------

    def by_likelihood(
        self, blocks: Blocks, sources: list[Callable[[], Iterable[Tensor]]], names: list[str]
    ) -> tuple[Unmixed, Blocks]:
        """What is found, and the moments of the monomials that mechanisms are made of."""
        from scipy.stats import chi2

        T, count = blocks.totals
        n = T.shape[-1] - 1
        flag = multinode.flags_by_likelihood(T, count, self.beam, every=torch.eye(n).to(T))[0]
        flag = multinode.refine(blocks, flag.L, flag.hits)
        found = by_model(blocks, flag, self.level, soft=self.kind == "soft")
        degree = degree_for(n, self.degree) if self.kind == "hard" else 1
        while degree > 1 and ENOUGH * comb(n + degree, degree) > count.sum():
            degree -= 1
        fits = chi2.sf(*found.misfit) if found.misfit[1] else 1.0  # one latent fits any moments
        if fits >= (RARE if degree == 1 else LINEAR):
            return found, blocks
        if degree == 1:
            warnings.warn(
                f"The data do not look like linear causal mechanisms under a linear mixing with {n} latents: the "
                f"likelihood ratio against free covariances is {found.misfit[0]:.4g}, expected {found.misfit[1]:.0f}. "
                "Use scores that are not Gaussian"
                + ("." if self.kind == "soft" else ", or degree=3 if there are no more than 8 latents."),
                stacklevel=3,
            )
            return found, blocks
        return self.by_polynomials(n, degree, sources, found, names)

    def by_polynomials(
        self, n: int, degree: int, sources: list[Callable[[], Iterable[Tensor]]], linear: Unmixed, names: list[str]
    ) -> tuple[Unmixed, Blocks]:
        """The order from polynomials that are no more than cubic, encoder and edges from those of the degree."""
        from scipy.stats import chi2

        basis = Monomials(n, min(degree, SEARCHED))
        blocks = Blocks.of(sources, BLOCKS, basis.of)
        start = linear.H / linear.H.norm(dim=1, keepdim=True)
        hits = (1 + linear.hits.argmax(1)).tolist()
        fit, later = additive.likeliest(basis, *blocks.totals, start, hits)
        lasts = torch.ones(n, n).to(start)
        if degree > SEARCHED:
            richer = Monomials(n, degree)
            more = Blocks.of(sources, BLOCKS, richer.of)
            new = additive.maximise(richer, *more.totals, fit.H, fit.hits, additive.LAST)
            free = sum(comb(i + degree, degree) - comb(i + basis.degree, basis.degree) for i in range(n))
            if chi2.sf(fit.cost - new.cost, free) < LINEAR:
                lasts = additive.lasting(
                    additive.parts(basis, *blocks.totals, fit), additive.parts(richer, *more.totals, new)
                )
                basis, blocks, fit = richer, more, new
        fit = fit._replace(H=fit.H / fit.H.norm(dim=1, keepdim=True))
        M, count = blocks.totals
        soft = additive.dependence(basis, M, count, fit)
        if (least := float(soft.min()) * n) < RARE:
            warnings.warn(
                f"In {names[fit.hits[int(soft.argmin())] - 1]} the latent depends on its causes as no hard "
                f"intervention leaves it (p = {least:.2g}). If interventions are soft, use LSCALE(kind='soft') with "
                "scores that are not Gaussian.",
                stacklevel=4,
            )
        doubt = additive.doubt(basis, M, count, fit)
        if (most := max(doubt.factor)) > ROUGH:
            warnings.warn(
                f"Mechanisms are far from polynomials of degree {basis.degree}: in one latent they differ between "
                f"environments {most:.0f} times as much as by chance. There may be more false edges than `level` says.",
                stacklevel=4,
            )
        p = additive.edges(basis, additive.spread(basis, blocks, fit), doubt, later, lasts)
        pairs = max(n * (n - 1), 1)
        below = torch.ones(n, n).tril(-1).bool()
        statistic = torch.zeros(n, n).to(M)
        statistic[below] = torch.as_tensor(chi2.isf(p[below].clamp_min(1e-300).numpy(), 1))
        found = torch.eye(n).to(M)[[e - 1 for e in fit.hits]]
        return Unmixed(fit.H, found, statistic, float(chi2.isf(self.level / pairs, 1))), blocks

    def by_scores(
        self,
        u: list[Tensor],
        W: Tensor,
        one: list[int],
        blocks: Blocks,
        scores: ScoreEstimator,
        data: Environments,
        run: Run,
    ) -> Unmixed:
        points = u[0].double().tensor_split(min(BLOCKS, len(u[0])))
        each, error = cross_moments(scores, u, points, run)
        at = torch.tensor(one) - 1
        back = torch.linalg.inv(W)
        each = torch.einsum("ia,bmkij,jc->bmkac", back, each[:, at][:, :, at], back)
        error = torch.einsum("ia,mkij,jc->mkac", back, error[at][:, at], back)
        weight = torch.tensor([len(part) for part in points]).to(each) / len(u[0])
        R = torch.einsum("b,bmkij->mkij", weight, each)
        size = torch.einsum("mmii->m", R)
        if (idle := size <= torch.finfo(torch.float32).eps ** 2 * size.max()).any():
            self.refuse_idle([data.names[one[i] - 1] for i in idle.nonzero()[:, 0]], data.control)
        flag = multinode.flags_by_moments(R, self.beam, torch.eye(len(one)).to(R))[0]
        soft = self.kind == "soft"
        found = by_cross_moments(each, error, weight, blocks, flag.hits, self.level, soft=soft, told=scores.truth)
        if self.full_rank:
            found = by_ranks(found, multinode.single(R, flag.hits), multinode.single(error, flag.hits))
        return found

    # --- what must hold ----------------------------------------------------------------------------------------------

    def one_for_each(self, data: Environments) -> list[int]:
        """Of each latent the environment that intervenes on it, from 1 on."""
        pairs = list(zip(data.names, data.told, strict=True))
        if (soft := [name for name, env in pairs if env.kind == "soft"]) and self.kind == "hard":
            raise ValueError(
                f"LSCALE was asked to use hard interventions, and the view says that {', '.join(soft)} is soft. "
                "Use LSCALE(kind='soft')."
            )
        targets = [env.targets for _, env in pairs]
        if all(t is None for t in targets):
            groups = [env.group for _, env in pairs]
            keys = [-1 - e if group is None else group for e, group in enumerate(groups)]
            first = list(dict.fromkeys(keys))
        elif untold := [name for name, env in pairs if env.targets is None]:
            raise ValueError(
                f"LSCALE needs the targets of all environments, or of none (then their order is that of the latents), "
                f"and they are not told of {', '.join(untold)}. Leave these out, or tell their targets."
            )
        else:
            if many := [name for name, env in pairs if len(env.targets or ()) != 1]:
                raise ValueError(
                    f"LSCALE needs interventions on one latent each, and the view says otherwise of {', '.join(many)}. "
                    "Leave these out, or use UMNI."
                )
            keys = [next(iter(t)) for t in targets if t is not None]
            first = sorted(set(keys))
            if first != list(range(len(first))):
                lacking = ", ".join(str(i) for i in range(first[-1]) if i not in first)
                raise ValueError(
                    f"LSCALE needs an intervention on each latent, numbered from 0 on, got none on {lacking}. "
                    "Add environments that intervene there; without them those latents are not identified."
                )
        if len(first) < len(keys):
            spare = [name for e, (name, _) in enumerate(pairs) if keys.index(keys[e]) < e]
            warnings.warn(
                f"LSCALE takes one environment for each latent, so {', '.join(spare)} is not looked at: an earlier one "
                "has the same target.",
                stacklevel=3,
            )
        return [1 + keys.index(key) for key in first]

    def check(self, one: list[int], data: Environments, support: Support) -> None:
        n, m = support.n, len(one)
        if m < n:
            raise ValueError(
                f"LSCALE needs one environment for each latent ({n}: {support.spectrum}), got {m}. "
                "Pass more interventions, or fewer latents; UMNI takes unknown multi-node targets."
            )
        if m > n:
            raise ValueError(
                f"LSCALE needs observations that vary in as many dimensions as there are latents, got {n} for the "
                f"{m} latents that are intervened on ({support.spectrum}; of {support.d} observed). A mixing into "
                "fewer dimensions cannot be undone; if environments share targets, tell the targets."
            )

    def check_changes(self, blocks: Blocks, names: list[str], control: str) -> None:
        """Any two environments have other means or covariances (a likelihood ratio)."""
        from scipy.stats import chi2

        T, count = blocks.totals
        n = T.shape[-1] - 1
        free = n + n * (n + 1) // 2
        inflation = (multinode.spread_of_moments(blocks) / free).clamp_min(1)
        own = multinode.log_variance(T).sum(1)
        idle: list[str] = []
        hidden: list[str] = []
        for e, f in itertools.combinations(range(len(T)), 2):
            both, least = count[[e, f]], float(inflation[[e, f]].max()) * float(chi2.isf(SEEN, free))
            pooled = torch.einsum("g,gij->ij", both / both.sum(), T[[e, f]])
            if both.sum() * multinode.log_variance(pooled).sum() - both @ own[[e, f]] < least:
                share = float(both[1] / both.sum())
                visible = float(both.sum()) * log(1 + share * (LEAST - 1)) - float(both[1]) * log(LEAST)
                pair = names[f - 1] if e == 0 else f"{names[e - 1]} and {names[f - 1]}"
                if visible <= least:
                    hidden.append(pair)
                elif e == 0:
                    idle.append(pair)
                else:
                    raise ValueError(
                        f"LSCALE needs interventions on different latents, and {pair} have the same distribution as "
                        "far as the data show. Leave one out, and ask for fewer latents."
                    )
        if idle:
            self.refuse_idle(idle, control)
        if hidden:
            warnings.warn(
                f"No difference from {control}, or from each other, is seen in {', '.join(hidden)}, and there are too "
                "few rows to see a small one: the latents of these environments are not to be relied on. Give more "
                "rows.",
                stacklevel=3,
            )

    def refuse_idle(self, idle: list[str], control: str) -> None:
        raise ValueError(
            f"LSCALE needs interventions that change their latent, and no difference from {control} is seen in "
            f"{', '.join(idle)}. "
            "Give more rows, or a stronger intervention, or leave it out and ask for fewer latents."
        )

    # --- what is kept ------------------------------------------------------------------------------------------------

    def state(
        self,
        found: Unmixed,
        seen: Blocks,
        blocks: Blocks,
        white: Tensor,
        support: Support,
        one: list[int],
        code: CausalCode,
    ) -> dict[str, Tensor]:
        """Latents in the order of their targets, and mechanisms of the edges alone."""
        n = support.n
        place = found.hits.argmax(1).argsort()  # of each latent, in the causal order
        state = state_of(found, blocks, white, support)
        hits = torch.zeros(code.hits.shape, dtype=torch.bool)
        hits[range(n), [e - 1 for e in one]] = True
        state |= {"encoder": state["encoder"][place], "decoder": state["decoder"][:, place], "hits": hits}
        state |= {name: state[name][place][:, place] for name in ("weights", "confidence")}
        H = torch.linalg.solve(white[1:, 1:].T, support.basis.T @ state["encoder"].double().T).T
        return state | {"mechanisms": mechanisms(seen, H, state["confidence"] > 0.5, code.basis).float()}


def by_ranks(found: Unmixed, R: Tensor, error: Tensor) -> Unmixed:
    r"""The graph itself and latents mixed with fewer causes, if score differences are of full rank.

    Then the image of :math:`R_i`, latents in causal order, is the span of the encoder's rows of i and its causes. So
    those of two latents share as many dimensions as these have common causes, and one more if one causes the other;
    and what all effects of a latent share with it is its row, mixed with those causes of it that cause them all too.
    """
    n = len(R)
    closure = strongest_path(found.statistic.T).T
    images = [image(R[i], error[i], found.critical) for i in range(n)]
    causes: list[set[int]] = []
    lacking = False
    for k in range(n):
        mine: set[int] = set()
        for t in range(k):
            if closure[k, t] <= found.critical:
                continue
            direct = not any(closure[k, s] > found.critical and closure[s, t] > found.critical for s in range(t + 1, k))
            seen = shared(images[t], images[k]) > len(causes[t] & mine)
            lacking = lacking or (direct and not seen)
            if direct or seen:
                mine.add(t)
        lacking = lacking or images[k].shape[1] < 1 + len(mine)
        causes.append(mine)
    if lacking:
        warnings.warn(
            "Score differences are not of full rank: some have fewer dimensions than their latent has causes, as those "
            "of linear mechanisms have, so the graph is not to be relied on. Without full_rank its closure is.",
            stacklevel=4,
        )
    statistic = torch.zeros_like(closure)
    H = []
    for i in range(n):
        for t in causes[i]:
            statistic[i, t] = closure[i, t]
        effects = [images[k] for k in range(n) if i in causes[k]]
        outside = sum((torch.eye(n).to(R) - V @ V.T for V in effects), torch.zeros(n, n).to(R))
        inner = torch.linalg.eigh(images[i].T @ outside @ images[i])
        inside = images[i] @ inner.eigenvectors[:, inner.eigenvalues < SHARED]
        inside = inside if inside.shape[1] else images[i] @ inner.eigenvectors[:, :1]
        H.append(inside @ torch.linalg.eigh(inside.T @ R[i] @ inside).eigenvectors[:, -1])
    return found._replace(H=torch.stack(H), statistic=statistic, closed=False)


def image(R: Tensor, error: Tensor, critical: float) -> Tensor:
    """(n, r): an orthonormal basis of what exceeds the error of estimation, and of single precision, in a moment."""
    value, vector = torch.linalg.eigh((R + R.T) / 2)
    noise = torch.einsum("ik,ij,jk->k", vector, error, vector)
    floor = 64 * len(R) * torch.finfo(torch.float32).eps ** 2 * float(value[-1])
    seen = value > (critical * noise).clamp_min(floor)
    seen[-1] = True
    return vector[:, seen]


def shared(U: Tensor, V: Tensor) -> int:
    """Dimensions that two subspaces have in common: their principal angles that are zero."""
    return int((torch.linalg.svdvals(U.T @ V).square() > 1 - SHARED).sum())


def mechanisms(blocks: Blocks, H: Tensor, graph: Tensor, basis: Monomials) -> Tensor:
    """(n, P): regressions of latents z = H u on the monomials of their causes, in all environments but their own."""
    M, count = blocks.totals
    n = len(H)
    known = next(Monomials(n, d) for d in range(1, basis.degree + 1) if len(Monomials(n, d)) == M.shape[-1])
    change = known.change(H)
    C = change @ M @ change.T
    out = torch.zeros(n, len(basis)).to(M)
    for i in range(n):
        others = count.clone()
        others[1 + i] = 0
        free = torch.einsum("g,gpq->pq", others / others.sum(), C)
        causes = torch.tensor([all(graph[j, i] for j in powers) for powers in known.every]).nonzero()[:, 0]
        out[i, causes] = torch.linalg.lstsq(free[causes][:, causes], free[causes, 1 + i]).solution
    return out
