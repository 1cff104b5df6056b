"""A person's own files, read into plain arrays: tables (CSV, Parquet), GraphML, GML and `.npz`.

Nothing is imported here: `mtgcn.graph` needs this package only when a file is read, and pyarrow and networkx with it.
"""
