#include "sim/core/nearest.h"

#include <string>
#include <vector>

#include "tests/catch.h"

namespace trireme {
namespace {

TEST_CASE("edit distances up to two", "[core]") {
  CHECK(small_edit_distance("ring", "ring") == 0);
  CHECK(small_edit_distance("sequnce", "sequence") == 1);  // one insertion
  CHECK(small_edit_distance("uylsses", "ulysses") == 2);   // two letters exchanged
  CHECK(small_edit_distance("nodes", "node") == 1);        // one deletion
  CHECK(small_edit_distance("zero", "ring") == std::nullopt);
  CHECK(small_edit_distance("", "ab") == 2);
  CHECK(small_edit_distance(std::string(1 << 20, 'a'), "ab") == std::nullopt);
}

TEST_CASE("the nearest word, or all of them", "[core]") {
  const std::vector<std::string> known = {"ulysses", "ring", "zero", "H100-SXM"};
  CHECK(nearest("ulyses", known) == "ulysses");
  CHECK(nearest("h100-sxm", known) == "H100-SXM");  // only the case differs
  CHECK(nearest("rung", known) == "ring");
  CHECK(nearest("aero", known) == "zero");
  CHECK(nearest("rang e", known) == std::nullopt);  // two edits rewrite half of "ring"
  CHECK(nearest("tensor", known) == std::nullopt);
  CHECK(hint_near("ulysse", known) == "did you mean 'ulysses'?");
  CHECK(hint_near("tensor", known) == "accepted: ulysses, ring, zero, H100-SXM");
}

}  // namespace
}  // namespace trireme
