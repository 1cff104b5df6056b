"""Preprocessing of table columns: `fit.fit_columns` infers column types and learns a `preprocessor.Preprocessor`, which
turns any table with these columns into a feature matrix. It is stored as JSON."""
