"""The adversarial autoencoder with some labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from whence import values
from whence.descend import Terms
from whence.evidence import Guarantee
from whence.methods.adversarial.classed_aae import ClassedAAE
from whence.nets import ClassOf, Nets
from whence.views import Label, Labelled, Labels, Spec, View


@dataclass(frozen=True, kw_only=True)
class SemiSupervisedAAE(ClassedAAE):
    r"""Semi-supervised AAE: the class in a code is the label where there is one, and otherwise what fits best.

    .. math:: \mathbb{E} \|x - G(y, z)\|^2 - \lambda \, \mathbb{E} \bigl[\log D_y(y) + \log D_z(z)\bigr]
              - \rho \, \mathbb{E}_{\text{labelled}} \log y_u, \qquad y, z = E(x)

    The last mean is over the labelled rows of a batch; a batch without any has none. Style z is held to be the same
    distribution, not independent of y.

    Departures from the reference: those of `AAE`; the three phases are two steps.
    """

    label: str | None = None  #: name of the label whose classes y stands for; none: the first that has classes
    rho: float = 1.0  #: weight of the labels

    needs: ClassVar[type[View]] = Labelled
    guarantee: ClassVar[Guarantee] = Guarantee(
        "the label, as well as a classifier that also sees the unlabelled observations; nothing in the style",
        ("labels are right", "each class is as frequent as the others"),
    )

    def chosen(self, spec: Spec) -> tuple[int, Label]:
        """The label in use and its column."""
        found = [(i, label) for i, label in enumerate(spec.labels) if self.label in (None, label.name)]
        if not found and self.label is not None:
            raise ValueError(values.unknown("label", self.label, [label.name for label in spec.labels]))
        classed = [(i, label) for i, label in found if label.classes]
        if not classed:
            raise ValueError(
                "A semi-supervised AAE needs a label with classes, got numbers only: "
                f"{', '.join(label.name for _, label in found)}. Name it in classes=(...) of Labelled.of."
            )
        return classed[0]

    def classes(self, spec: Spec) -> int:
        return len(self.chosen(spec)[1].classes)

    def init(self, spec: Spec) -> Nets:
        nets = super().init(spec)
        nets.label = ClassOf(*self.chosen(spec))
        return nets

    def extra(self, nets: Any, y: Tensor, batch: Labels) -> Terms:
        index = nets.label(batch.u)
        known = (index >= 0).to(y)
        log_y = y.clamp(min=torch.finfo(y.dtype).tiny).log().gather(1, index.clamp(min=0)[:, None])[:, 0]
        return Terms(label=-self.rho * (log_y * known).sum() / known.sum().clamp(min=1))
