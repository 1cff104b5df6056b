"""Tests and doctests check the shapes in signatures; that begins here, before anything imports the package."""

import warnings

import pytest

import shape_checks

shape_checks.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Warnings are errors, except `FitWarning`, which fits of small graphs give; its own tests enable it."""
    from mtgcn.uncertainty.warnings import FitWarning

    warnings.simplefilter("ignore", FitWarning)
