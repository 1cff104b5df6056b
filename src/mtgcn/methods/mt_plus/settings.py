"""Settings of mt-plus: every constant that decides its predictions, with its default."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Literal, Self

from mtgcn.nn.infomax import InfomaxSettings, Propagation
from mtgcn.settings import (
    Counts,
    Ge,
    Le,
    LearningRate,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Settings,
)

if TYPE_CHECKING:
    from mtgcn.graph import Graph

SCALING = "length"  # feature rows have length 1
TABLE = "table_"  # prefix of settings that hold for tables
Probability = Annotated[float, Ge(0), Le(1)]


@dataclass(frozen=True, kw_only=True)
class ViewSettings(Settings):
    """Settings of the views of the nodes, which do not depend on labels."""

    directions: PositiveInt = 256  # singular vectors of the features to keep; fewer on large graphs
    edge_directions: PositiveInt = 256  # singular vectors of the adjacency to keep; fewer on large graphs
    hop_directions: PositiveInt = 64  # singular vectors in each block of the hops view
    hop_steps: Counts = (0, 1, 2, 4, 8)  # powers of Â in the hops view
    near_steps: NonNegativeInt = 2  # propagation steps of the near neighbourhood
    far_steps: NonNegativeInt = 20  # personalised PageRank steps of the far neighbourhood and the far edges
    far_restart: Probability = 0.1  # restart probability of that PageRank
    size_waves: PositiveInt = 256  # random cosine features of the node sizes
    size_frequency: PositiveFloat = 0.5  # standard deviation of their frequencies
    waves: PositiveInt = 256  # random cosine features of the columns of a table
    wave_frequency: PositiveFloat = 1.5  # standard deviation of their frequencies, where rows have length 1 on average
    wave_scale: PositiveFloat = 0.01  # length of these rows: small values act like large penalties
    column_scale: PositiveFloat = 0.1  # average length of the rows of the columns view, for the same reason
    dimensions: PositiveInt = 256  # width of the infomax embeddings; narrower on large graphs
    held_decay: NonNegativeFloat = 4e-3  # weight decay of the second (held) infomax encoder; the first has none
    infomax_epochs: NonNegativeInt = 200  # training steps of the encoders
    infomax_batch: PositiveInt = 512  # nodes per training step
    infomax_corruptions: PositiveInt = 8  # corrupted graphs, used alternately; fewer on large graphs
    infomax_learning_rate: LearningRate = 0.002  # learning rate of Adam
    infomax_width: PositiveInt = 256  # singular vectors of the propagated features that encoders are trained on
    infomax_slope: NonNegativeFloat = 0.25  # slope of the activation below zero
    infomax_steps: NonNegativeInt = 4  # personalised PageRank steps before an encoder
    infomax_restart: Probability = 0.2  # restart probability of that PageRank

    def encoders(self, graph: Graph) -> InfomaxSettings:
        """The settings of training the two encoders on this graph."""
        return InfomaxSettings(
            dimensions=self.dimensions,
            width=self.infomax_width,
            epochs=self.infomax_epochs,
            learning_rate=self.infomax_learning_rate,
            held_decay=self.held_decay,
            batch_size=self.infomax_batch,
            max_corruptions=self.infomax_corruptions,
            slope=self.infomax_slope,
        ).for_graph(graph)

    @property
    def encoder_input(self) -> Propagation:
        """The input of the encoders."""
        return Propagation(SCALING, self.infomax_steps, self.infomax_restart)

    @property
    def of_views(self) -> ViewSettings:
        """These settings alone: the key under which views are cached."""
        return ViewSettings(**{field.name: getattr(self, field.name) for field in fields(ViewSettings)})


@dataclass(frozen=True, kw_only=True)
class MTPlusSettings(ViewSettings):
    """Settings of cross-validation, mixture weights and mutual teaching."""

    embeddings: Annotated[int, Ge(1), Le(1000)] = 5  # differently seeded encoder pairs shared by the runs of a cell

    # Prior weight of the peer on each view: its average use on graphs of many kinds.
    prior_features: NonNegativeFloat = 0.5  # prior weight of the features
    prior_near_neighbourhood: NonNegativeFloat = 1.0  # prior weight of the near neighbourhood
    prior_far_neighbourhood: NonNegativeFloat = 1.0  # prior weight of the far neighbourhood
    prior_infomax_embeddings: NonNegativeFloat = 1.0  # prior weight of the infomax embeddings
    prior_held_infomax_embeddings: NonNegativeFloat = 2.0  # prior weight of the held infomax embeddings
    prior_hops: NonNegativeFloat = 1.0  # prior weight of the hops
    prior_far_edges: NonNegativeFloat = 0.5  # prior weight of the far edges
    prior_size: NonNegativeFloat = 0.5  # prior weight of the size
    prior_columns: NonNegativeFloat = 6.0  # prior weight of the columns
    prior_waves: NonNegativeFloat = 1.5  # prior weight of the waves
    prior_forest: NonNegativeFloat = 3.0  # prior weight of the forest
    prior_labels: NonNegativeFloat = 1.0  # labels per peer that the prior counts as
    em_steps: NonNegativeInt = 100  # expectation maximisation steps for the weights

    min_folds: Annotated[int, Ge(2), Le(1000)] = 2  # fewest folds of the cross-validation
    max_folds: Annotated[int, Ge(2), Le(1000)] = 5  # most folds; in between, the labels per class
    fold_fits: PositiveInt = 6  # approximate number of fitted folds in total; fewer folds are repeated
    penalties: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2)  # penalties tried, in ascending order
    # temperatures tried, relative to the one that gives logits the expected standard deviation
    temperatures: tuple[float, ...] = tuple(2.0**power for power in range(-9, 6))
    logit_std: PositiveFloat = 2.0  # expected standard deviation of a peer's logits
    temperature_labels: NonNegativeFloat = 4.0  # labels against a temperature e times higher or lower than expected
    penalty_pooling: NonNegativeFloat = 3.0  # weight of the evidence of all peers for the penalty of each peer
    fit_steps: PositiveInt = 150  # gradient steps of fitting a peer to the labels
    tuning_labels: PositiveInt = 4096  # labels that are cross-validated; more are sampled
    # labels times classes that are cross-validated; two labels of each class always
    tuning_numbers: PositiveInt = 2**19

    forest_trees: PositiveInt = 64  # trees of the forest on a table
    forest_depth: Annotated[int, Ge(1), Le(12)] = 6  # depth of the trees
    forest_splits: PositiveInt = 24  # random splits tried at each node
    forest_labels: PositiveInt = 1024  # labels to which the forest is fitted
    leaf_prior: NonNegativeFloat = 0.5  # labels that the class shares of the parent node count as

    full_skill: PositiveFloat = 0.625  # skill of the peers (0 chance, 1 perfect) for full teaching strength
    fade_power: NonNegativeFloat = 8.0  # power with which the strength fades below that skill
    expected_skill: Probability = 0.7  # skill expected before cross-validation
    expected_skill_labels: NonNegativeFloat = 25.0  # labels that this expectation counts as

    # For tables, `table_NAME` replaces NAME: columns have the largest weights, and teaching needs more evidence.
    table_prior_features: NonNegativeFloat = 1.0  # prior weight of the features of a table
    table_prior_hops: NonNegativeFloat = 0.5  # prior weight of the hops of a table
    table_expected_skill: Probability = 0.5  # expected skill on a table
    table_expected_skill_labels: NonNegativeFloat = 10.0  # labels that this expectation counts as

    rounds: NonNegativeInt = 10  # rounds of teaching
    steps: PositiveInt = 4  # gradient steps of each peer per round
    teaching_weight: NonNegativeFloat = 2.0  # weight of the pseudo labels' loss, relative to the labels' loss
    share_power: NonNegativeFloat = 0.3  # power of correcting the class shares of the teacher's predictions
    few_labels: PositiveFloat = 3.0  # labels per class up to which all classes get equal weight
    taught_penalty: NonNegativeFloat = 1e-3  # largest penalty while teaching
    nodes_per_round: PositiveInt = 4096  # nodes sampled per round on larger graphs
    labels_per_round: PositiveInt = 16384  # most labels among these nodes
    rounds_per_bound: PositiveInt = 3  # rounds that share a bound of the curvature

    calibrated: Literal["by-labels", "never"] = "by-labels"  # confidence: equals the expected accuracy, or as averaged

    # The ablation changes one of these at a time.
    # views left out
    left_out: Literal[
        "none", "features", "hops", "neighbourhoods", "infomax", "edges", "size", "columns", "waves", "forest"
    ] = "none"
    votes: Literal["held-out", "equal"] = "held-out"  # peer weights: by held-out likelihood, or equal
    taught_by: Literal["all", "itself"] = "all"  # the teacher: the weighted average of all peers, or each peer itself
    taught: Literal["by-evidence", "always"] = "by-evidence"  # teaching strength: by cross-validation, or always full
    balanced: Literal["by-labels", "always", "never"] = "by-labels"  # class balance of the pseudo labels

    @property
    def for_table(self) -> Self:
        """These settings, with the values for tables."""
        given = [field.name for field in fields(self) if field.name.startswith(TABLE)]
        return replace(self, **{name.removeprefix(TABLE): getattr(self, name) for name in given})
