"""Estimators: `GraphModel`, and `MutualTeachingClassifier` with scikit-learn's interface.

Nothing is imported here, since commands use `GraphModel` without scikit-learn.
"""
