#!/usr/bin/env python3
"""Turns reports of the emulated GPU into a SARIF file, which editors and CI services show at the lines of the source.

usage: write_sarif.py REPORTS.jsonl [FILE.sarif]      without FILE, to stdout

REPORTS has one JSON object per line, as STAGECRAFT_REPORT=json writes them. Each report becomes a result whose rule is the
page of its kind (docs/reports). Its location is the line of the program's own file, the places of other threads are
related locations, and the calls that lead from that line into a library are a code flow. Reports of the API, which name no
line, have a message only; what is no report (counters, timelines) is left out.
Source: OASIS, Static Analysis Results Interchange Format (SARIF) 2.1.0.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import json
import pathlib
import re
import urllib.parse

import explain  # noqa: E402

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
HELP = "docs/reports/{}.md"
PLACE = re.compile(r"(?P<file>[\w.+-]+\.\w+):(?P<line>\d+)")


def sarif_of(reports: list[dict]) -> dict:
    """The log of one run."""
    found = [report for report in reports if explain.name_of(report.get("kind", "")) in explain.names()]
    names = sorted({explain.name_of(report["kind"]) for report in found})
    driver = {"name": "Stagecraft", "rules": [rule_of(name) for name in names]}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{
        "tool": {"driver": driver},
        "results": [result_of(report, names) for report in found],
    }]}


def rule_of(name: str) -> dict:
    """What the page about a kind of report says, as a rule."""
    text = explain.page_text(name)
    what = text.split("\n\n")[1].replace("\n", " ")
    return {"id": name, "name": "".join(part.capitalize() for part in name.split("-")),
            "shortDescription": {"text": explain.summary(name)}, "fullDescription": {"text": what},
            "helpUri": (explain.ROOT / HELP.format(name)).as_uri(), "help": {"text": text, "markdown": text},
            "defaultConfiguration": {"level": "error"}}


def result_of(report: dict, names: list[str]) -> dict:
    """One report. A tolerated finding is a warning, all others are errors."""
    name = explain.name_of(report["kind"])
    lines = [report["message"], *report.get("details", [])]
    if report.get("consequences"):
        following = [each["kind"] + (f" at {each['source']}" if "source" in each else "") for each in report["consequences"]]
        lines.append("what follows from this: " + ", ".join(following))
    for key, text in (("likely_cause", "likely cause: {}"), ("tolerated", "the chip seems to tolerate it: {}")):
        if key in report:
            lines.append(text.format(report[key]))
    result = {"ruleId": name, "ruleIndex": names.index(name), "level": "warning" if "tolerated" in report else "error",
              "message": {"text": "\n".join(lines)}}
    own = report.get("file", "")
    # "ring.cu:30 (bulk_copy.hpp:19)": the line of the program's own file, and where the call ends up; "calls" has those
    # around and between them.
    chain = [location(found, own) for found in PLACE.finditer(report.get("source", ""))]
    if chain:
        result["locations"] = [{**chain[0], **logical(report)}]
    if report.get("calls"):
        chain = [location(found, own) for call in report["calls"] for found in PLACE.finditer(call)]
    if len(chain) > 1:
        result["codeFlows"] = [{"message": {"text": "calls that were inlined"}, "threadFlows": [{
            "locations": [{"location": step, "nestingLevel": level} for level, step in enumerate(chain)]}]}]
    related = []
    for detail in report.get("details", []):
        if found := PLACE.search(detail):
            related.append({**location(found, own), "id": len(related) + 1, "message": {"text": detail}})
    if related:
        result["relatedLocations"] = related
    return result


def location(found: re.Match, own: str) -> dict:
    """A line of a file. Reports name files by their last part; only that of the kernel is known in full."""
    path = own if pathlib.PurePath(own).name == found["file"] else found["file"]
    return {"physicalLocation": {"artifactLocation": {"uri": uri(path)},
                                 "region": {"startLine": int(found["line"])}}}


def uri(path: str) -> str:
    """A path as a reference to a file, as RFC 3986 spells it: relative as it is, absolute with file://."""
    return pathlib.Path(path).as_uri() if pathlib.Path(path).is_absolute() else urllib.parse.quote(path)


def logical(report: dict) -> dict:
    """The kernel, as the function that the line is in."""
    if "kernel" not in report:
        return {}
    return {"logicalLocations": [{"fullyQualifiedName": report["kernel"], "kind": "function"}]}


def read_reports(path: pathlib.Path) -> list[dict]:
    """The reports in a file. The last line of a program that was killed may be cut; it is left out."""
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
    reports = []
    for line in lines:
        try:
            reports.append(json.loads(line))
        except json.JSONDecodeError:
            if line is not lines[-1]:
                raise
            print("stagecraft: the last report is cut, and left out", file=sys.stderr)
    return reports


def main() -> int:
    text = json.dumps(sarif_of(read_reports(pathlib.Path(sys.argv[1]))), indent=2) + "\n"
    if len(sys.argv) > 2:
        try:
            pathlib.Path(sys.argv[2]).write_text(text, encoding="utf-8")
            return 0
        except OSError as error:
            guarded.say(f"the reports follow here, because {sys.argv[2]} cannot be written: {error.strerror}")
    print(text, end="")
    return int(len(sys.argv) > 2)


if __name__ == "__main__":
    guarded.run(main)
