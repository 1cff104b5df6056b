"""The attack as a program: seeded, surface by surface, for as long as one likes.

    make fuzz                              ten minutes, the cases of seed 0
    make fuzz SECONDS=3600 SEED=7          an hour of others
    PYTHONPATH=tests .venv/bin/python -m fuzz --surface readers --seed 7 --case 1234      one case again, alone

A case holds if the program does what was asked and the answer is sound, or refuses in one line (`InputError`). It
breaks if there is any other exception, a warning, an unsound answer, a dead process, more memory or more time than a
case may take. Cases that ever broke are kept with each surface (`KEPT`) and are tried first, every time.
"""
