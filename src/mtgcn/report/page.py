"""Everything a folder of rows says as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from mtgcn.datasets import Description
from mtgcn.experiments.curves import Curves
from mtgcn.experiments.protocol import FINAL_SEEDS, PROTOCOL_TITLES
from mtgcn.experiments.tables import COUNTS, Evidence, table_1
from mtgcn.report.charts import rank_chart
from mtgcn.report.findings import drawn_cells, findings, gains, ranks
from mtgcn.report.grids import GridRow, ablation_grids, result_grids
from mtgcn.report.page_charts import backbone_tables, curve_charts, label_rate_charts, with_difference_charts
from mtgcn.report.page_commands import commands
from mtgcn.report.styles import styles_of
from mtgcn.report.templating import rendered


def html_page(evidence: Evidence, counts: Sequence[Description] = (), curves: Sequence[Curves] = ()) -> str:
    """The page. `counts` are of those datasets that lie on this machine; curves of other seeds are left out."""
    curves = [one for one in curves if one.made["seed"] == evidence.made.seed]
    results, ablation = result_grids(evidence), ablation_grids(evidence)
    ranking, styles = ranks(evidence), styles_of(evidence.suite)
    return rendered(
        "page.html",
        evidence=evidence,
        suite=evidence.suite,
        made=evidence.made,
        commands=commands(evidence, with_curves=bool(curves)),
        elsewhere=lambda row: _elsewhere(evidence, row),
        made_elsewhere=_made_elsewhere(evidence),
        final=evidence.made.seed in FINAL_SEEDS,
        findings=findings(evidence),
        protocols=PROTOCOL_TITLES,
        reference=styles.shown_name(styles.reference),
        runs_share=any(line.groups for table in evidence.ours for line in table.lines),
        counts=[] if evidence.suite else table_1(counts),
        counts_headings=COUNTS,
        results=results,
        accuracy_charts=label_rate_charts(evidence, "accuracy"),
        calibration_charts=label_rate_charts(evidence, "calibration_error"),
        compared=with_difference_charts(results, styles),
        ablation=with_difference_charts(ablation, styles),
        backbones=backbone_tables(evidence),
        gains=gains(evidence),
        curves=[curve_charts(one) for one in curves],
        ranks=ranking,
        rank_chart=Markup(rank_chart(ranking, title="Average ranks over all cells", styles=styles))
        if ranking
        else None,
        ranked_cells=len(drawn_cells(evidence)),
    )


def _elsewhere(evidence: Evidence, row: GridRow) -> str:
    """Where a row was made, if not where most were."""
    return ", ".join(dict.fromkeys(mark for line in row.lines if line and (mark := evidence.elsewhere(line))))


def _made_elsewhere(evidence: Evidence) -> list[str]:
    """In words, every other way in which some rows were made."""
    return [
        f"{row.device}, {row.threads} thread{'s' if row.threads > 1 else ''} per unit of work; "
        + ", ".join(f"{name} {version}" for name, version in row.versions.items())
        for row in evidence.made_elsewhere
    ]
