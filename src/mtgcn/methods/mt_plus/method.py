"""mt-plus: mutual teaching between eight linear peers, each on a different view of the nodes.

The eight views are the features, the hops side by side (Luan et al., 2019), the near and the far neighbourhood (Wu et
al., 2019; Gasteiger et al., 2019), two infomax embeddings (Veličković et al., 2019), the far edges and the size of a
node: see `views.py`. Peers on a table have other views; one of them is a forest, which teaches but is not taught.

    P_v = softmax(X_v W_v),   P = Σ_v w_v P_v,   the prediction is P^(1/T), normalised,
    W_v = argmin  - (1 / |L|) Σ_{i in L} log P_v[i, y_i]  - τ s Σ_i m_i log P_v[i, ŷ_i]  + λ_v |W_v|²

    v       a view, and the peer on it
    X_v     the rows of the view, nodes x width: length 1, centred, with a column of ones
    W_v     the coefficients of the peer, width x classes
    P_v, P  probabilities of the peer, and of all peers; nodes x classes
    w_v     mixture weight of the peer, which maximises the likelihood of held-out labels
    L, y_i  the labelled nodes and their classes
    ŷ_i     the pseudo label of node i: the class c with the largest P[i, c] (l_c / p_c)^(β b)
    l, p    shares of the classes among the labels and in P
    β, b    `share_power`; the class balance, 1 with few labels and less with more
    m_i     its weight, Σ m_i = 1: positive where that is more confident than the mean, classes balanced
    s       teaching strength, from 0 to 1: the cross-validated skill of P; 1 where no label can be held out
    τ       `teaching_weight`
    T       temperature at which the mean confidence is the expected accuracy
    λ_v     penalty of the peer, by cross-validation; a temperature for P_v is found along with it

Linear classifiers on such views, and infomax, are known. New is that peers on different views are weighted by
cross-validation and teach each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from mtgcn.linalg.operators import on_host
from mtgcn.methods.mt_plus.base import PeerMethod, blend, stored_parameters
from mtgcn.methods.mt_plus.cross_validation import (
    average,
    average_accuracy,
    fit_peers,
    mixture_weights,
    num_folds,
    num_held_out,
    teaching_strength,
)
from mtgcn.methods.mt_plus.teaching import Teaching
from mtgcn.methods.mt_plus.views import NodeViews
from mtgcn.shapes import Int
from mtgcn.task import Nodes, PeerReport, Prediction, Task
from mtgcn.training.calibration import AccuracyPrior, matching_temperature, temper_
from mtgcn.training.progress import stage


@dataclass(frozen=True, kw_only=True)
class MTPlus(PeerMethod):
    """The same settings for every graph and number of labels."""

    arena_groups: ClassVar[tuple[str, ...]] = ("graphs", "tables")

    def fit_views(self, task: Task, views: NodeViews, keys: Int[Tensor, "nodes"]) -> Prediction:
        # 1  Views of all nodes, name -> [nodes, width]; the rows of labelled nodes are known to every process.
        prior = self.peers(views.rows)
        rows = {name: views.rows[name] for name in prior}
        index, known, gathered = task.communicator.gather_labelled(
            task.labelled.index, task.labelled.classes, {**rows, "keys": keys}
        )
        labelled = Nodes(index, known)
        labelled_rows = {name: gathered[name] for name in rows}
        classes = task.num_classes

        with stage("cross-validation"):
            # 2  A peer on every view: penalty, temperature, held-out probabilities.
            peers, tuned, folds = fit_peers(labelled_rows, labelled, gathered["keys"], classes, task.seeds, prior, self)
            # 3  Weights of the peers.
            if self.votes == "equal":
                weights = torch.full((task.runs, len(peers)), 1 / len(peers), device=task.device)
            else:
                weights = mixture_weights(peers, prior, tuned, folds, self)

        # 4  Teaching strength, 0 to 1.
        strength = torch.ones(task.runs, device=task.device)
        if self.taught == "by-evidence":
            strength = teaching_strength(peers, weights, tuned, classes, folds, self)

        # 5  Probabilities before teaching. They are held once: on large graphs they are as large as the views.
        probabilities = weights.new_empty(task.runs, len(peers), task.num_nodes, classes)
        by_peer = dict(zip(peers, probabilities.unbind(1), strict=True))
        for name, peer in peers.items():
            by_peer[name].copy_(peer.probabilities(rows[name]))

        # 6  Mutual teaching: pseudo labels of the weighted average, then a refit of every peer, `rounds` times.
        teaching = Teaching(task, rows, keys, peers, weights, strength, labelled, self)
        with stage("teaching", unit="round"):
            after, coefficients = teaching.run(by_peer)

        # 7  Average of the probabilities after and before teaching, by teaching strength.
        for name in peers:
            by_peer[name].copy_(blend(after.pop(name), by_peer[name], strength))

        # 8  The weighted average of the peers.
        answer = average(weights, probabilities.unbind(1))
        agreement = task.communicator.sum((probabilities.argmax(-1) == answer.argmax(-1)[:, None]).sum(-1))

        # 9  One temperature, so that the mean confidence is the expected accuracy. Predicted classes do not change.
        accuracy, held_out = average_accuracy(peers, weights, tuned, folds), num_held_out(folds)
        temperature = torch.ones_like(strength)
        if self.calibrated == "by-labels":
            right, wrong = AccuracyPrior().distribution(accuracy.nan_to_num(), held_out)
            nodes, _ = teaching.sample_nodes(0)
            temperature = matching_temperature(
                answer[:, nodes], right / (right + wrong), teaching.unlabelled[:, nodes], task.communicator.sum
            )
            temper_(answer, temperature)
        in_folds = [num_folds(int(given), classes, self) for given in tuned.present.sum(1)]
        return Prediction(
            on_host(answer),
            teaching.history(),
            peers=on_host(probabilities),
            pseudo_labelled_at=teaching.record.first_epochs(),
            # Encoders are large, and only a single run is applied to other graphs.
            parameters=stored_parameters(
                views, peers, coefficients, teaching.pseudo_parts, weights, strength, temperature
            )
            if task.runs == 1
            else None,
            peer_report=PeerReport(
                tuple(peers),
                weights=weights.cpu().numpy(),
                held_out_accuracy=torch.stack([peer.accuracy for peer in peers.values()], 1).cpu().numpy(),
                agreement=(agreement / task.graph.num_nodes).cpu().numpy(),
                teaching=strength.cpu().numpy(),
            ),
            held_out=torch.stack([accuracy, held_out, accuracy.new_tensor(in_folds)], 1).cpu().numpy(),
        )
