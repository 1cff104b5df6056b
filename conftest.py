"""Tests and doctests check the shapes in signatures; that begins here, before anything imports the package."""

import warnings

import pytest

import shape_checks

shape_checks.install()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Warnings are errors, but for those that a fit on a toy of a few nodes and labels rightly gives; what they say,
    and when, is for tests that ask for them."""
    from mtgcn.uncertainty.warnings import FitWarning

    warnings.simplefilter("ignore", FitWarning)
