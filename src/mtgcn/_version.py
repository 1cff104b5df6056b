"""The version, in a separate module to avoid import cycles."""

__version__ = "0.12.0"
