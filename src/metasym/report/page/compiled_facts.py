"""What a layer becomes when it is compiled, and what that costs compared with the dense layer."""

from __future__ import annotations

from metasym.fast_layers.compilation import plan_of_report
from metasym.fast_layers.layer_plan import LayerPlan
from metasym.fast_layers.pricing import Work
from metasym.verdicts.reports import LayerReport

MANY = 1024
"""Examples at once for which a layer is compiled where nothing pays for few."""


def compiled_facts(report: LayerReport) -> list[tuple[str, str]]:
    """Names and values for the page; nothing where no clear pattern was found."""
    plan = plan_of_report(report)
    if plan is None:
        return []
    facts = [(f"compiled (ms.structured) for {plan.batch} examples", plan.what)]
    if plan.chosen is None:
        if plan.others:
            facts.append(_time(plan, plan.others[0].work))
        plan = plan_of_report(report, batch=MANY)
        if plan is None or plan.chosen is None:
            return facts
        facts.append((f"for {plan.batch:,} examples", plan.what))
    work, dense = plan.work, plan.dense
    return [
        *facts,
        ("multiply-adds per example", f"{work.multiply_adds:,} (dense: {dense.multiply_adds:,})"),
        ("bytes of the weight", f"{plan.bytes:,} (dense: {plan.dense_bytes:,})"),
        _time(plan, work),
    ]


def _time(plan: LayerPlan, work: Work) -> tuple[str, str]:
    own, dense = (f"{one.microseconds(plan.batch):,.0f} us" for one in (work, plan.dense))
    return f"time of {plan.batch:,} examples, estimated", f"{own} (dense: {dense})"
