#!/usr/bin/env python3
"""Builds the site with Doxygen, and fails when it warns.

build_site.py OUTPUT [--doxygen DOXYGEN] [--no-graphs] [--programs BUILD [--strict]]   writes the site to OUTPUT/html
build_site.py OUTPUT --only-descriptions                 writes no site; fails when a public name of the library is not described
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import argparse
import pathlib
import re
import shutil
import subprocess

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import draw_runs  # noqa: E402
import pages  # noqa: E402
import site_filter  # noqa: E402
import site_glossary  # noqa: E402
import site_names  # noqa: E402
import site_playground  # noqa: E402
import site_rail  # noqa: E402
import site_reference  # noqa: E402
import site_search  # noqa: E402
import site_source  # noqa: E402
import timelines  # noqa: E402

ROOT = pages.ROOT
# Debian's package doxygen-awesome-css is in one of these; without it the site has Doxygen's own look.
LOOKS = [pathlib.Path("/usr/share/doxygen-awesome-css"), pathlib.Path("/usr/local/share/doxygen-awesome-css")]
STYLE = ["doxygen-awesome.css"]
# Its extensions: the classes that each page calls.
EXTENSIONS = {"doxygen-awesome-darkmode-toggle.js": "DoxygenAwesomeDarkModeToggle",
              "doxygen-awesome-fragment-copy-button.js": "DoxygenAwesomeFragmentCopyButton",
              "doxygen-awesome-paragraph-link.js": "DoxygenAwesomeParagraphLink"}
SCRIPTS = ["rail.js", "search.js", "terms.js"]   # those of docs/ that each page has
FILES = [*SCRIPTS, "timelines.js", "source.js", "source.css", "icon.svg"]


def quoted(paths):
    return " ".join(f'"{path}"' for path in paths)


def figures():
    """Returns the folders in which Doxygen finds pictures."""
    return sorted({ROOT / path.parent for ending in (".svg", ".png") for path in pages.files(ending)})


def record_timelines(build, folder, strict):
    """Runs the programs that the lessons show, as far as they are built, and returns the names of those that were.

    A program that is older than its lesson may lack the launch. Its timeline is left out with a warning; with `strict`, the
    error is raised.
    """
    missing, recorded = [], set()
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages.lessons():
        for marker in timelines.in_text(pages.read(page)):
            target = folder / f"{marker['name']}.html"
            if build is None or not (build / marker["program"]).exists():
                missing.append(marker["name"])
                continue
            try:
                timelines.write(build, marker, target)
            except timelines.NoTimeline as wrong:
                if strict:
                    raise
                print(f"warning: the timeline of {marker['name']} is left out: {wrong}")
                continue
            way = f'<p class="way"><a href="../{site_filter.address(page)}">{pages.title(pages.read(page)).replace("`", "")}</a></p>'
            target.write_text(target.read_text(encoding="utf-8").replace("<header>", f"<header>\n{way}", 1), encoding="utf-8")
            recorded.add(marker["name"])
    if missing:
        print(f"{len(missing)} of {len(missing) + len(recorded)} timelines are left out, because their programs are not built "
              f"(meson compile -C build builds all): {', '.join(missing)}")
    return recorded


def redraw_figures(build, output):
    """Draws the figures that show runs from the programs as they are now, over those that Doxygen has copied."""
    if build is not None:
        folder = output / "figures"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for figure, picture in draw_runs.draw(build, folder):
            (output / "html" / figure.path.name).write_text(picture, encoding="utf-8")


def render(output, paths, runs=frozenset()):
    """Writes pages or headers as Doxygen must see them, all at once because a Python filter for each file starts slowly."""
    for path in paths:
        copy = output / "filtered" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(site_filter.filtered(path, runs=runs), encoding="utf-8")


def look_folder():
    """Returns where doxygen-awesome-css is, or None."""
    return next((folder for folder in LOOKS if all((folder / name).exists() for name in [*STYLE, *EXTENSIONS])), None)


def write_header(look, header):
    """Writes the beginning of each page, with the extensions of the look."""
    extensions = EXTENSIONS if look else {}
    scripts = "".join(f'<script src="$relpath^{file}"></script>\n' for file in [*extensions, *SCRIPTS])
    calls = "".join(f"{name}.init();" for name in extensions.values())
    text = (ROOT / "docs/header.html").read_text(encoding="utf-8")
    header.write_text(text.replace("</head>", f"{scripts}<script>{calls}</script>\n</head>"), encoding="utf-8")


def mark_differences(site):
    """Gives the lines of differences that are added or removed a class, by which site.css colours them."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if 'class="diff"' in text:
            def mark(block):
                return re.sub(r'<div class="line">(?=([+-]))', lambda line: f'<div class="line {KINDS[line[1]]}">', block[0])
            page.write_text(re.sub(r'<div class="diff">.*?</div><!-- fragment -->', mark, text, flags=re.DOTALL), encoding="utf-8")


KINDS = {"+": "added", "-": "removed"}


def mark_columns(site):
    """Gives the lines of consoles that have columns or bars a class: they do not wrap, as the lines of a report do."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if '<div class="console">' in text:
            def mark(block):
                return re.sub(r'<div class="line">(?=[^\n]{1,142}</div>)(?=[^\n]*(?:[^ \n] {3,}[^ ]|[.#=+]{10}|\.{4}\w+\.{4}))', '<div class="line columns">', block[0])
            page.write_text(re.sub(r'<div class="console">.*?</div><!-- fragment -->', mark, text, flags=re.DOTALL), encoding="utf-8")


def mark_sentences(site):
    """Gives the cells of tables that hold a sentence a class: on a phone they are wide enough to be read, and the table scrolls."""
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if 'class="markdownTable"' in text:
            def mark(cell):
                return f'{cell[1]} sentence{cell[2]}' if len(re.sub("<[^>]*>", "", cell[3])) > SENTENCE else cell[0]
            page.write_text(re.sub(r'(<td class="markdownTableBody\w*)("[^>]*>(?=(.*?)</td>))', mark, text, flags=re.DOTALL), encoding="utf-8")


SENTENCE = 24   # letters


def settings(options, output, emulator=False):
    """Returns the settings that are added to those of docs/Doxyfile, for the site or for the reference of the emulator, which has a
    folder of its own in it: half of its headers have the name of one of the library's."""
    common = {
        "OUTPUT_DIRECTORY": f'"{output}"',
        "WARN_LOGFILE": f'"{output / "warnings.txt"}"',
        "GENERATE_TAGFILE": f'"{output / ("emulator.tag" if emulator else "names.tag")}"',
    }
    script = output / "filter.sh"
    script.write_text(f'exec cat "{output}/filtered/${{1#"{ROOT}/"}}"\n', encoding="utf-8")
    common["FILTER_PATTERNS"] = f'"*.hpp=sh \\"{script}\\""'
    if options.only_descriptions:
        return {**common, "INPUT": quoted([ROOT / "common/stagecraft", ROOT / "common/harness"]), "RECURSIVE": "YES",
                "EXTRACT_ALL": "NO", "WARN_IF_UNDOCUMENTED": "YES", "GENERATE_HTML": "NO", "GENERATE_XML": "YES", "HAVE_DOT": "NO"}
    headers = [path for path in pages.files(".hpp") if path.parts[0] == "common" and site_filter.is_emulator(path) == emulator]
    markdown = [] if emulator else [*(output / "filtered" / page for page in pages.pages()), output / "search.markdown"]
    look = look_folder()
    write_header(look, output / "header.html")
    graphs = not options.no_graphs and shutil.which("dot") is not None
    return {**common,
            "INPUT": quoted([*markdown, *(ROOT / path for path in headers)]),
            "HTML_OUTPUT": "html/emulator" if emulator else "html",
            "HTML_INDEX_NUM_ENTRIES": 100 if emulator else 9999,   # of a list that is not folded
            "HTML_HEADER": f'"{output / "header.html"}"',
            "HTML_FOOTER": f'"{ROOT / "docs/footer.html"}"',
            "HTML_EXTRA_FILES": quoted([*(look / name for name in EXTENSIONS if look), *(ROOT / "docs" / name for name in FILES)]),
            "IMAGE_PATH": quoted(figures()),
            "HTML_EXTRA_STYLESHEET": quoted([*(look / style for style in STYLE if look), ROOT / "docs/site.css"]),
            "HAVE_DOT": "YES" if graphs else "NO"}


def run_doxygen(options, output, emulator=False):
    """Returns whether it succeeded without a warning; prints what it said."""
    doxyfile = output / "Doxyfile"
    lines = [f'@INCLUDE = "{ROOT / "docs/Doxyfile"}"',
             *(f"{name} = {value}" for name, value in settings(options, output, emulator).items())]
    doxyfile.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run([options.doxygen, doxyfile], cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    text = (output / "warnings.txt").read_text(encoding="utf-8").replace(f"{output}/filtered/", "").replace(f"{ROOT}/", "")
    warnings = [line for line in dict.fromkeys(text.split("\n")) if line]  # Doxygen repeats itself
    print(done.stdout, *(f"{line}\n" for line in warnings), sep="", end="")
    if done.returncode != 0 or warnings:
        print("The site must build without a warning; the warnings above are FILE:LINE: WHAT.")
    return done.returncode == 0 and not warnings


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--doxygen", default=shutil.which("doxygen"))
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--programs", type=pathlib.Path, help="the build folder; without it, lessons have no timelines")
    parser.add_argument("--strict", action="store_true", help="fail where a program does not have the run that its lesson shows")
    parser.add_argument("--only-descriptions", action="store_true")
    options = parser.parse_args()
    if not options.doxygen:
        print("Doxygen is not installed. On Debian and Ubuntu: sudo apt-get install --yes doxygen graphviz doxygen-awesome-css")
        return 77  # Meson counts the test as skipped

    output = options.output.resolve()
    shutil.rmtree(output / "html", ignore_errors=True)
    shutil.rmtree(output / "filtered", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    programs = options.programs
    if programs is not None and not (programs / "common/emulator/libcudart.so.13").exists():
        programs = None   # on a chip there is nothing to see
    try:
        runs = set() if options.only_descriptions else record_timelines(programs, output / "timelines", options.strict)
    except timelines.NoTimeline as wrong:
        print(f"A lesson shows a timeline that does not exist: {wrong}")
        return 1
    render(output, pages.files(".hpp"))
    (output / "html").mkdir(exist_ok=True)
    if not options.only_descriptions:
        if not run_doxygen(options, output, emulator=True):
            return 1
        site_filter.emulator_addresses.update(site_names.addresses_of_headers(output / "emulator.tag"))
    render(output, pages.pages(), runs)
    (output / "search.markdown").write_text(site_search.PAGE, encoding="utf-8")
    if not run_doxygen(options, output):
        return 1
    if options.only_descriptions:
        return 0
    site_source.add(output / "html")
    try:
        redraw_figures(programs, output)
    except timelines.NoTimeline as wrong:
        if options.strict:
            print(f"A figure shows a run that does not exist: {wrong}")
            return 1
        print(f"warning: the figures of runs are those of the repository: {wrong}")
    if runs:
        shutil.copytree(output / "timelines", output / "html" / "timelines")
    if options.programs:
        site_playground.add(options.programs / "playground" / "html", output / "html")
    mark_differences(output / "html")
    mark_columns(output / "html")
    mark_sentences(output / "html")
    names = site_names.add(output / "html", output / "names.tag")
    site_glossary.add(output / "html")
    site_rail.add(output / "html")
    site_rail.add(output / "html" / "emulator", "../")
    site_search.add(output / "html", names, site_names.members(output / "names.tag"))
    for folder in (output / "html", output / "html" / "emulator"):
        site_reference.add(folder)
    print(f"the site: {output / 'html' / 'index.html'}")
    return 0


if __name__ == "__main__":
    guarded.run(main)
