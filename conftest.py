"""Tests and doctests check the shapes in signatures; that begins here, before anything imports the package."""

import shape_checks

shape_checks.install()
