# %% [markdown]
# # A graph: who is on which side of the karate club?
# Four of 34 members have a label.

# %%
import networkx as nx

from mtgcn import MutualTeachingClassifier

club = nx.karate_club_graph()
sides = [club.nodes[member]["club"] for member in club]
y = [side if member in (0, 1, 32, 33) else None for member, side in enumerate(sides)]
model = MutualTeachingClassifier(random_state=0).fit(None, y, graph=club)
correct = int((model.transduction_ == sides).sum())
print(f"{correct} of {len(sides)} members are predicted correctly")

# %% [markdown]
# Which members should be labelled next, and why?

# %%
model.suggest(3)

# %%
model.plot()

# %% [markdown]
# networkx's own label propagation runs faster with this package as its backend.

# %%
for member in (0, 1, 32, 33):
    club.nodes[member]["label"] = sides[member]
propagated = nx.node_classification.harmonic_function(club)  # or harmonic_function(club, backend="mtgcn")
