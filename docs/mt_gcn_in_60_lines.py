"""Mutual teaching for GCNs (Zhan and Niu, 2021) in plain PyTorch: Algorithms 1 and 2 for one split of the labels.

`mtgcn.methods.mt_gcn` computes the same numbers for many splits at once; its docstring defines the symbols.
"""

import math

import torch
from torch.nn.functional import dropout, nll_loss


def gcn(propagation, features, theta, rate):
    """log softmax(Z), Z = Â ReLU(Â X Θ0 + b0) Θ1 + b1, with dropout on the hidden layer."""
    weight0, bias0, weight1, bias1 = theta
    hidden = dropout(torch.relu(propagation @ features @ weight0 + bias0), rate)
    return (propagation @ hidden @ weight1 + bias1).log_softmax(1)


def initial(inputs, hidden, classes):
    """Θ0, b0, Θ1, b1, each uniform within ± 1 / sqrt(outputs)."""
    shapes = (inputs, hidden), (hidden,), (hidden, classes), (classes,)
    return [(2 * torch.rand(shape) - 1) / math.sqrt(shape[-1]) for shape in shapes]


def algorithm_1(log_p, unlabelled, t):
    """V and ŷ: the t most confident predictions of each class among the unlabelled nodes."""
    confidence, predicted = log_p.detach().exp().max(1)  # c and ŷ
    count, chosen = [0] * log_p.shape[1], []
    for i in confidence.argsort(descending=True, stable=True).tolist():  # q
        j = predicted[i]
        if count[j] < t and i in unlabelled:
            chosen.append(i)
            count[j] += 1
    return torch.tensor(chosen), predicted[chosen]


def losses(learner, teacher, chosen, pseudo, labelled, classes):
    """L_sup, L_pl and L_cl of one peer; `learner` and `teacher` are log-probabilities."""
    target = teacher.detach()[chosen]
    certainty = 1 + (target.exp() * target).sum(1) / math.log(target.shape[1])
    supervised = nll_loss(learner[labelled], classes)
    pseudo_label = -(certainty * learner[chosen, pseudo]).mean()
    consistency = (target.exp() * (target - learner[chosen])).sum(1).mean()
    return supervised, pseudo_label, consistency


def mt_gcn(adjacency, features, labelled, classes, thetas, t, *, warmup=200, teaching=200, rate=0.5, **adam):
    """Algorithm 2: probabilities of each peer. `thetas` holds the initial parameters of each peer."""
    loops = adjacency + torch.eye(len(adjacency))  # line 3: Ã
    propagation = loops / (loops.sum(0) * loops.sum(1, keepdim=True)).sqrt()
    features = features / features.sum(1, keepdim=True)
    thetas = [[part.clone().requires_grad_() for part in theta] for theta in thetas]
    optimizer = torch.optim.Adam(
        [part for theta in thetas for part in theta], **{"lr": 0.01, "weight_decay": 5e-4} | adam
    )
    unlabelled = set(range(len(adjacency))) - set(labelled.tolist())
    for epoch in range(warmup + teaching):  # line 4
        log_p = [gcn(propagation, features, theta, rate) for theta in thetas]  # line 6
        if epoch < warmup:
            loss = sum(nll_loss(one[labelled], classes) for one in log_p)
        else:
            chosen = [algorithm_1(one, unlabelled, t) for one in log_p]  # lines 7 to 10
            # Each peer with the predictions and the selection of its teacher, the next peer.
            peers = zip(log_p, log_p[1:] + log_p[:1], chosen[1:] + chosen[:1], strict=True)
            loss = sum(sum(losses(learner, teacher, *v, labelled, classes)) for learner, teacher, v in peers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # line 13
    return [gcn(propagation, features, theta, 0).exp().detach() for theta in thetas]  # line 2
