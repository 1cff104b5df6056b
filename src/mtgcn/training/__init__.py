"""Training of stacked models: training loop, losses, pseudo labels, calibration and progress."""
