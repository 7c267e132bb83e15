"""``opscanner compare``."""

from __future__ import annotations

import sys
from collections import Counter

import click

from opscanner.cli.options import db_option, format_option, render


@click.command("compare")
@click.argument("first", default="pytorch")
@click.argument("second", default="tensorflow")
@click.option("--operator", metavar="NAME", help="Show both pipelines of this operator, step by step.")
@click.option("--device", type=click.Choice(("cuda", "cpu")), default="cuda", show_default=True)
@click.option(
    "--storage", metavar="FORMATS",
    help="Storage formats, comma-separated.  [default: float16,bfloat16; with --operator float32 as well]",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="List instead what is not in the ranking, with the reason.")
@db_option
@format_option
def command(
    first: str,
    second: str,
    operator: str | None,
    device: str,
    storage: str | None,
    everything: bool,
    db: str | None,
    format_: str,
) -> int:
    """Compare operators of two scanned frameworks: who computes what in which format, and who widens what.

    FIRST and SECOND name scans in the database: `pytorch`, or `pytorch@2.6.0` to choose among several. Without
    --operator a ranked list: what is widened in one and not in the other, with what may be lost most first.
    """
    from opscanner import api
    from opscanner.report import comparison as report

    formats = storage.split(",") if storage else None
    found = api.compare(first, second, operator=operator, device=device, storage=formats, db=db)
    ranked = api.ranked(found)
    place = {id(one): number for number, one in enumerate(ranked, 1)}
    if operator is not None and format_ == "table":
        report.render(found, sys.stdout)
    elif operator is not None or (format_ == "json" and everything):
        objects = (report.as_json(one, place.get(id(one))) for one in found)
        render(format_, report.STEP_COLUMNS, report.step_rows(found), objects)
    elif everything:
        render(format_, report.OTHER_COLUMNS, report.other_rows(found), ())
    else:
        objects = (report.as_json(one, number) for number, one in enumerate(ranked, 1))
        render(format_, report.RANKING_COLUMNS, report.ranking_rows(ranked), objects)
    left_out = Counter(report.outcome(one) for one in found if not one.comparable)
    alike = Counter(report.outcome(one) for one in found if one.comparable and one.sides is None)
    operators = len({one.pairs for one in found})
    click.echo(f"{len(found)} comparisons of {operators} operators, {len(ranked)} ranked", err=True)
    for words, count in (*alike.most_common(), *left_out.most_common()):
        click.echo(f"  {count:>5}  {words}", err=True)
    return 3 if left_out else 0
