"""13. Studies: each published table as code, published numbers beside ours. One line each in STUDIES."""

from whence.studies import (
    beta_vae_metric,
    causal_interventions,
    causal_learned_graph,
    causal_mic_tic,
    finite_sample,
    gscale_images,
    gscale_mlp,
    gscale_table9,
    impossibility,
    linear_gaussian,
    lscale_table6,
    lscale_table7,
    metric_agreement,
    umni,
    unsupervised_sprites,
    weak_supervision,
)
from whence.studies.engine import named, run_study
from whence.studies.study import SCALES, Outcome, Published, Row, Scale, Study

STUDIES: tuple[Study, ...] = (
    beta_vae_metric.STUDY,
    metric_agreement.STUDY,
    umni.STUDY,
    lscale_table6.STUDY,
    lscale_table7.STUDY,
    finite_sample.STUDY,
    linear_gaussian.STUDY,
    impossibility.STUDY,
    unsupervised_sprites.STUDY,
    weak_supervision.STUDY,
    gscale_images.STUDY,
    gscale_table9.STUDY,
    gscale_mlp.STUDY,
    causal_mic_tic.STUDY,
    causal_interventions.STUDY,
    causal_interventions.CHANGES,
    causal_learned_graph.STUDY,
)
