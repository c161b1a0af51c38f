#!/usr/bin/env python3
"""Builds the site with Doxygen, and fails when it warns.

build_site.py OUTPUT [--doxygen DOXYGEN] [--no-graphs]   writes the site to OUTPUT/html
build_site.py OUTPUT --only-descriptions                 writes no site; fails when a public name of the library is not described
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages  # noqa: E402
import site_filter  # noqa: E402

ROOT = pages.ROOT
# Debian's package doxygen-awesome-css is in one of these; without it the site has Doxygen's own look.
LOOKS = [pathlib.Path("/usr/share/doxygen-awesome-css"), pathlib.Path("/usr/local/share/doxygen-awesome-css")]
STYLE = ["doxygen-awesome.css", "doxygen-awesome-sidebar-only.css"]


def quoted(paths):
    return " ".join(f'"{path}"' for path in paths)


def figures():
    """Returns the folders in which Doxygen finds pictures."""
    return sorted({ROOT / path.parent for ending in (".svg", ".png") for path in pages.files(ending)})


def render(output):
    """Writes every page and header as Doxygen must see it, all at once because a Python filter for each file starts slowly."""
    for path in [*pages.pages(), *pages.files(".hpp")]:
        copy = output / "filtered" / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(site_filter.filtered(path), encoding="utf-8")


def settings(options, output):
    """Returns the settings that are added to those of docs/Doxyfile."""
    common = {
        "OUTPUT_DIRECTORY": f'"{output}"',
        "WARN_LOGFILE": f'"{output / "warnings.txt"}"',
    }
    script = output / "filter.sh"
    script.write_text(f'exec cat "{output}/filtered/${{1#"{ROOT}/"}}"\n', encoding="utf-8")
    common["FILTER_PATTERNS"] = " ".join(f'"*{ending}=sh \\"{script}\\""' for ending in (".md", ".hpp"))
    if options.only_descriptions:
        return {**common, "INPUT": quoted([ROOT / "common/stagecraft", ROOT / "common/harness"]), "RECURSIVE": "YES",
                "EXTRACT_ALL": "NO", "WARN_IF_UNDOCUMENTED": "YES", "GENERATE_HTML": "NO", "GENERATE_XML": "YES", "HAVE_DOT": "NO"}
    markdown = [ROOT / page for page in pages.pages()]
    headers = [ROOT / path for path in pages.files(".hpp") if path.parts[0] == "common"]
    look = next((folder for folder in LOOKS if all((folder / style).exists() for style in STYLE)), None)
    graphs = not options.no_graphs and shutil.which("dot") is not None
    return {**common,
            "INPUT": quoted(markdown + headers),
            "IMAGE_PATH": quoted(figures()),
            "HTML_EXTRA_STYLESHEET": quoted([*(look / style for style in STYLE if look), ROOT / "docs/site.css"]),
            "HAVE_DOT": "YES" if graphs else "NO"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--doxygen", default=shutil.which("doxygen"))
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--only-descriptions", action="store_true")
    options = parser.parse_args()
    if not options.doxygen:
        print("Doxygen is not installed. On Debian and Ubuntu: sudo apt-get install --yes doxygen graphviz doxygen-awesome-css")
        return 77  # Meson counts the test as skipped

    output = options.output.resolve()
    shutil.rmtree(output / "html", ignore_errors=True)
    shutil.rmtree(output / "filtered", ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    render(output)
    doxyfile = output / "Doxyfile"
    lines = [f'@INCLUDE = "{ROOT / "docs/Doxyfile"}"',
             *(f"{name} = {value}" for name, value in settings(options, output).items())]
    doxyfile.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = subprocess.run([options.doxygen, doxyfile], cwd=ROOT, check=False, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    text = (output / "warnings.txt").read_text(encoding="utf-8").replace(f"{ROOT}/", "")
    warnings = [line for line in dict.fromkeys(text.split("\n")) if line]  # Doxygen repeats itself
    print(done.stdout, *(f"{line}\n" for line in warnings), sep="", end="")
    if done.returncode != 0 or warnings:
        print("The site must build without a warning; the warnings above are FILE:LINE: WHAT.")
        return 1
    if options.only_descriptions:
        return 0
    for path in site_filter.copied_files():
        copy = output / "html" / "files" / f"{path}.txt"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy)
    print(f"the site: {output / 'html' / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
