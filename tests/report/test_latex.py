"""The LaTeX tables: balanced, escaped, with as many columns in every row as they announce."""

import re

from mtgcn.experiments.protocol import WORLD
from mtgcn.experiments.tables import stored_evidence
from mtgcn.report.latex import comparison_tables, escaped, latex_tables


def tables_of(*parts):
    return latex_tables(stored_evidence({name: rows for units in parts for name, rows in units.items()}))


def test_tables_are_well_formed(stored):
    text = tables_of(stored(), stored(protocol="paper"), stored(ablation=True, tables=["2"]), stored(backbones=True))
    # Tables 2 to 5, the last on two kinds of splits, the ablation of one and the other networks of all.
    assert well_formed_tables(text) == 5 + 1 + 4


def well_formed_tables(text):
    """How many there are, all of them balanced, escaped and with as many columns in every row as they announce."""
    without_escapes = re.sub(r"\\[{}]", "", text)
    assert without_escapes.count("{") == without_escapes.count("}")
    opened = []
    for what, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if what == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert opened == []
    bodies = re.findall(r"\\begin\{tabular\}\{(\w+)\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL)
    for columns, body in bodies:
        for row in body.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines():
            assert row.endswith(r" \\")
            assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1
    assert not re.search(r"(?<!\\)[#%_]", text.split("\n", 1)[1])
    return len(bodies)


def test_a_row_says_paper_ours_and_difference(stored):
    text = tables_of(stored(tables=["2"], methods=["gcn", "mt-gcn"], runs=1))
    # Places are numbered cell by cell, 0.1 per cent apart from 40; the last of a cell, MT-GCN, is best.
    assert "\nGCN-V & 42.6 & 40.0  & $-2.6$ & 56.9 & 40.2  & $-16.7$ &" in text
    assert "\nMT-GCN & 66.9 & \\textbf{40.1}  & $-26.8$ &" in text


def test_optimistic_rows_say_so(stored):
    text = tables_of(stored(tables=["2"], protocol="paper"))
    # The mean is 40.0. The last of ten averages of four runs lies higher by 1e-6 ((36² + … + 39²) / 4 - 513.5).
    assert "MT-GCN (optimistic) & 66.9 & 40.1 & $-26.8$ &" in text
    assert "OPTIMISTIC" in text


def test_the_tables_of_a_suite_have_one_column_for_each_cell(stored):
    units = stored(suite="world", datasets=["dblp"], methods=["gcn", "mt-plus"], runs=1)
    text = latex_tables(stored_evidence(units, suite=WORLD))
    assert r"\caption{Accuracy on dblp. Per cent;" in text
    assert r" & \multicolumn{1}{c}{5 labels per class on average, drawn over all nodes} \\" in text
    # Places are numbered cell by cell, 0.1 per cent apart from 40; the last of a cell, mt-plus, is best.
    assert "\ngcn, none & 40.2  & 40.6  & 41.0  \\\\\n" in text
    assert "\nmt-plus & \\textbf{40.3}  & \\textbf{40.7}  & \\textbf{41.1}  \\\\\n" in text


def test_special_characters_are_set_as_they_stand():
    assert escaped(r"a_b & 5 % {x} \ ~ ^ # $") == (
        r"a\_b \& 5 \% \{x\} \textbackslash{} \textasciitilde{} \textasciicircum{} \# \$"
    )


def test_a_comparison_is_a_table_for_a_paper(compared):
    text = comparison_tables([compared()])
    assert well_formed_tables(text) == 1
    assert r"\caption{Accuracy on edges\_1.csv, 3 labels per class, 4 runs (120 nodes, 300 edges" in text
    assert "method & accuracy & macro F1 & minus mt-plus & p \\\\" in text
    assert r"lp & 50.0 {\scriptsize $[50.0, 50.0]$} & 49.0 & $-20.0$ {\scriptsize $[-20.0, -20.0]$} & $" in text
    assert r"mt-plus & \textbf{70.0} {\scriptsize $[70.0, 70.0]$} & 69.0 &  &  \\" in text


def test_a_method_alone_has_no_differences(compared):
    text = comparison_tables([compared((("lp", 0.5),))])
    assert well_formed_tables(text) == 1
    assert "method & accuracy & macro F1 \\\\" in text
    assert "textbf" not in text


def test_comparisons_of_one_graph_stand_side_by_side_first(compared):
    few, many = compared(), compared((("lp", 0.8), ("gcn", 0.9)), labels_per_class=20)
    elsewhere = compared(dataset="other.csv")
    text = comparison_tables([few, many, elsewhere])
    assert well_formed_tables(text) == 1 + 3
    overview = text.split(r"\end{table}")[0]
    assert "method & 3 labels per class & 20 labels per class \\\\" in overview
    assert "\nlp & 50.0 " in overview
    assert re.search(r"\ngcn &  & \\textbf\{90\.0\}", overview)
    assert "seed" not in overview
    with_seeds = comparison_tables([few, compared(seed=8)])
    assert "method & 3 labels per class, seed 7 & 3 labels per class, seed 8 \\\\" in with_seeds
