"""What a reader who has not read the paper wants to know first: what was found, how sure it is, what it is worth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from metasym.report.comparison_words import bought, given_back, judgement, linear_instead
from metasym.report.page.html_words import layer_name, number, plural
from metasym.report.page.run_folders import Run
from metasym.report.page.score_section import score_text
from metasym.verdicts.answer_words import answer_words
from metasym.verdicts.defect_words import capital, differing_words, percent
from metasym.verdicts.group_words import tasks_share
from metasym.verdicts.layer_words import sentence
from metasym.verdicts.network_words import deep_words
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.verdict import Status

GLOSSARY = (
    (
        "symmetry",
        "A way to rearrange inputs and outputs together that leaves every task unchanged: turning a ring of sensors "
        "turns the answer.",
    ),
    (
        "group",
        "All such rearrangements together. Z_n turns a ring of n, D_n turns and reflects it, S_n permutes n things "
        "freely. The order is their number.",
    ),
    ("transitive", "The group can move every input to every place: no input is special."),
    (
        "tied weights, classes",
        "Weights that are the same number in every task. A class is a set of weights tied with each other.",
    ),
    (
        "U and v",
        "A layer's weights are written vec(W) = U v. All tasks share U, which says which weights are tied. Each task "
        "has its own filter v.",
    ),
    (
        "margin, residual",
        "The margin is the smallest distance between two classes, divided by the largest distance inside one. The "
        "residual is the part of U that the classes do not explain.",
    ),
    (
        "support examples, adapting",
        "The network gets a few examples of a new task and adapts its weights to them before it predicts.",
    ),
    (
        "MSR and MAML",
        "Two ways to learn from many tasks: MSR learns U; MAML trains the same network without U, for comparison.",
    ),
)
"""Words that the page uses, for readers who meet them for the first time."""

_MARGIN_OF_DOUBT = 10.0


def headline(run: Run, baseline: Run | None, reports: Sequence[LayerReport]) -> list[str]:
    """Return the sentences of one paragraph: found, how sure, what it is worth. Empty without a result."""
    if run.result is None:
        return []
    deep = deep_words(run.result, None if baseline is None else baseline.result)
    answers = [f"{answer_words(report)}." for report in reports if report.answer is not None]
    return [*(deep or _found(reports)), *answers, *_bought(run, baseline, reports)]


def _found(reports: Sequence[LayerReport]) -> Iterator[str]:
    named = [report for report in reports if report.group is not None]
    for report in named[:2]:
        yield tasks_share(report, "" if len(reports) == 1 else layer_name(report.name))
        yield _sure(report)
    if len(named) > 2:
        yield f"{plural(len(named) - 2, 'more layer')} with a symmetry below."
    for report in reports:
        if report.verdict.status is Status.READ and report.partial and not named:
            shifts = " and ".join(shift.description for shift in report.partial)
            yield f"The tasks share a translation, up to borders: {shifts}."
            return
    undecided = [report for report in reports if report.undecided]
    if undecided and not named:
        yield "Whether the tasks share a symmetry is undecided."
        yield sentence(undecided[0])
    elif reports and not named:
        if len(reports) == 1:  # as the terminal says it, with what it excludes
            yield sentence(reports[0])
        else:
            yield "No symmetry was found that the tasks share. Each layer below lists what was tested."


def _sure(report: LayerReport) -> str:
    pattern, group = report.pattern, report.group
    assert group is not None
    if group.defect_upper is not None:
        differing = report.differing
        odd = differing is not None and differing.tasks
        over = "" if report.verdict.tasks is None else f" over all {report.verdict.tasks} tasks"
        return (
            "Held-out tasks do not refute it: at 95 % confidence its defect"
            f"{over} is at most {percent(group.defect_upper)}."
            + (f" {capital(differing_words(differing, report))}." if differing is not None and odd else "")
        )
    if group.approximate:
        return (
            f"It holds only approximately, with error {number(group.error)} (0 is exact, 1.4 unrelated): the "
            "symmetry of the tasks is itself approximate, there were too few tasks, or training was too short."
        )
    if pattern is None or report.spatial:
        return f"It fits with an error of {number(group.error)} (0 is exact, 1.4 unrelated)."
    entries = len(pattern.classes) * len(pattern.classes[0])
    clear = "clearly" if pattern.margin >= _MARGIN_OF_DOUBT else "barely"
    return (
        f"The {entries:,} weights fall {clear} into {plural(pattern.count, 'class', 'classes')} of equal weights. "
        f"The classes are {number(pattern.margin)} times as far apart as they are wide."
    )


def _bought(run: Run, baseline: Run | None, reports: Sequence[LayerReport]) -> Iterator[str]:
    result = run.result
    assert result is not None
    words = "mean squared error" if result["metric"] == "mse" else result["metric"]
    support = result.get("support")
    of = (
        f"{plural(support, 'example')} of a new task"
        if isinstance(support, int)
        else "the examples of a new task"
    )
    beside = ""
    if baseline is not None and baseline.result is not None:
        beside = f"; for the same network without U it is {score_text(baseline.result)}"
    yield f"From {of} the network's {words} is {score_text(result)}{beside}."
    if (buys := bought(result, different=True)) is not None:
        yield buys
    if (instead := linear_instead(result)) is not None:
        yield instead
    if isinstance(result.get("completed"), dict):
        yield given_back(result["completed"])
    if baseline is not None and baseline.result is not None and _comparable(result, baseline.result):
        read = any(report.group is not None or report.partial for report in reports)
        yield judgement(result, baseline.result, "The symmetry" if read else "The learned U")


def _comparable(*results: dict[str, object]) -> bool:
    return all(isinstance(result.get("by_support"), dict) for result in results)
