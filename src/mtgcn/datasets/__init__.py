"""Datasets, read from local folders or downloaded, and always checked against checksums."""

from mtgcn.datasets.catalogue import NAMES, Description, describe, load, public_split, where
from mtgcn.datasets.files import SourceUnreachable

__all__ = ["NAMES", "Description", "SourceUnreachable", "describe", "load", "public_split", "where"]
