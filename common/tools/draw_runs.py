#!/usr/bin/env python3
"""Draws the figures that show what a run did, from the timelines of programs of the chapters.

draw_runs.py BUILD            writes the figures into the folders of their lessons, for the programs that are built in BUILD
draw_runs.py BUILD --check    fails when one of these files is not what its run gives now

build_site.py draws those of FIGURES again for the site. What a barrier holds, who fills which stage and where a copy goes is read from the
run; run_figures.py and run_charts.py say only where things are on the paper. check_pages.py checks that words fit their boxes.
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run_charts as charts  # noqa: E402
import run_figures as figures  # noqa: E402
import timelines  # noqa: E402

ROOT = timelines.ROOT


class Figure:
    """A file, and the launches of chapters' programs that it is drawn from."""

    def __init__(self, path, draw, *launches):
        self.path, self.drawing = ROOT / path, draw
        self.markers = []   # as those of lessons: see timelines.py
        for launch in launches:
            program, test, number = launch.split()
            self.markers.append({"program": program, "name": pathlib.Path(program).name, "test": test, "launch": number})

    def draw(self, build, folder):
        """Runs the programs, of which `folder` gets the pages, and returns the picture."""
        runs = []
        for number, marker in enumerate(self.markers):
            page = folder / f"{self.path.stem}_{number}.html"
            timelines.write(build, marker, page)
            runs.append(timelines.read_run(page))
        return self.drawing(*(zip(runs, self.markers) if len(runs) > 1 else runs))


FIGURES = [
    Figure("chapters/01_mbarrier_phases/phases.svg", figures.draw_phases, "parity * 1"),
    Figure("chapters/01_mbarrier_phases/word.svg", figures.draw_word, "chapters/01_mbarrier_phases_solution Chapter01.Todo6EachRowIsWaitedFor 3"),
    Figure("chapters/02_ring_of_stages/ring_turns.svg", figures.draw_ring,
           "chapters/02_ring_of_stages_solution Chapter02.Todo2To5RowsGoAroundTheRing 30"),
    Figure("chapters/05_scopes/multicast.svg", figures.draw_multicast, "chapters/05_scopes_solution Chapter05.Todo3EveryBlockOfTheClusterSumsEveryRow 3"),
    Figure("chapters/11_cta_pairs/pair.svg", figures.draw_pair, "chapters/11_cta_pairs_solution Chapter11.Todo6And7APairWithRings 1"),
    Figure("chapters/12_persistent_scheduling/throttle.svg", charts.draw_throttle,
           "gemm_schedules launch_control,3072,3200,72 1"),   # 600 tiles: four turns for each block
    Figure("chapters/13_sm100_gemm/slices.svg", charts.draw_slices, "chapters/13_sm100_gemm_solution Chapter13.Todo4And5TheBuffersAreUsedInTurn 2"),
    Figure("chapters/14_block_scaled/two_rings.svg", charts.draw_two_rings,
           "chapters/14_block_scaled_solution Chapter14.Todo6To8EachKTileIsScaledSeparately 3"),
    Figure("chapters/15_hopper_twin/ping_pong.svg", charts.draw_ping_pong,
           "chapters/15_hopper_twin_solution Chapter15.Todo6WarpgroupsTakeTurns 5"),
    Figure("docs/figures/budget.svg", figures.draw_budget,
           "chapters/02_ring_of_stages_solution Chapter02.Todo2To5RowsGoAroundTheRing 30",
           "chapters/07_tma_tiles_solution Chapter07.Todo5And6MatricesThatNoTileFits 3",
           "chapters/08_tensor_memory_solution Chapter08.Todo4To6ATileOnTheTensorCore 1",
           "chapters/09_input_tile_pipeline_solution Chapter09.Todo1And2TwoStagesOfTwoTiles 1",
           "chapters/10_warp_specialized_gemm_solution Chapter10.Todo4TheRingOfAccumulatorsIsUsedAgain 1",
           "chapters/11_cta_pairs_solution Chapter11.Todo6And7APairWithRings 2",
           "chapters/12_persistent_scheduling_solution Chapter12.Todo7LaunchControl 2",
           "chapters/13_sm100_gemm_solution Chapter13.Todo9And13CIsAdded 2",
           "chapters/14_block_scaled_solution Chapter14.Todo4And5TheStagesOfTheRingAreUsedAgain 6",
           "chapters/15_hopper_twin_solution Chapter15.Todo6WarpgroupsTakeTurns 2"),
]

# A Git host shows these where the site has the page of a run.
RUNS = [Figure(f"docs/figures/runs/{marker['name']}.svg", charts.draw_run, f"{marker['program']} {marker['test']} {marker['launch']}")
        for lesson in sorted(ROOT.glob("chapters/*/README.md")) for marker in timelines.in_text(lesson.read_text(encoding="utf-8"))]


def draw(build, folder, figures_to_draw=FIGURES):
    """Draws the figures whose programs are built, and returns (figure, text). `folder` is for the pages of the runs."""
    drawn = []
    for figure in figures_to_draw:
        if all((build / marker["program"]).exists() for marker in figure.markers):
            drawn.append((figure, figure.draw(build, folder)))
    return drawn


def main():
    arguments = sys.argv[1:]
    if len(arguments) not in (1, 2) or arguments[1:] not in ([], ["--check"]):
        print(__doc__)
        return 2
    build = pathlib.Path(arguments[0]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        try:
            drawn = draw(build, pathlib.Path(folder), FIGURES + RUNS)
        except timelines.NoTimeline as wrong:
            print(f"A figure shows a run that does not exist: {wrong}")
            return 1
    stale = [(figure, picture) for figure, picture in drawn
             if not figure.path.exists() or figure.path.read_text(encoding="utf-8") != picture]
    names = ", ".join(figure.path.name for figure, _ in stale)
    if arguments[1:]:
        if stale:
            print(f"not what their runs give: {names}. common/tools/draw_runs.py {arguments[0]} draws them again")
            return 1
        print(f"{len(drawn)} of {len(FIGURES + RUNS)} figures are what their runs give; the programs of the others are not built")
        return 0 if drawn else 77
    for figure, picture in stale:
        figure.path.parent.mkdir(exist_ok=True)
        figure.path.write_text(picture, encoding="utf-8")
    print(f"{len(drawn)} of {len(FIGURES + RUNS)} figures drawn, {len(stale)} changed{': ' + names if names else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
