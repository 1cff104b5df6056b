import torch

from mtgcn.nn.axes import each_peer, mean_of_peers, rows_at
from mtgcn.task import MISSING


def test_rows_and_means_by_hand():
    # Node n, class c, run r, peer p: 1000 n + 100 c + 10 r + p.
    place = torch.arange(3)[:, None, None, None] * 1000 + torch.arange(2)[:, None, None] * 100
    values = (place + torch.arange(2)[:, None] * 10 + torch.arange(2)).float()
    rows = rows_at(values, torch.tensor([[2, 0], [1, MISSING]]))
    assert rows[0, :, 0].tolist() == [[2000, 2001], [2100, 2101]]
    assert rows[1, :, 0].tolist() == [[0, 1], [100, 101]]
    assert rows[0, :, 1].tolist() == [[1010, 1011], [1110, 1111]]
    assert mean_of_peers(values)[1].tolist() == [[10.5, 110.5], [1010.5, 1110.5], [2010.5, 2110.5]]
    assert each_peer(values)[1, 0].tolist() == [[10, 110], [1010, 1110], [2010, 2110]]
