"""Examples at the end of each command's help; a test reads them as the command would."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "datasets": (
        "mtgcn datasets",
        "mtgcn datasets cora",
    ),
    "methods": (
        "mtgcn methods",
        "mtgcn methods mt-plus",
        "mtgcn methods mine:Shares",
    ),
    "run": (
        "mtgcn run --dataset cora --labels-per-class 2",
        "mtgcn run --dataset pubmed --labels-per-class 3 --method mt-gcn --set peers=4",
        "mtgcn run --edges e.csv --labels l.csv --labels-per-class 3 --out rows/",
        "mtgcn run --graph graph.npz --split splits.json --method mine:Shares --json",
    ),
    "compare": (
        "mtgcn compare --dataset citeseer --labels-per-class 3 --methods lp,gcn,mt-plus",
        "mtgcn compare --edges edges.csv --nodes nodes.csv --labels-per-class 3",
        "mtgcn compare --graph data.pt --labels-per-class 5 --latex table.tex",
        "mtgcn compare --dataset cora --split public --report page.html --out rows/",
        "mtgcn compare --dataset digits --labels-per-class 2 --methods gcn,mine:Shares",
    ),
    "reproduce": (
        "mtgcn reproduce",
        "mtgcn reproduce --table 2 --methods gcn,mt-gcn --runs 10",
        "mtgcn reproduce --suite world --datasets dblp,chameleon",
        "mtgcn reproduce --suite world --ray head:6379",
    ),
    "report": (
        "mtgcn report model/",
        "mtgcn report model/ --out page.html",
        "mtgcn report reproduction/",
    ),
    "demo": ("mtgcn demo",),
    "fit": (
        "mtgcn fit --edges edges.csv --labels labels.csv --out model/",
        "mtgcn fit --edges e.csv --nodes n.csv --column label=topic --out model/",
        "mtgcn fit --nodes table.csv --knn 10 --out model/ --report page.html",
    ),
    "predict": (
        "mtgcn predict model/ --out predictions.csv",
        "mtgcn predict model/ --nodes new.csv --out predictions.csv",
    ),
    "suggest": (
        "mtgcn suggest model/",
        "mtgcn suggest model/ --count 3 --json",
        "mtgcn suggest model/ --out to-label.csv",
    ),
    "label": ("mtgcn label model/ to-label.csv",),
    "studio": (
        "mtgcn studio",
        "mtgcn studio --dataset digits --project digits/",
        "mtgcn studio --edges edges.csv --nodes nodes.csv --port 8080 --no-browser",
    ),
}


def epilogue(command: str) -> str | None:
    """The examples of a command, one per line."""
    examples = EXAMPLES.get(command, ())
    return "\n  ".join(["Examples:", *examples]) if examples else None
