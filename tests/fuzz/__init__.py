"""Malformed input of every kind: a case gives a sound result or a one-line `InputError`.

Each module draws random cases of one kind of input (`random_case`) and lists cases that once failed (`REGRESSIONS`).
`test_fuzz.py` runs them with hypothesis; `make fuzz` runs many more.
"""
