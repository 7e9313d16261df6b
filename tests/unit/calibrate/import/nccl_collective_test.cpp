#include "calibrate/import/nccl_collective.h"

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

const NcclCollective& collective_of(std::string_view name) {
  const NcclCollective* const found = find_nccl_collective(name);
  REQUIRE(found != nullptr);
  return *found;
}

NcclTiming timing(const char* time, const char* algorithm, const char* bus, DataCheck check) {
  return {*parse_printed_number(time),
          *parse_printed_number(algorithm),
          *parse_printed_number(bus),
          check};
}

/// 8 GiB of fp32 in 18006 us: a row of 8 ranks, 834.84 / 477.05 = 1.75 = 2 * 7 / 8.
NcclRow all_reduce_row() {
  NcclRow row;
  row.size = 8589934592;
  row.count = 2147483648;
  row.reduction = "sum";
  row.root = -1;
  row.out_of_place = timing("18006", "477.05", "834.84", DataCheck::right);
  row.in_place = timing("17990", "477.49", "835.61", DataCheck::right);
  return row;
}

TEST_CASE("bus bandwidth over algorithm bandwidth", "[import]") {
  CHECK(bus_ratio(collective_of("all_reduce"), 8) == 1.75);
  CHECK(bus_ratio(collective_of("all_gather"), 4) == 0.75);
  CHECK(bus_ratio(collective_of("reduce_scatter"), 2) == 0.5);
  CHECK(bus_ratio(collective_of("alltoall"), 16) == 0.9375);
  CHECK(bus_ratio(collective_of("sendrecv"), 16) == 1);
  CHECK(bus_ratio(collective_of("all_reduce"), 1) == 0);
}

TEST_CASE("the ratio of the bandwidths tells the ranks", "[import]") {
  const RankRange range = ranks_by_columns(collective_of("all_reduce"), {all_reduce_row()});
  CHECK(range.least == 8);
  CHECK(range.most == 8);
  CHECK(bandwidths_agree(collective_of("all_reduce"), all_reduce_row(), 8));
  CHECK_FALSE(bandwidths_agree(collective_of("all_reduce"), all_reduce_row(), 7));
  CHECK_FALSE(bandwidths_agree(collective_of("all_reduce"), all_reduce_row(), 9));

  // Two digits tell little: 0.02 / 0.01 is anything from 0.015 / 0.015 to 0.025 / 0.005.
  NcclRow small = all_reduce_row();
  small.size = 1024;
  small.count = 256;
  small.out_of_place = timing("99.00", "0.01", "0.02", DataCheck::right);
  small.in_place.reset();
  CHECK(bandwidths_agree(collective_of("all_reduce"), small, 8));
  CHECK(bandwidths_agree(collective_of("all_reduce"), small, 4));
  CHECK_FALSE(ranks_by_columns(collective_of("all_reduce"), {small}).is_one());
}

TEST_CASE("size over count tells the ranks of collectives that split", "[import]") {
  NcclRow row = all_reduce_row();
  CHECK(count_agrees(collective_of("all_reduce"), row, 8));
  CHECK_FALSE(count_agrees(collective_of("reduce_scatter"), row, 8));
  row.count = 268435456;  // 8 GiB / 4 B / 8
  CHECK(count_agrees(collective_of("reduce_scatter"), row, 8));
  CHECK_FALSE(count_agrees(collective_of("reduce_scatter"), row, 16));
  CHECK_FALSE(count_agrees(collective_of("all_reduce"), row, 8));
  row.count = 268435455;
  CHECK_FALSE(count_agrees(collective_of("reduce_scatter"), row, 8));
  row.count = 9223372036854775807;
  CHECK_FALSE(count_agrees(collective_of("all_reduce"), row, 8));
}

TEST_CASE("one contradicting row leaves no number of ranks", "[import]") {
  NcclRow other = all_reduce_row();
  other.out_of_place = timing("18006", "477.05", "894.47", DataCheck::right);  // 1.875: 16 ranks
  other.in_place.reset();
  CHECK(ranks_by_columns(collective_of("all_reduce"), {other}).least == 16);
  CHECK(ranks_by_columns(collective_of("all_reduce"), {all_reduce_row(), other}).empty());
  other.out_of_place = timing("18006", "477.05", "999.00", DataCheck::right);  // above 2
  CHECK(ranks_by_columns(collective_of("all_reduce"), {other}).empty());
}

TEST_CASE("reduction, root and comparisons tell collectives apart", "[import]") {
  const auto shapes = [](const NcclRow& row, const std::optional<TableColumns>& columns) {
    std::vector<std::string_view> names;
    for (const NcclCollective& collective : nccl_collectives()) {
      if (has_shape_of(collective, row, columns)) {
        names.push_back(collective.name);
      }
    }
    return names;
  };
  using Names = std::vector<std::string_view>;
  TableColumns columns{.reduction = true, .root = true, .check = true, .in_place = true};
  NcclRow row = all_reduce_row();
  CHECK(shapes(row, columns) == Names{"all_reduce", "reduce_scatter"});
  row.in_place->check = DataCheck::not_done;
  CHECK(shapes(row, columns) == Names{"sendrecv"});
  row.reduction = "none";
  CHECK(shapes(row, columns) == Names{"alltoall"});
  row.in_place->check = DataCheck::right;
  CHECK(shapes(row, columns) == Names{"all_gather"});
  row.root = 0;
  CHECK(shapes(row, columns) == Names{"broadcast", "gather", "scatter"});
  row.reduction = "max";
  CHECK(shapes(row, columns) == Names{"reduce"});

  // Nothing compared: older tables tell all_gather and alltoall by the reduction's column.
  row.reduction.clear();
  row.root.reset();
  row.out_of_place->check = DataCheck::not_done;
  row.in_place->check = DataCheck::not_done;
  columns.root = false;
  CHECK(shapes(row, columns) == Names{"alltoall"});
  columns.reduction = false;
  CHECK(shapes(row, columns) == Names{"all_gather"});
  CHECK(shapes(row, std::nullopt) == Names{"all_gather", "alltoall"});
}

}  // namespace
}  // namespace trireme::calibrate
