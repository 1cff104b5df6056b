# %% [markdown]
# # A comparison: which method suits these images?
# Every method sees the same splits with three labels per class; intervals are over runs.

# %%
import mtgcn

results = mtgcn.compare(mtgcn.load("digits"), labels_per_class=3, methods=["lp", "logistic", "mt-plus"], runs=5)
results

# %%
accuracy = {cell.method: cell.accuracy.mean for cell in results.comparison.cells}
print(accuracy)
