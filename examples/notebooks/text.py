# %% [markdown]
# # Text: the topic of short requests
# Columns of text become word features. Six of 80 requests have a topic.

# %%
import pandas as pd

from mtgcn import MutualTeachingClassifier

WORDS = {
    "billing": ["invoice", "refund", "payment", "receipt", "price"],
    "login": ["password", "account", "username", "code", "link"],
}
truth = [("billing", "login")[number % 2] for number in range(80)]
texts = [
    f"Please help with my {WORDS[topic][number % 5]} and the {WORDS[topic][number // 7 % 5]}, request {number}"
    for number, topic in enumerate(truth)
]
table = pd.DataFrame({"request": texts, "topic": [*truth[:6], *[None] * 74]})
model = MutualTeachingClassifier(random_state=0).fit(table, target="topic")
accuracy = (model.transduction_ == truth).mean()
print(model.graph_.preprocessing.lines(), f"accuracy {accuracy:.2f}", sep="\n")

# %%
model.predictions(keep_columns="all").head()

# %% [markdown]
# New requests are classified without another fit.

# %%
new = model.predict(pd.DataFrame({"request": ["The reset link asks for my username", "I paid this invoice twice"]}))
new
