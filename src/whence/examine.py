"""Data of one's own, before anything is fitted: what is there, what is missing, and what could be learned from it."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from whence.folders import LABELS, Told, opened, read_labels
from whence.tables import ENDINGS, ending, read_table

SHOWN = 5  #: names in a list, before it says how many more
POOLED = 8  #: side of the pictures in which environments are compared
DIRECTIONS = 10  #: principal components in which they are compared
LEVEL = 0.01  #: probability that any environment seems to differ where none does
FEW = 1_000  #: observations of an environment below which scores are learned badly
LEAST = 30  #: below which an environment is refused


@dataclass
class Examined:
    """Sections of lines for people to read; `faults` are what fitting would refuse, `doubts` what it would not."""

    title: str
    facts: list[str] = field(default_factory=list)
    table: list[tuple[str, ...]] = field(default_factory=list)  #: the first line is its header
    faults: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    learnable: list[str] = field(default_factory=list)
    next: str = ""

    def __str__(self) -> str:
        parts = [self.title, *(f"  {line}" for line in self.facts)]
        if self.table:
            wide = [max(len(row[k]) for row in self.table) for k in range(len(self.table[0]))]
            parts += [""] + [
                "  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, wide, strict=True)).rstrip() for row in self.table
            ]
        for name, lines in (
            ("missing or wrong", self.faults),
            ("to look at", self.doubts),
            ("what can be learned", self.learnable),
        ):
            parts += ["", f"{name}:", *(f"  - {line}" for line in lines)] if lines else []
        return "\n".join([*parts, *(["", f"next: {self.next}"] if self.next else [])])


def examine(
    path: str | Path,
    control: str | None = None,
    environment: str | None = None,
    *,
    labels: str = LABELS,
    ignore: tuple[str, ...] = (),
    size: int | None = None,
) -> Examined:
    """A folder of pictures with labels, or a table. Without a `control` it says which labels there are."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no folder or file {str(path)!r}.")
    if path.is_dir():
        return examine_folder(path, control, environment or "environment", labels, size)
    if ending(path) in ENDINGS:
        return examine_table(path, control, environment or "perturbation", ignore)
    raise ValueError(f"Data are a folder of pictures or a table ({', '.join(ENDINGS)}), got {path.name!r}.")


# --- folders of pictures ---------------------------------------------------------------------------------------------


def examine_folder(path: Path, control: str | None, environment: str, labels: str, size: int | None) -> Examined:
    found = read_labels(path, environment, labels)
    many = {label: len(names) for label, names in found.files.items()}
    out = Examined(f"{path}: {sum(many.values()):,} labelled pictures of {len(many)} environments")
    if found.labels is None:
        out.facts.append("No file of labels: the folders are the environments.")
    sizes: Counter[tuple[int, int]] = Counter()
    modes: Counter[str] = Counter()
    prints: dict[str, list[tuple[str, str]]] = {}
    broken, constant, absent = [], [], set(found.absent())
    small: dict[str, np.ndarray] = {}
    for label, names in found.files.items():
        rows = []
        for name in names:
            if name in absent:
                continue
            try:
                picture = opened(path / name, "RGB")
                with file_of(path / name) as original:
                    modes[original.mode] += 1
            except ValueError:
                broken.append(name)
                continue
            sizes[picture.size] += 1
            prints.setdefault(hashlib.sha256((path / name).read_bytes()).hexdigest(), []).append((label, name))
            if all(low == high for low, high in picture.getextrema()):
                constant.append(name)
            rows.append(np.asarray(picture.resize((POOLED, POOLED), resample=4), np.float32).reshape(-1) / 255)
        small[label] = np.array(rows)
    out.facts += [
        "Sizes: " + ", ".join(f"{w} x {h} ({n:,})" for (w, h), n in sizes.most_common(SHOWN)),
        "Modes: " + ", ".join(f"{mode} ({n:,})" for mode, n in modes.most_common(SHOWN)),
    ]
    if absent:
        out.faults.append(f"{plural(len(absent), 'label')} without a file: {some(sorted(absent))}")
    if broken:
        out.faults.append(f"{plural(len(broken), 'file')} that cannot be read: {some(broken)}")
    if len(sizes) > 1 and size is None:
        side = min(min(pair) for pair in sizes)
        out.faults.append(f"pictures of {len(sizes)} sizes: ask for one, such as --size {power(side)}")
    wide, high = sizes.most_common(1)[0][0] if sizes else (64, 64)
    if size is None and len(sizes) == 1 and (wide != high or wide % 16):
        side = power(min(wide, high))
        out.doubts.append(f"GSCALE's autoencoder takes square pictures whose side divides by 16: ask for --size {side}")
    if loose := found.unlabelled():
        out.doubts.append(f"{plural(len(loose), 'picture')} without a label, which nobody will see: {some(loose)}")
    if twice := [group for group in prints.values() if len(group) > 1]:
        out.doubts.append(f"{plural(len(twice), 'picture')} more than once: {some([n for _, n in twice[0]])} are equal")
        if across := sum(len({label for label, _ in group}) > 1 for group in twice):
            out.doubts.append(f"{across} of them in different environments: what was copied tells nothing of causes")
    if constant:
        out.doubts.append(f"{plural(len(constant), 'picture')} of one colour only: {some(constant)}")
    flags = f" --size {size or power(min(wide, high))}" if size or len(sizes) > 1 or wide != high or wide % 16 else ""
    flags += f" --environment {environment}" if environment != "environment" else ""
    judge(out, small, many, found.told, control, "pictures", path, flags)
    return out


def file_of(path: Path) -> Any:
    from PIL import Image

    return Image.open(path)


def power(side: int) -> int:
    """The largest power of two that is not larger, and a size that networks like."""
    return int(min(128, max(16, 2 ** int(np.log2(max(side, 1))))))


# --- tables ----------------------------------------------------------------------------------------------------------


def examine_table(path: Path, control: str | None, environment: str, ignore: tuple[str, ...]) -> Examined:
    names, x = read_table(path, environment, None, ignore)
    many = dict(Counter(names.tolist()))
    out = Examined(f"{path}: {len(x):,} rows of {plural(len(many), 'environment')}, {x.shape[1]:,} columns of numbers")
    constant = int((x == x[0]).all(0).sum())
    if constant:
        out.doubts.append(f"{plural(constant, 'column')} that never change: leave them out (--ignore)")
    rows = np.unique(x, axis=0, return_counts=True)[1] if len(x) < 200_000 else np.ones(1)
    if (rows > 1).any():
        out.doubts.append(f"{int((rows[rows > 1] - 1).sum()):,} rows are copies of others")
    flags = f" --environment {environment}" + (f" --ignore {','.join(ignore)}" if ignore else "")
    scale = x.std(0).clip(1e-12)
    judge(out, {label: x[names == label] / scale for label in many}, many, {}, control, "rows", path, flags)
    return out


# --- what can be learned ---------------------------------------------------------------------------------------------


def judge(
    out: Examined,
    x: Mapping[str, np.ndarray],
    many: Mapping[str, int],
    told: Mapping[str, Told],
    control: str | None,
    noun: str,
    path: Path,
    flags: str,
) -> None:
    """The same for pictures and tables: sizes of environments, differences from the control, guarantees, next steps."""
    from whence import values

    if control is None or control not in many:
        out.table = [("environment", noun), *((label, f"{n:,}") for label, n in many.items())]
        if control is not None:
            out.faults.append(f"no observational environment: {values.unknown('label', control, many)}")
        else:
            likely = next((n for n in many if n.lower() in OBSERVED), None)
            out.faults.append(
                "nobody said which environment is observational: name it with --control"
                + (f" (is it {likely!r}?)" if likely else "")
            )
        out.next = f"whence data check {path} --control {next(iter(many))}{flags}"
        return
    others = [label for label in many if label != control]
    moved = differences(x[control], {label: x[label] for label in others})
    out.table = [("environment", noun, "differs from the control", "told")]
    for label in (control, *others):
        gap = "" if label == control else moved[label] or "not that one can see"
        out.table.append(
            (label, f"{many[label]:,}", "(control)" if label == control else gap, words_of(told.get(label)))
        )
    if few := [label for label, n in many.items() if n < LEAST]:
        out.faults.append(f"fewer than {LEAST} {noun} in {some(few)}: more, or --skip them, or --least")
    if low := [label for label, n in many.items() if LEAST <= n < FEW]:
        out.doubts.append(f"fewer than {FEW:,} {noun} in {some(low)}: scores will be rough")
    if still := [label for label in others if not moved[label] and len(x[label]) >= LEAST]:
        out.doubts.append(
            f"{some(still)} cannot be told from the control ({LEVEL:.0%} level, all together): did the intervention "
            "work, or is it too weak to be seen here?"
        )
    if not others:
        out.faults.append("no environment under intervention beside the control")
        return
    method, option = learnable(out, len(others), [told.get(label, Told()) for label in others], noun == "pictures")
    out.next = (
        "mend what is missing or wrong, then check again"
        if out.faults
        else f"whence fit {method} --data {path} --control {control}{flags}{option}"
    )


OBSERVED = ("ctrl", "control", "observational", "obs", "none", "baseline", "reference", "untreated", "wild type", "wt")


def words_of(about: Told | None) -> str:
    if about is None:
        return "nothing"
    parts = [
        "" if about.targets is None else "targets " + " ".join(map(str, about.targets)),
        about.kind or "",
        "" if about.group is None else f"group {about.group}",
    ]
    return ", ".join(part for part in parts if part) or "nothing"


def differences(control: np.ndarray, others: Mapping[str, np.ndarray]) -> dict[str, str]:
    """In words, how each environment differs in mean or spread along the main directions of all, or nothing: the
    largest of all two-sample statistics against what chance gives (Bonferroni)."""
    usable = {label: rows for label, rows in others.items() if len(rows) > 1 and len(control) > 1}
    if not usable:
        return dict.fromkeys(others, "")
    pooled = np.concatenate([control, *usable.values()]).astype(float)
    middle = pooled.mean(0)
    some = pooled[:: max(1, len(pooled) // 20_000)] - middle
    _, value, direction = np.linalg.svd(some, full_matrices=False)
    direction = direction[:DIRECTIONS][value[:DIRECTIONS] > 1e-6 * max(value[0], 1e-12)]
    if not len(direction):
        return dict.fromkeys(others, "")
    bound = NormalDist().inv_cdf(1 - LEVEL / (4 * len(direction) * len(usable)))
    base = (control - middle) @ direction.T
    spread = base.std(0).clip(1e-12)
    found = dict.fromkeys(others, "")
    for label, rows in usable.items():
        own = (rows - middle) @ direction.T
        ends = [(part, (part - part.mean(0)) ** 2) for part in (base, own)]
        gaps = []
        for a, b in zip(*ends, strict=True):
            error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b)).clip(1e-12)
            gaps.append(np.abs(a.mean(0) - b.mean(0)) / error)
        shift = np.abs(base.mean(0) - own.mean(0)) / spread
        if max(gaps[0].max(), gaps[1].max()) > bound:
            ratio = own.std(0) / spread
            k, j = int(gaps[0].argmax()), int(gaps[1].argmax())
            found[label] = (
                f"mean by {shift[k]:.2f} sd" if gaps[0].max() >= gaps[1].max() else f"spread times {ratio[j]:.2f}"
            )
    return found


def learnable(
    out: Examined, m: int, told: Sequence[Told], pictures: bool
) -> tuple[Literal["gscale", "lscale", "umni"], str]:
    """What so many environments identify, by which method, and its options."""
    from whence.methods import GSCALE, LSCALE

    whole = GSCALE.guarantee.identifies.partition(":")[2].partition(";")[0].strip()
    targets = [about.targets for about in told]
    single = all(t is not None and len(t) == 1 for t in targets)
    keys = [about.targets if about.targets is not None else about.group for about in told]
    if wrong := Counter(about.kind for about in told if about.kind in ("soft", "do")):
        kinds = " and ".join(f"{n} {kind}" for kind, n in wrong.items())
        out.learnable.append(f"GSCALE takes hard interventions only, and here are {kinds}: leave them out (--skip)")
    if single or all(key is not None for key in keys):
        counts = Counter(keys)
        if any(c > 2 for c in counts.values()):
            out.learnable.append("GSCALE takes at most two environments of a target: leave some out (--skip)")
        twice, n = sum(c == 2 for c in counts.values()), len(counts)
        out.learnable.append(f"{plural(m, 'environment')} on {plural(n, 'different target')}, as told")
        if any(t is not None and len(t) > 1 for t in targets):
            out.learnable.append("several targets at once: UMNI, where observations are a linear map of latents")
            return "umni", ""
        if twice == n:
            option = "" if single else " --per_node 2"
            out.learnable.append(f"GSCALE, any smooth mixing, two hard interventions on each of {n} latents: {whole}")
            return "gscale", option
        if twice:
            out.learnable.append(f"GSCALE identifies the {twice} latents with two interventions, if they are hard")
        out.learnable.append(f"GSCALE wants a second intervention on {n - twice} of {n} for its whole guarantee")
    else:
        out.learnable.append(
            f"nobody says what the {plural(m, 'environment')} intervene on"
            + (": columns targets or group of the labels could" if pictures else "")
        )
        if m % 2 == 0:
            out.learnable.append(
                f"if they are two hard ones on each of {m // 2} latents: GSCALE --per_node 2 finds the pairs and "
                f"identifies {whole}"
            )
        out.learnable.append(f"if they are one on each of {m} latents: GSCALE runs, and nothing is guaranteed")
    out.learnable.append(
        f"if observations are a linear map of the latents{' (pictures are not)' if pictures else ''} and there is one "
        f"intervention on each: LSCALE, {LSCALE.guarantee.identifies}"
    )
    if not pictures:
        out.learnable.append("if an intervention may hit several latents, and the mixing is linear: UMNI")
        return "lscale", ""
    return "gscale", " --per_node 2" if m % 2 == 0 and keys[0] is None else ""


# --- words -----------------------------------------------------------------------------------------------------------


def some(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(itertools.islice(names, SHOWN)) + (f" and {more} more" if more > 0 else "")


def plural(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
