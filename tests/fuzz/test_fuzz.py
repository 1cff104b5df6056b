"""Part of the attack in every run of the tests: all that ever broke, and some cases that are drawn anew."""

from fuzz.attack import SURFACES, Task, attacked
from fuzz.fragile import BREAKING, HOLDING

# As many as take about as long for each surface: half a minute of one core in all.
DRAWN = {"readers": 1000, "arrays": 1000, "stored": 100, "options": 80, "models": 80, "caches": 300, "estimators": 120}


def test_nothing_breaks():
    outcomes = attacked([Task(surface, seed=0, cases=DRAWN[surface]) for surface in SURFACES])
    assert [again for outcome in outcomes for again in outcome.breaks] == []
    for outcome in outcomes:
        assert outcome.tried - outcome.kept == DRAWN[outcome.surface]
        assert outcome.answered > DRAWN[outcome.surface] / 20  # that all is refused would be no test either


def test_the_attack_finds_out_whatever_breaks():
    [outcome] = attacked([Task("fragile", seed=0, cases=3, cpu_seconds=2)])
    assert outcome.tried == len(HOLDING) + len(BREAKING) + 3
    broken = [title.partition(": ")[2] for title, _ in outcome.breaks]
    assert broken == [trial.told for trial in BREAKING]
    assert outcome.answered >= 1


def test_a_case_can_be_tried_again_alone():
    [outcome] = attacked([Task("fragile", seed=0, only=-len(BREAKING))])
    assert [title.partition(": ")[2] for title, _ in outcome.breaks] == ["a traceback"]
    assert outcome.tried == 1
