"""Checks the form of LaTeX tables."""

import re


def count_tables(text):
    """The number of tables, all balanced, escaped and with the announced number of columns in every row."""
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
