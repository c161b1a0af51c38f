#!/usr/bin/env python3
"""Tests which lines of a solution go when one TODO is left out."""

import sys
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import todos  # noqa: E402

EXERCISE = """\
constexpr int kStages = 1;

struct Ring {
  // TODO 1: how many?
  static constexpr int bytes = 0;
  bool is_free() const {
    // TODO 2: ask.
    return false;
  }
};

__global__ void kernel() {
  if (copies) {
    for (int row = 0; row < rows; ++row) {
      // TODO 3: wait and copy.
      (void)row;
    }
    // TODO 4: drain.
  }
  // TODO 5: one.
  // TODO 6: two.
}
"""
SOLUTION = """\
constexpr int kStages = 4;

struct Ring {
  static constexpr int bytes = 4 * kStages;
  bool is_free() const { return test_wait(); }
};

__global__ void kernel() {
  if (copies) {
    for (int row = 0; row < rows; ++row) {
      wait(row);
      copy(row);
    }
    for (int stage = 0; stage < 4; ++stage) {
      wait(stage);
    }
  }
  leave();
}
"""


class LeftOutTest(unittest.TestCase):
    def lines_left_out(self, number: int, reach: int = 100) -> set[str]:
        place = next(place for place in todos.places_of(EXERCISE) if place.number == number)
        left = todos.without(EXERCISE, SOLUTION, place, reach)
        return {line.strip() for line in set(SOLUTION.split("\n")) - set(left.split("\n"))}

    def test_a_constant_gets_its_value_of_the_exercise(self):
        self.assertEqual(self.lines_left_out(1), {"static constexpr int bytes = 4 * kStages;"})

    def test_a_function_with_one_todo_gets_its_body_of_the_exercise(self):
        self.assertEqual(self.lines_left_out(2), {"bool is_free() const { return test_wait(); }"})

    def test_equal_closing_braces_do_not_shift_what_is_left_out(self):
        self.assertEqual(self.lines_left_out(3), {"wait(row);", "copy(row);"})
        self.assertEqual(self.lines_left_out(4), {"for (int stage = 0; stage < 4; ++stage) {", "wait(stage);"})

    def test_other_differences_stay(self):
        for number in range(1, 7):
            self.assertNotIn("constexpr int kStages = 4;", self.lines_left_out(number))

    def test_the_second_of_two_todos_at_one_place_leaves_nothing_out(self):
        self.assertEqual(self.lines_left_out(5), {"leave();"})
        self.assertEqual(self.lines_left_out(6), set())


class CompilerTest(unittest.TestCase):
    LEFT = SOLUTION.replace("  static constexpr int bytes = 4 * kStages;\n", "")

    def test_a_name_that_is_left_out_is_noticed_by_the_compiler(self):
        message = 'x.cu(3): error: identifier "bytes" is undefined'
        self.assertTrue(todos.is_about_what_is_left_out(message, SOLUTION, self.LEFT))

    def test_another_error_is_a_fault(self):
        for message in ('x.cu(3): error: identifier "kStages" is undefined', "x.cu(3): error: expected a declaration", ""):
            self.assertFalse(todos.is_about_what_is_left_out(message, SOLUTION, self.LEFT))


if __name__ == "__main__":
    unittest.main()
