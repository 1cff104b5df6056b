"""The lines of `mtgcn fit`: what is said of the peers, and what is left out."""

from mtgcn.uncertainty.peer_weights import contributions
from mtgcn.workflows.summary import Coverage, FitSummary, summary_lines
from weighted_votes import made_up_report


def summary(**changes):
    known = {
        "nodes": 3,
        "edges": 2,
        "features": 1,
        "columns": [],
        "coverage": Coverage(1, 1, 0, 0),
        "labels": {"a": 1, "b": 1},
        "method": "made-up",
        "epochs": 0,
        "seconds": 0.1,
        "device": "cpu",
        "mean_confidence": 0.5,
        "expected_accuracy": None,
        "why_no_expected_accuracy": "nobody asked",
        "peers": None,
        "teaching": None,
        "notes": [],
        "warnings": [],
        "model": "model",
        "report": None,
    }
    return FitSummary(**known | changes)


def test_the_four_largest_votes_and_what_the_features_get_alone():
    names = ("features", "infomax embeddings", "far neighbourhood", "near neighbourhood", "structure", "contrast")
    report = made_up_report(
        weights=(0.03, 0.41, 0.22, 0.2, 0.1, 0.04),
        names=names,
        held_out=(0.52, 0.71, 0.7, 0.69, 0.6, 0.4),
        agreement=(0.5,) * 6,
        teaching=0.2,
    )
    lines = list(summary_lines(summary(peers=contributions(report), teaching=0.2)))
    assert [line for line in lines if line.startswith("peers")] == [
        "peers       the infomax embeddings and the far neighbourhood decide together",
        "peers       infomax embeddings 41 % of the vote (71 % of held-out labels), far neighbourhood 22 % (70 %), "
        "near neighbourhood 20 % (69 %), structure 10 % (60 %) and 2 more; features alone 52 %",
        "peers       the given labels carry little information, so the peers hardly teach each other",
    ]


def test_a_method_without_weighted_votes_has_no_such_line():
    assert not [line for line in summary_lines(summary()) if line.startswith("peers")]


def test_what_was_done_with_columns_and_that_there_are_more():
    lines = list(summary_lines(summary(columns=["income: standardised", "notes: left out"])))
    assert "column      income: standardised" in lines
    assert "column      notes: left out" in lines
    many = list(summary_lines(summary(columns=[f"f{number}: yes or no" for number in range(25)])))
    assert "column      … and 5 more; --json lists all" in many
