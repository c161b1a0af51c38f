#!/usr/bin/env python3
"""Prints the folder of cublasLt.h and the path of its library, a line each; two empty lines where there is none.

usage: find_cublas.py TOOLKIT

The toolkit is asked first, then NVIDIA's wheel (nvidia-cublas) of the Python that runs this.
"""

import importlib.util
import pathlib
import sys


def candidates(toolkit: pathlib.Path) -> list[pathlib.Path]:
    wheels = importlib.util.find_spec("nvidia")
    roots = [pathlib.Path(root) for root in (wheels.submodule_search_locations or [])] if wheels else []
    return [toolkit, *(folder for root in roots for folder in sorted(root.glob("cu13")))]


def main() -> None:
    for folder in candidates(pathlib.Path(sys.argv[1])):
        header = folder / "include/cublasLt.h"
        if header.exists():
            places = (folder / name / "libcublasLt.so.13" for name in ("lib64", "lib"))
            print(header.parent)
            print(next((place for place in places if place.exists()), "libcublasLt.so.13"))
            return
    print("\n")


main()
