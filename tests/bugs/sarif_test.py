#!/usr/bin/env python3
"""Tests the SARIF file that write_sarif.py makes of the reports of some bugs.

usage: sarif_test.py FOLDER      the folder with the programs of the gallery

The rules are those of the schema of SARIF 2.1.0 for the objects that are used: which properties there are and must be, and of
which type; and of its text: indices, identifiers, URIs.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common/tools"))
import write_sarif  # noqa: E402

FOLDER = pathlib.Path(sys.argv.pop(1)).resolve()

# The properties of each object, those that must be there marked with !, and their types; a list has one element type.
# Source: sarif-schema-2.1.0.json, where no object may have further properties.
TEXT, NUMBER = str, int
SCHEMA = {
    "log": {"$schema": TEXT, "!version": TEXT, "!runs": ["run"]},
    "run": {"!tool": "tool", "results": ["result"]},
    "tool": {"!driver": "driver"},
    "driver": {"!name": TEXT, "rules": ["rule"]},
    "rule": {"!id": TEXT, "name": TEXT, "shortDescription": "markdown", "fullDescription": "markdown", "helpUri": TEXT,
             "help": "markdown", "defaultConfiguration": "configuration"},
    "configuration": {"level": TEXT},
    "markdown": {"!text": TEXT, "markdown": TEXT},
    "result": {"ruleId": TEXT, "ruleIndex": NUMBER, "level": TEXT, "!message": "markdown", "locations": ["location"],
               "codeFlows": ["codeFlow"], "relatedLocations": ["location"]},
    "location": {"id": NUMBER, "physicalLocation": "physical", "logicalLocations": ["logical"], "message": "markdown"},
    "physical": {"artifactLocation": "file", "region": "region"},
    "file": {"uri": TEXT},
    "region": {"startLine": NUMBER},
    "logical": {"fullyQualifiedName": TEXT, "kind": TEXT},
    "codeFlow": {"message": "markdown", "!threadFlows": ["threadFlow"]},
    "threadFlow": {"!locations": ["flowLocation"]},
    "flowLocation": {"location": "location", "nestingLevel": NUMBER},
}


def flaws(value, kind, where="log"):
    """What the schema does not allow in a value."""
    if isinstance(kind, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [flaw for i, element in enumerate(value) for flaw in flaws(element, kind[0], f"{where}[{i}]")]
    if not isinstance(kind, str):
        return [] if isinstance(value, kind) and not isinstance(value, bool) else [f"{where} is no {kind.__name__}"]
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    properties = {name.lstrip("!"): of for name, of in SCHEMA[kind].items()}
    found = [f"{where} lacks {name[1:]}" for name in SCHEMA[kind] if name[0] == "!" and name[1:] not in value]
    for name, element in value.items():
        if name not in properties:
            found.append(f"{where} has a property {name}")
        else:
            found += flaws(element, properties[name], f"{where}.{name}")
    return found


def sarif_of(program: str, variant: str) -> dict:
    """What the reports of a bug become."""
    with tempfile.TemporaryDirectory() as folder:
        lines = pathlib.Path(folder) / "reports.jsonl"
        lines.touch()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STAGECRAFT_")}
        environment |= {"STAGECRAFT_CHECKS": "race", "STAGECRAFT_FINDINGS": "report", "STAGECRAFT_REPORT": "json",
                        "STAGECRAFT_REPORT_FILE": str(lines)}
        subprocess.run([FOLDER / program, variant], env=environment, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=60, check=False)
        done = subprocess.run([sys.executable, ROOT / "common/tools/write_sarif.py", lines], capture_output=True, text=True,
                              check=True)
    return json.loads(done.stdout)


def line_with(base: str, text: str) -> int:
    """The number of the line of a base that contains a text."""
    lines = (ROOT / "tests/bugs" / base).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


class SarifTest(unittest.TestCase):
    def check(self, log):
        """The rules that hold for each log."""
        self.assertEqual(flaws(log, "log"), [])
        self.assertEqual(log["version"], "2.1.0")
        run = log["runs"][0]
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        self.assertEqual(len(rules), len(set(rules)))
        for rule in run["tool"]["driver"]["rules"]:
            self.assertRegex(rule["helpUri"], r"^[a-z]+:")  # absolute
            self.assertTrue((ROOT / "docs/reports" / f"{rule['id']}.md").is_file())
            self.assertIn("## What to do", rule["help"]["text"])
        for result in run["results"]:
            self.assertEqual(result["ruleId"], rules[result["ruleIndex"]])
            self.assertIn(result["level"], ("error", "warning", "note", "none"))
            numbers = [location["id"] for location in result.get("relatedLocations", [])]
            self.assertEqual(len(numbers), len(set(numbers)))
        for uri in re.findall(r'"uri": "([^"]*)"', json.dumps(log)):
            self.assertNotRegex(uri, r"[\\ ]|^/")  # a relative reference
        for line in re.findall(r'"startLine": (-?\d+)', json.dumps(log)):
            self.assertGreaterEqual(int(line), 1)
        return run["results"]

    def test_a_race_has_both_lines_and_the_call_chain(self):
        result = self.check(sarif_of("ring", "leader_releases"))[0]
        self.assertEqual((result["ruleId"], result["level"]), ("race", "error"))
        at = result["locations"][0]["physicalLocation"]
        self.assertEqual(at["artifactLocation"]["uri"], "tests/bugs/ring.cu")
        self.assertEqual(at["region"]["startLine"], line_with("ring.cu", "copy_bulk(tile"))
        self.assertEqual(result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"], "sum_rows")
        other = result["relatedLocations"][0]
        self.assertIn("reads it", other["message"]["text"])
        self.assertEqual(other["physicalLocation"]["artifactLocation"]["uri"], "tests/bugs/ring.cu")
        self.assertEqual(other["physicalLocation"]["region"]["startLine"], line_with("ring.cu", "sum += tile"))
        steps = result["codeFlows"][0]["threadFlows"][0]["locations"]
        files = [step["location"]["physicalLocation"]["artifactLocation"]["uri"] for step in steps]
        self.assertEqual(files, ["tests/bugs/ring.cu", "bulk_copy.hpp"])

    def test_a_deadlock_has_the_other_waits(self):
        result = self.check(sarif_of("ring", "too_many_bytes"))[0]
        self.assertEqual(result["ruleId"], "deadlock")
        self.assertIn("1024 of 2048 bytes", result["message"]["text"])
        self.assertIn("likely cause", result["message"]["text"])
        self.assertGreaterEqual(len(result["relatedLocations"]), 1)

    def test_what_the_chip_tolerates_is_a_warning(self):
        results = self.check(sarif_of("store", "exits_while_it_is_read"))
        self.assertEqual([(result["ruleId"], result["level"]) for result in results], [("missing-wait", "warning")])

    def test_a_refused_call_has_no_line(self):
        results = self.check(sarif_of("tiles", "matrix_not_aligned"))
        self.assertEqual(results[0]["ruleId"], "refused-call")
        self.assertNotIn("locations", results[0])

    def test_a_path_becomes_a_uri(self):
        for path, uri in (("tests/bugs/ring.cu", "tests/bugs/ring.cu"), ("my kernels/a#b%.cu", "my%20kernels/a%23b%25.cu"),
                          ("/home/me/my kernels/ring.cu", "file:///home/me/my%20kernels/ring.cu")):
            self.assertEqual(write_sarif.uri(path), uri)

    def test_a_last_line_that_is_cut_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = pathlib.Path(folder) / "reports.jsonl"
            lines.write_text('{"kind": "race"}\n{"kind": "dead', encoding="utf-8")
            with contextlib.redirect_stderr(io.StringIO()) as said:
                self.assertEqual(write_sarif.read_reports(lines), [{"kind": "race"}])
            self.assertIn("the last report is cut", said.getvalue())
            lines.write_text('{"kind": "dead\n{"kind": "race"}\n', encoding="utf-8")
            self.assertRaises(json.JSONDecodeError, write_sarif.read_reports, lines)

    def test_a_right_program_has_no_result(self):
        self.assertEqual(self.check(sarif_of("ring", "right")), [])

    def test_the_schema_refuses_what_is_wrong(self):
        log = sarif_of("ring", "too_many_bytes")
        log["runs"][0]["results"][0]["lines"] = [1]
        del log["runs"][0]["tool"]["driver"]["name"]
        self.assertEqual(flaws(log, "log"),
                         ["log.runs[0].tool.driver lacks name", "log.runs[0].results[0] has a property lines"])


if __name__ == "__main__":
    unittest.main()
