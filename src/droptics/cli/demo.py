"""`droptics demo`: the main job in a minute or two, on the terminal and as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated


def demo_command(out: Annotated[Path, "Folder for the page; created if needed."] = Path("droptics-demo")) -> None:
    """Show the main job on small problems: exact penalty, optimum, certificate, verified claims, pictures.

    Takes a minute or two, the longer time when loops are compiled; needs no data and no network, and prints the path of
    the HTML page last.
    """
    import inspect
    from dataclasses import replace

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from droptics.cli.demo_page import write_page
    from droptics.cli.demo_sections import SECTIONS
    from droptics.files import check_folder

    check_folder(out)
    console = Console(emoji=False)
    sections = []
    times = (TimeElapsedColumn(), TextColumn("spent,"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(TextColumn("{task.description:<24}"), BarColumn(), *times, console=console) as progress:
        task = progress.add_task("", total=sum(seconds for _, seconds in SECTIONS.values()))
        for name, (build, seconds) in SECTIONS.items():
            progress.update(task, description=name)
            section = replace(build(out), code=inspect.getsource(build))
            sections.append(section)
            progress.console.print(f"[bold]{section.title}[/bold]")
            for line in section.lines:
                progress.console.print(f"  {line}", highlight=False, markup=False)
            progress.advance(task, seconds)
    console.print(str(write_page(sections, out)), soft_wrap=True, highlight=False, markup=False)
