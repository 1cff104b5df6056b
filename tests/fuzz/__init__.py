"""Malformed input of every kind: a case gives a sound result or a one-line `InputError`.

Each module draws random cases for one kind of input (`drawn`) and lists the cases that once failed (`KEPT`).
`test_fuzz.py` runs them with hypothesis; `make fuzz` runs many more.
"""
