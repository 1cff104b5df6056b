# %% [markdown]
# # A table: the cultivar of 178 wines
# Ten wines of each cultivar have a label, and one label is wrong.

# %%
import numpy as np
from sklearn.datasets import load_wine

from mtgcn import MutualTeachingClassifier

wines = load_wine(as_frame=True)
table, truth = wines.data, wines.target_names[wines.target].astype(object)
labelled = np.concatenate([np.flatnonzero(truth == kind)[:10] for kind in wines.target_names])
table["cultivar"] = None
table.loc[labelled, "cultivar"] = truth[labelled]
table.loc[3, "cultivar"] = "class_2"  # in fact class_0
model = MutualTeachingClassifier(random_state=0).fit(table, target="cultivar")

# %% [markdown]
# Labels that are probably wrong, each judged by a model that was fitted without it:

# %%
doubtful = model.doubtful_labels(3)
doubtful

# %% [markdown]
# Correct the label, fit again, and ask whether more labels would help.

# %%
model.label({doubtful[0].node: doubtful[0].predicted})
accuracy = (model.transduction_ == truth).mean()
gain = model.expected_gain()
print(f"accuracy {accuracy:.2f}; {gain}")
