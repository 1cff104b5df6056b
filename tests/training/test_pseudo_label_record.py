import torch

from mtgcn.training.pseudo_label_record import PseudoLabelRecord


def marks(*pairs):
    result = torch.zeros(40, 2, dtype=torch.bool)
    for node, run in pairs:
        result[node, run] = True
    return result


def test_the_first_epoch_counts(two_runs):
    record = PseudoLabelRecord(two_runs, epochs_before=5)
    record.next_epoch(marks((3, 0), (4, 1)))
    record.next_epoch(marks((3, 0), (3, 1)))
    record.next_epoch(marks((7, 0)))
    first = record.first_epochs()
    assert first.shape == (2, 40)
    assert {(run, node): first[run, node] for run, node in zip(*first.nonzero(), strict=True)} == {
        (0, 3): 6,
        (1, 4): 6,
        (1, 3): 7,
        (0, 7): 8,
    }


def test_an_epoch_can_be_named(two_runs):
    record = PseudoLabelRecord(two_runs)
    record.add(marks((1, 0)), epoch=9)
    record.add(marks((1, 0), (2, 0)), epoch=17)
    assert record.first_epochs()[:, :4].tolist() == [[0, 9, 17, 0], [0, 0, 0, 0]]
    assert record.first_epochs().dtype == "int32"


def test_who_had_no_pseudo_label_has_zero(two_runs):
    assert not PseudoLabelRecord(two_runs, epochs_before=3).first_epochs().any()
