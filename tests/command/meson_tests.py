"""Runs the tests of a file as Meson expects it."""

import sys
import unittest


class Result(unittest.TextTestResult):
    """Prints why a test is skipped, as the last line."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(reason, flush=True)


def main() -> None:
    """Runs the tests of the program, or those named in its arguments. Exits with 1 after a failure, 77 after a skip."""
    program = unittest.main(exit=False, testRunner=unittest.TextTestRunner(resultclass=Result))
    if not program.result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if program.result.skipped else 0)
