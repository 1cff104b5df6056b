"""Reading graphs from files: tables (text, Parquet, JSON) and whole graphs; see `mtgcn.io.read.read_graph`.

Nothing is imported here, so that pyarrow and networkx are loaded only when a file is read.
"""
