"""The datasets: found locally or fetched, always checked against checksums."""

from mtgcn.datasets.catalogue import NAMES, describe, load, public_split, where
from mtgcn.datasets.dataset import Description
from mtgcn.datasets.files import SourceUnreachable

__all__ = ["NAMES", "Description", "SourceUnreachable", "describe", "load", "public_split", "where"]
