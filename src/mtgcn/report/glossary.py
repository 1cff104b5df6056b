"""Words of the methods in words of everybody, for the page about a fit."""

from __future__ import annotations

from mtgcn.methods.mt_plus.views import EDGES, FAR, FAR_EDGES, FEATURES, HELD_INFOMAX, INFOMAX, NEAR, SIZE

# What a peer sees of a node.
PEERS = {
    FEATURES: "the node's own features",
    NEAR: "the features of the node and of its neighbours",
    FAR: "the features of its wider surroundings",
    INFOMAX: "a description learnt from edges and features without any label",
    HELD_INFOMAX: "as infomax embeddings, learnt with smaller weights",
    EDGES: "whom it is linked with",
    FAR_EDGES: "whom it is linked with over several edges",
    SIZE: "how many neighbours and features it and those around it have",
    "structure": "its place among the edges",
}
# What is written down after every epoch.
HISTORY = {
    "supervised": "how far predictions are from the given labels; lower is nearer",
    "pseudo-label": "how far they are from what the others were surest of",
    "consistency": "how much peers differ about the nodes they teach each other",
    "pseudo labels": "how many nodes taught others their predicted class",
    "agreement": "the share of pseudo labels whose class the learner predicts as well",
    "neighbours": "how far the descriptions of linked nodes are apart",
    "strangers": "how close those of nodes that are not linked are",
}
