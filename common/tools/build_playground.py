#!/usr/bin/env python3
"""Builds the playground: the emulated GPU as WebAssembly, some kernels as PTX, and the page that runs them.

build_playground.py BUILD [--optimise 2]   BUILD is a folder that Meson has configured; the page is in BUILD/playground/html
afterwards. Exits with 1 where a tool is missing.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "docs" / "playground"
PAGE = ["index.html", "page.css", "page.js", "kernels.js", "run.js", "worker.js"]
KERNELS = ["ring", "barrier", "product"]
SHOWN = [*(f"{kernel}.cu" for kernel in KERNELS), "settings.hpp"]

# As the native build compiles the emulated GPU, for the least level of instructions: WebAssembly has none of x86-64.
# -w: warnings are the native build's, and these would be about pointers of 32 bits.
COMPILE = ["-std=c++20", "-fexceptions", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-DFMT_HEADER_ONLY",
           "-DSTAGECRAFT_HAS_ISA1", "-DSTAGECRAFT_ISA_LEVEL=1", "-Wno-c++11-narrowing", "-w"]
LINK = ["-fexceptions", "-sALLOW_MEMORY_GROWTH=1", "-sEXIT_RUNTIME=1", "-sTOTAL_STACK=1048576", "-sINVOKE_RUN=0", "-sMODULARIZE=1",
        "-sEXPORT_NAME=createPlayground", "-sEXPORTED_RUNTIME_METHODS=FS,ENV,callMain", "-sENVIRONMENT=web,worker,node"]
# Headers of the system that do not depend on the machine. The rest of their folder is glibc's, which Emscripten replaces.
HEADERS = {"fmt": ["fmt"], "nlohmann_json": ["nlohmann"], "libzstd": ["zstd.h", "zstd_errors.h", "zdict.h"],
           "liblz4": ["lz4.h"]}


class Missing(Exception):
    """Something that the build needs is not there."""


def tool(name, advice):
    found = os.environ.get(name.upper().replace("+", "X")) or shutil.which(name)
    if not found:
        raise Missing(f"{name} is not installed, which {advice}")
    return found


def introspect(build, what):
    file = build / "meson-info" / f"intro-{what}.json"
    if not file.exists():
        raise Missing(f"{build} is not a folder that Meson has configured: run `meson setup {build}` first")
    return json.loads(file.read_text(encoding="utf-8"))


def emulator_sources(build, ninja):
    """Returns the sources of the emulated GPU as Meson compiles them: in its groups, and those of one x86-64 level."""
    subprocess.run([ninja, "-C", build, "--quiet", "build.ninja"], check=True, stdout=subprocess.DEVNULL)   # after a change of the lists
    targets = {target["name"]: target for target in introspect(build, "targets")}
    if "emulator" not in targets:
        raise Missing(f"{build} has no emulated GPU: configure it with -Dgpu_backend=emulator")
    level = next(name for name in sorted(targets) if name.startswith("emulator_isa_"))
    sources = []
    for name in ("emulator", level, "emulator_viewer"):
        for group in targets[name]["target_sources"]:
            sources += group.get("sources", []) + group.get("generated_sources", [])
    made = [file for target in targets.values() if target["type"] == "custom" for file in target["filename"]
            if file in sources or file.endswith(".inc")]
    subprocess.run([ninja, "-C", build, "--quiet", *(os.path.relpath(file, build) for file in made)], check=True,
                   stdout=subprocess.DEVNULL)
    return [source for source in sources if source.endswith(".cpp")]


def cuda_home(build):
    options = {option["name"]: option["value"] for option in introspect(build, "buildoptions")}
    found = subprocess.run([ROOT / "common/tools/find_nvcc", options.get("toolkit_home", "")], check=False, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if found.returncode != 0:
        raise Missing(found.stderr.strip())
    return pathlib.Path(found.stdout.strip())


def link_headers(folder):
    """Fills `folder` with links to the headers of libraries that are compiled into the emulated GPU."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, names in HEADERS.items():
        asked = subprocess.run(["pkg-config", "--variable=includedir", package], check=False, text=True, stdout=subprocess.PIPE)
        include = pathlib.Path(asked.stdout.strip() or "/usr/include")
        for name in names:
            link = folder / name
            if not link.exists() and (include / name).exists():
                link.symlink_to(include / name)


def escaped(words):
    """Paths as Ninja reads them in a `build` line."""
    return " ".join(str(word).replace("$", "$$").replace(" ", "$ ").replace(":", "$:") for word in words)


def command(*words):
    """A command as Ninja reads it in a rule: for the shell first."""
    return shlex.join(map(str, words)).replace("$", "$$")


def ninja_file(build, output, emxx, ninja, optimise):
    """Returns the text of the file by which Ninja builds all of it."""
    cuda = cuda_home(build)
    include = ["-isystem", output / "include", "-isystem", cuda / "include", f"-I{ROOT / 'common'}", f"-I{build / 'common'}", "-include",
               SOURCE / "wasm" / "compat.hpp"]
    html = output / "html"
    javascript = html / "playground.js"
    compile_ptx = [cuda / "bin/nvcc", "-ptx", "-lineinfo", "-arch=sm_100a", "-std=c++20", f"-I{ROOT / 'common'}"]
    shorten = ["sed", "-i", "-e", f's#"{re.escape(str(ROOT))}/#"#', "-e", f's#"{re.escape(str(cuda))}/#"cuda/#']
    lines = [
        "ninja_required_version = 1.5",
        f"builddir = {escaped([output])}",
        "rule cpp",
        f"  command = {command(emxx, *COMPILE, f'-O{optimise}', *include)} -MD -MF $out.d -c $in -o $out",
        "  depfile = $out.d\n  deps = gcc\n  description = compiling $in to WebAssembly",
        "rule c",
        f"  command = {command(emxx, '-x', 'c', f'-O{optimise}')} -c $in -o $out\n  description = compiling $in to WebAssembly",
        "rule link",
        f"  command = {command(emxx, f'-O{optimise}', *LINK, f'@{javascript}.rsp', '-o', javascript)}",
        f"  rspfile = {escaped([javascript])}.rsp\n  rspfile_content = $in_newline\n  description = linking $out",
        "rule ptx",
        # The names of the sources lose the folders of this machine: the file is published.
        f"  command = {command(*compile_ptx)} -MD -MF $out.d $in -o $out && {command(*shorten)} $out",
        "  depfile = $out.d\n  deps = gcc\n  description = compiling $in to PTX",
        "rule copy\n  command = cp $in $out\n  description = copying $in",
    ]
    objects = []
    for number, source in enumerate([*emulator_sources(build, ninja), SOURCE / "host.cpp", SOURCE / "wasm" / "missing.c"]):
        object_file = output / "objects" / f"{number:03}_{pathlib.Path(source).stem}.o"
        objects.append(object_file)
        lines.append(f"build {escaped([object_file])}: {'c' if str(source).endswith('.c') else 'cpp'} {escaped([source])}")
    lines.append(f"build {escaped([javascript, html / 'playground.wasm'])}: link {escaped(objects)}")
    for kernel in KERNELS:
        lines.append(f"build {escaped([html / (kernel + '.ptx')])}: ptx {escaped([SOURCE / (kernel + '.cu')])}")
    lines += [f"build {escaped([html / name])}: copy {escaped([SOURCE / name])}" for name in [*PAGE, *SHOWN]]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--optimise", default="2", choices=["0", "1", "2", "3", "s"])
    options = parser.parse_args()
    build = options.build.resolve()
    output = build / "playground"
    try:
        emxx = tool("em++", "compiles the emulated GPU to WebAssembly. On Debian and Ubuntu: sudo apt-get install --yes emscripten")
        ninja = tool("ninja", "runs the build; ./stagecraft playground fetches it")
        output.mkdir(parents=True, exist_ok=True)
        link_headers(output / "include")
        (output / "build.ninja").write_text(ninja_file(build, output, emxx, ninja, options.optimise), encoding="utf-8")
    except subprocess.CalledProcessError as failed:
        print(f"the playground cannot be built: {shlex.join(map(str, failed.cmd))} failed", file=sys.stderr)
        return 1
    except Missing as missing:
        print(f"the playground cannot be built: {missing}", file=sys.stderr)
        return 1
    # Debian's Emscripten links with modules of Debian's Node, which a Node from elsewhere does not look for there.
    modules = os.pathsep.join(filter(None, [os.environ.get("NODE_PATH"), "/usr/share/nodejs"]))
    done = subprocess.run([ninja, "-C", output], check=False, stdout=sys.stderr,
                          env={**os.environ, "NINJA_STATUS": "[%f/%t] ", "NODE_PATH": modules})
    if done.returncode != 0:
        print("the playground was not built; the first error above says where", file=sys.stderr)
        return 1
    print(f"the playground: {output / 'html' / 'index.html'}")
    return 0


if __name__ == "__main__":
    guarded.run(main)
