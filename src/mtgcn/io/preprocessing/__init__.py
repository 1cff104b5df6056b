"""From columns as people have them to a matrix: kinds of column are found out, a preparation is learned and kept.

`kinds.find_kinds` says what each column of a `ColumnTable` is, `learning.learn` makes a `Preparation` of that, and the
preparation turns any table with these columns into numbers. It is kept as plain JSON, never as a pickle. Nothing is
imported here.
"""
