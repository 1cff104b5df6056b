"""Reading graphs from files: tables (CSV, Parquet), GraphML, GML, `.npz` and `.pt`; see `mtgcn.io.read.read_graph`.

Nothing is imported here, so that pyarrow and networkx are loaded only when a file is read.
"""
