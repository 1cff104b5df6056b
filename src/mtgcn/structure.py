"""The documented address of `structural_features`, which live in `mtgcn.linalg.structural_features`."""

from mtgcn.linalg.structural_features import structural_features, with_structural_features

__all__ = ["structural_features", "with_structural_features"]
