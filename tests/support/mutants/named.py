"""Mutants that once lived, and always are tried: changes of meaning that no operator makes."""

from pathlib import Path

from mutants.operators import Mutant, replacement

# What it is, where, what stands there, what would stand there instead.
NAMED = [
    (
        "splits from seed + run: experiments whose seeds differ by little share runs",
        "src/mtgcn/splits.py",
        'np.random.default_rng([_at_least(seed, 0, "seed"), run])',
        'np.random.default_rng(_at_least(seed, 0, "seed") + run)',
    ),
    (
        "runs seeded by seed + run: the same for all that a run draws",
        "src/mtgcn/task.py",
        "np.random.SeedSequence([seed, run])",
        "np.random.SeedSequence(seed + run)",
    ),
    (
        "mt-plus: the teaching weight squared",
        "src/mtgcn/methods/mt_plus.py",
        "self.teaching_weight * teaching,",
        "self.teaching_weight**2 * teaching,",
    ),
    (
        "mt-plus: half the teaching weight by default",
        "src/mtgcn/methods/mt_plus.py",
        "teaching_weight: NonNegativeFloat = 2.0",
        "teaching_weight: NonNegativeFloat = 1.0",
    ),
    (
        "mt-plus: the first peer alone teaches",
        "src/mtgcn/training/lessons.py",
        "together = average(self.votes, [said[name] for name in rows])",
        "together = said[next(iter(rows))]",
    ),
    (
        "calibration error over 10 bins, not 15",
        "src/mtgcn/benchmark/scoring.py",
        "CALIBRATION_BINS = 15",
        "CALIBRATION_BINS = 10",
    ),
    (
        "temperature: what is thought of it beforehand weighs twice as much",
        "src/mtgcn/trust/calibration.py",
        "PRIOR_LABELS = 20",
        "PRIOR_LABELS = 40",
    ),
    (
        "mt-plus: what is thought of a peer's temperature beforehand weighs twice as much",
        "src/mtgcn/training/peer_evidence.py",
        "CAUTION = 4.0",
        "CAUTION = 8.0",
    ),
    (
        "store: rows of a unit in any order",
        "src/mtgcn/benchmark/store.py",
        "row is None or row.run != len(begun) or (begun",
        "row is None or (begun",
    ),
]


def named_mutants(root: Path) -> dict[str, Mutant]:
    return {name: replacement(path, (root / path).read_bytes(), before, after) for name, path, before, after in NAMED}
