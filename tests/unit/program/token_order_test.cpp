#include "sim/program/token_order.h"

#include <algorithm>
#include <set>
#include <vector>

#include "tests/catch.h"

namespace trireme::program {
namespace {

std::vector<std::int64_t> positions(const TokenOrder& order) {
  std::vector<std::int64_t> found;
  for (std::int64_t place = 0; place < order.sequence; ++place) {
    found.push_back(order.position(place));
  }
  return found;
}

using Positions = std::vector<std::int64_t>;

TEST_CASE("tokens in contiguous, zigzag and striped order", "[program]") {
  CHECK(positions({OrderKind::contiguous, 1, 2, 8}) == Positions{0, 1, 2, 3, 4, 5, 6, 7});
  // Four parts of two: rank 0 has parts 0 and 3, rank 1 has parts 1 and 2.
  CHECK(positions({OrderKind::zigzag, 1, 2, 8}) == Positions{0, 1, 6, 7, 2, 3, 4, 5});
  CHECK(positions({OrderKind::zigzag, 1, 3, 6}) == Positions{0, 5, 1, 4, 2, 3});
  CHECK(positions({OrderKind::striped, 1, 2, 8}) == Positions{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(positions({OrderKind::zigzag, 1, 1, 3}) == Positions{0, 1, 2});  // one rank: as it is
}

TEST_CASE("every order is a permutation, ascending on each rank", "[program]") {
  const auto kind = GENERATE(OrderKind::contiguous, OrderKind::zigzag, OrderKind::striped);
  const std::int64_t ranks = GENERATE(1, 2, 3, 8);
  const TokenOrder order{kind, 1, ranks, ranks * 10};
  CAPTURE(static_cast<int>(kind), ranks);
  const Positions found = positions(order);
  CHECK(std::set<std::int64_t>(found.begin(), found.end()).size() == found.size());
  CHECK(*std::min_element(found.begin(), found.end()) == 0);
  CHECK(*std::max_element(found.begin(), found.end()) == order.sequence - 1);
  for (std::size_t place = 1; place < found.size(); ++place) {
    if (place % 10 != 0) {
      CHECK(found[place - 1] < found[place]);
    }
  }
}

}  // namespace
}  // namespace trireme::program
