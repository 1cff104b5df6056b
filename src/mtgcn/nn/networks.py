"""Stacked networks: GCN, Chebyshev networks, APPNP and GAT, each for all runs and peers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import elu, leaky_relu

from mtgcn.linalg import normalisation
from mtgcn.linalg.operators import DenseOperator, SparseOperator, blocks_of_rows
from mtgcn.linalg.pagerank import personalized_page_rank
from mtgcn.nn.base import CLASSES, MLP, NetworkSettings, NodeValues
from mtgcn.nn.layers import DropoutStream, InputProduct, ReluDropout, modelwise_product
from mtgcn.shapes import Float, Int

if TYPE_CHECKING:
    from mtgcn.graph import Graph
    from mtgcn.task import Task


class GCN(MLP):
    """Z = Â ReLU(Â X Θ0) Θ1 (Kipf and Welling, 2017), for all runs and peers at once."""

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        operators = normalisation.graph_operators(task.graph, settings.feature_scaling, task.device)
        chain, features, adjacency = operators.input_chain, operators.features, operators.adjacency
        product = InputProduct(chain, features, adjacency, task, peers, settings.input_dropout)
        super().__init__(task, peers, settings, product)
        self.operators, self.adjacency = operators, adjacency
        # Compute Â (H Θ1) or (Â H) Θ1, whichever multiplies Â by fewer columns.
        self._propagate_hidden = settings.hidden_channels < task.num_classes
        # The key is the id of the index tensor, which is stored, so that the id stays in use.
        self._blocks: dict[int, tuple[Tensor, normalisation.ComputationBlock | None]] = {}

    def logits(self) -> NodeValues:
        if self._propagate_hidden:
            return self._readout(self.adjacency(self._hidden()))
        return self.adjacency(modelwise_product(self._hidden(), self._readout_weight)).add_(self.bias1)

    @torch.no_grad()
    def embeddings(self) -> Float[Tensor, "nodes runs peers hidden"]:
        """The input of the second layer, without dropout: Â ReLU(Â X Θ0)."""
        return self.adjacency((self.input(self.weight0, drops=False) + self.bias0).relu_())

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        block = self._block(index)
        if block is None:
            return super().logits_at(index)
        hidden = block.features(self.weight0.flatten(2).flatten(0, 1)).add_(block.runs(self.bias0.flatten(1)))
        kept = self.dropout.kept(block.nodes, block.run_index) if self._drops else None
        hidden = ReluDropout.apply(hidden, kept)
        propagated = block.readout(hidden).view(-1, self.task.runs, self.peers, self.settings.hidden_channels)
        return torch.einsum("srph,rphc->scrp", propagated, self._readout_weight) + self.bias1

    def _block(self, index: Int[Tensor, "runs some"]) -> normalisation.ComputationBlock | None:
        """The computation block of these nodes, or None if the whole graph is cheaper."""
        if self.settings.input_dropout or not self.task.communicator.has_whole_graph:
            return None
        if id(index) not in self._blocks:
            block = normalisation.computation_block(self.adjacency.matrix, self.operators.smoothed, index)
            # A block belongs to one run; a product with the whole graph serves all runs.
            whole = (self.input.cost + self.adjacency.nnz) * self.task.runs
            worth_it = block.features.nnz + block.readout.nnz < whole
            self._blocks[id(index)] = index, block if worth_it else None
        return self._blocks[id(index)][1]


class Chebyshev(MLP):
    """Z = Σ_k T_k(L̃) ReLU(Σ_k T_k(L̃) X Θ0_k) Θ1_k, k = 0 … `degree` (Defferrard et al., 2016), for all runs and peers
    at once.

    The receptive field spans `2 · degree` hops, so every epoch computes the whole graph.
    """

    weight0: nn.Parameter  # features, runs, peers, (degree + 1) · hidden: Θ0_0, Θ0_1, …
    weight1: nn.Parameter  # runs, peers, hidden, (degree + 1) · classes: Θ1_0, Θ1_1, …

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.laplacian = SparseOperator(normalisation.scaled_laplacian(task.graph), task.device, symmetric=True)

    @staticmethod
    def terms(settings: Any) -> int:
        """degree + 1; the degree is 2 if the settings have none."""
        return 1 + int(getattr(settings, "degree", 2))

    @classmethod
    def bytes_per_model(cls, task: Task, settings: Any) -> int:
        return cls.terms(settings) * super().bytes_per_model(task, settings)

    def _initial(self, inputs: int, outputs: int, label: int) -> Float[Tensor, "runs peers inputs outputs"]:
        # The weights of each k are initialised like a separate layer.
        initial, terms = super()._initial, self.terms(self.settings)
        return torch.cat([initial(inputs, outputs, label + 4 * k) for k in range(terms)], -1)

    def logits(self) -> NodeValues:
        products = self.input(self.weight0, drops=self.training)  # nodes, runs, peers, terms · hidden
        hidden = self._activated(self._filtered(products, axis=-1) + self.bias0)
        products = modelwise_product(hidden, self._readout_weight)  # nodes, terms · classes, runs, peers
        return self._filtered(products, axis=CLASSES) + self.bias1

    def _filtered(self, products: Tensor, axis: int) -> Tensor:
        """Σ_k T_k(L̃) · product k; the products of all k are concatenated along the axis.

        Computed by Clenshaw's scheme, from the last product to the first, with one product with L̃ per degree.
        """
        *terms, ahead = products.chunk(self.terms(self.settings), axis)
        beyond: Tensor | None = None
        while terms:
            *terms, term = terms
            propagated = self.laplacian(ahead)
            ahead, beyond = term + (2 if terms else 1) * propagated - (0 if beyond is None else beyond), ahead
        return ahead


class MLPWithAdjacency(MLP):
    """An MLP that also holds Â; subclasses propagate before, between or after its layers."""

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.adjacency = SparseOperator(normalisation.normalized_adjacency(task.graph), task.device, symmetric=True)


class APPNP(MLPWithAdjacency):
    """Z_0 = ReLU(X Θ0) Θ1, then Z_k+1 = (1 - α) Â Z_k + α Z_0 (Gasteiger et al., 2019), for all runs and peers.

    The receptive field spans `STEPS` hops, so every epoch computes the whole graph.
    """

    STEPS = 10  # K in the paper
    RESTART = 0.1  # α in the paper
    NUMBERS_PER_CLASS: ClassVar[int] = 15

    def logits(self) -> NodeValues:
        return personalized_page_rank(super().logits(), self.adjacency, self.STEPS, self.RESTART)


class RowNetwork(MLP):
    """Z = ReLU(R Θ0) Θ1 with the same dense rows R of the nodes for all runs and peers. Only requested nodes are
    computed."""

    def __init__(self, task: Task, peers: int, settings: NetworkSettings, rows: Float[Tensor, "nodes width"]) -> None:
        product = InputProduct((DenseOperator(rows),), None, None, task, peers, dropout=0.0)
        super().__init__(task, peers, settings, product, inputs=rows.shape[1])
        self.rows = rows

    def logits_at(self, index: Int[Tensor, "runs some"]) -> Float[Tensor, "some classes runs peers"]:
        nodes = index.clamp(min=0)
        run = torch.arange(len(index), device=index.device)[:, None].expand_as(index)
        weight = self.weight0.flatten(2).transpose(0, 1)  # runs, width, peers · hidden
        hidden = torch.baddbmm(self.bias0.flatten(1)[:, None], self.rows[nodes], weight).flatten(0, 1)
        kept = self.dropout.kept(nodes.flatten(), run.flatten()) if self._drops else None
        hidden = ReluDropout.apply(hidden, kept).view(*index.shape, self.peers, -1)
        return torch.einsum("rsph,rphc->scrp", hidden, self._readout_weight) + self.bias1


HEADS = 8  # attention heads of the first layer; the second has one
SLOPE = 0.2  # negative slope of the leaky ReLU
# Messages are computed for a few runs at a time, and again for the gradient, to save memory.
CARRIED_AT_ONCE = {"cpu": 2**20, "cuda": 2**26}  # numbers in the messages of these runs


class GAT(MLP):
    """Two layers H'_i = Σ_j α_ij H_j with α_i = softmax over i and its neighbours j of LeakyReLU(a·[H_i | H_j]), H the
    layer's input times Θ (Veličković et al., 2018), for all runs and peers at once.

    The first layer has 8 concatenated heads and an ELU. Dropout applies to the hidden layer and to the α of both
    layers. Edge weights are ignored.
    """

    FIRST_LAYER: ClassVar[tuple[str, ...]] = (*MLP.FIRST_LAYER, "attention0")

    weight0: nn.Parameter  # features, runs, peers, heads · channels: Θ0
    attention0: nn.Parameter  # 2, channels, runs, peers, heads: a, for target and source
    weight1: nn.Parameter  # runs, peers, heads · channels, classes: Θ1
    attention1: nn.Parameter  # 2, classes, runs, peers, 1

    def __init__(self, task: Task, peers: int, settings: NetworkSettings) -> None:
        super().__init__(task, peers, settings)
        self.edges = _Edges(task.graph, task.device)
        channels = self.width(settings) // HEADS
        self.add_parameter("attention0", self._initial_attention(HEADS, channels, label=4), run_axis=2)
        self.add_parameter("attention1", self._initial_attention(1, task.num_classes, label=5), run_axis=2)
        self.edge_dropout = (
            DropoutStream(task.seeds, peers * HEADS, settings.dropout, task.device, label=0xD2),
            DropoutStream(task.seeds, peers, settings.dropout, task.device, label=0xD3),
        )

    @staticmethod
    def width(settings: NetworkSettings) -> int:
        """Width of the hidden layer. A head has half of `hidden_channels`: 8 heads of 8 by default, as in the paper."""
        return HEADS * max(1, settings.hidden_channels // 2)

    @classmethod
    def bytes_per_model(cls, task: Task, settings: Any) -> int:
        hidden, edges = cls.width(settings), task.graph.adjacency.nnz + task.num_nodes
        at_nodes = task.num_nodes * (10 * hidden + 15 * task.num_classes)
        return 4 * (4 * task.graph.num_features * hidden + at_nodes + edges * 14 * (HEADS + 1))

    def _initial(self, inputs: int, outputs: int, label: int) -> Float[Tensor, "runs peers inputs outputs"]:
        if label:
            return super()._initial(inputs, outputs, label)
        # Each head of the first layer, and each half of a, is initialised like a separate layer.
        initial = super()._initial
        return torch.cat([initial(inputs, outputs // HEADS, label=10 + head) for head in range(HEADS)], -1)

    def new_epoch(self) -> None:
        super().new_epoch()
        for stream in self.edge_dropout:
            stream.advance()

    def logits(self) -> NodeValues:
        projected = self.input(self.weight0, drops=self.training).unflatten(-1, (HEADS, -1))
        projected = projected.permute(0, 4, 1, 2, 3).contiguous()  # nodes, channels, runs, peers, heads
        attended = self._attended(projected, self.attention0, self.edge_dropout[0])
        hidden = elu(attended.permute(0, 2, 3, 4, 1).flatten(-2) + self.bias0)  # nodes, runs, peers, heads · channels
        if self._drops:
            hidden = hidden * self.dropout.kept(self._all_nodes).view_as(hidden)
        projected = modelwise_product(hidden, self._readout_weight).unsqueeze(-1)  # the second layer has one head
        return self._attended(projected, self.attention1, self.edge_dropout[1]).squeeze(-1) + self.bias1

    def _attended(
        self,
        projected: Float[Tensor, "nodes channels runs peers heads"],
        attention: Float[Tensor, "2 channels runs peers heads"],
        dropout: DropoutStream,
    ) -> Float[Tensor, "nodes channels runs peers heads"]:
        """The attention-weighted sums over neighbours."""
        target, source = ((projected * part).sum(1) for part in attention)  # nodes, runs, peers, heads
        scores = leaky_relu(self.edges.target_of(target) + self.edges.source_of(source), SLOPE)
        weights: Tensor = _SoftmaxOverNeighbours.apply(scores, self.edges)
        if self._drops:
            weights = weights * dropout.kept(self.edges.all).view_as(weights) / (1 - self.settings.dropout)
        result: Tensor = _WeightedSum.apply(projected, weights, self.edges)
        return result

    def _initial_attention(self, heads: int, channels: int, label: int) -> Float[Tensor, "2 channels runs peers heads"]:
        drawn = [self._initial(channels, 1, label=100 * label + part) for part in range(2 * heads)]
        by_part = torch.cat(drawn, -1).unflatten(-1, (2, heads))  # runs, peers, channels, 2, heads
        return by_part.permute(3, 2, 0, 1, 4)


class _Edges:
    """Every edge in both directions and all self-loops, sorted by target."""

    def __init__(self, graph: Graph, device: torch.device) -> None:
        pattern = normalisation.normalized_adjacency(graph)
        self.nodes = graph.num_nodes
        count, target = pattern.nnz, np.repeat(np.arange(self.nodes), np.diff(pattern.indptr))
        self.all = torch.arange(count, device=device)
        self.source, self.target = (torch.from_numpy(end).to(device) for end in (pattern.indices.astype(int), target))
        # Sums over edges in a fixed order, unlike scatter-add on a GPU.
        self.target_of, self.source_of = (
            SparseOperator(sp.csr_array((np.ones(count), (np.arange(count), end)), (count, self.nodes)), device)
            for end in (target, pattern.indices)
        )

    @staticmethod
    def sum_at(end: SparseOperator, values: Float[Tensor, "edges *rest"]) -> Float[Tensor, "nodes *rest"]:
        """The sums over the edges with each target (`target_of`) or source (`source_of`)."""
        return end.transposed.multiply(values.flatten(1)).unflatten(1, values.shape[1:])


class _SoftmaxOverNeighbours(torch.autograd.Function):
    """The softmax of scores over the edges of each target."""

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "edges *rest"], edges: _Edges) -> Tensor:
        flat = scores.flatten(1)
        largest = flat.new_full((edges.nodes, flat.shape[1]), -torch.inf)
        largest.scatter_reduce_(0, edges.target[:, None].expand_as(flat), flat, "amax")
        weights = (flat - largest.index_select(0, edges.target)).exp_()
        weights /= edges.sum_at(edges.target_of, weights).index_select(0, edges.target)
        weights = weights.view_as(scores)
        ctx.edges = edges
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        edges: _Edges = ctx.edges
        weighted = weights * gradient
        shared = edges.sum_at(edges.target_of, weighted).index_select(0, edges.target)
        return weighted.sub_(shared.mul_(weights)), None


class _WeightedSum(torch.autograd.Function):
    """For each node the weighted sum of the values at its neighbours."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weights: Tensor, edges: _Edges) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(projected, weights)
        result = torch.empty_like(projected)
        for some in _some_runs_at_a_time(projected, edges):
            carried = projected[:, :, some].contiguous().index_select(0, edges.source).mul_(weights[:, None, some])
            result[:, :, some] = edges.sum_at(edges.target_of, carried)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        projected, weights = ctx.saved_tensors
        edges: _Edges = ctx.edges
        for_projected, for_weights = torch.empty_like(projected), torch.empty_like(weights)
        for some in _some_runs_at_a_time(projected, edges):
            wanted = gradient[:, :, some].contiguous().index_select(0, edges.target)
            carried = projected[:, :, some].contiguous().index_select(0, edges.source)
            for_weights[:, some] = carried.mul_(wanted).sum(1)
            for_projected[:, :, some] = edges.sum_at(edges.source_of, wanted.mul_(weights[:, None, some]))
        return for_projected, for_weights, None


def _some_runs_at_a_time(projected: Float[Tensor, "nodes channels runs peers heads"], edges: _Edges) -> list[slice]:
    runs = projected.shape[2]
    carried = len(edges.all) * projected[0].numel() // runs  # numbers in the messages of a run
    return blocks_of_rows(runs, carried, CARRIED_AT_ONCE[projected.device.type])
