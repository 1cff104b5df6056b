"""Training of stacked models: loop, losses, pseudo labels, progress and records."""
