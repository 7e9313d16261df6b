#include "calibrate/import/nccl_row.h"

#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

constexpr const char* kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time "
    "  "
    "algbw   busbw #wrong";

TableColumns columns_of(std::string_view header) {
  const auto columns = parse_table_header(tokens_of(header));
  REQUIRE(columns);
  return *columns;
}

std::variant<NoRow, BrokenRow, NcclRow> parse(std::string_view text,
                                              const char* header = kHeader,
                                              bool ended = true) {
  LogLine line;
  line.number = 7;
  line.raw = text;
  line.text = text;
  line.ended = ended;
  const TableColumns columns = columns_of(header == nullptr ? kHeader : header);
  return parse_table_row(tokens_of(line.text), header == nullptr ? nullptr : &columns, line);
}

NcclRow row_of(std::string_view text, const char* header = kHeader) {
  const auto parsed = parse(text, header);
  REQUIRE(std::holds_alternative<NcclRow>(parsed));
  return std::get<NcclRow>(parsed);
}

std::string reason_of(std::string_view text, const char* header = kHeader, bool ended = true) {
  const auto parsed = parse(text, header, ended);
  REQUIRE(std::holds_alternative<BrokenRow>(parsed));
  return std::get<BrokenRow>(parsed).reason;
}

TEST_CASE("the header says which columns there are", "[import]") {
  const TableColumns modern = columns_of(kHeader);
  CHECK(modern.reduction);
  CHECK(modern.root);
  CHECK(modern.check);
  CHECK_FALSE(modern.check_is_error);
  CHECK(modern.in_place);

  const TableColumns old = columns_of(
      "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw "
      "error");
  CHECK_FALSE(old.reduction);
  CHECK_FALSE(old.root);
  CHECK(old.check_is_error);

  const TableColumns short_table =
      columns_of("#  size  count  type  redop  root  time  algbw  busbw");
  CHECK_FALSE(short_table.check);
  CHECK_FALSE(short_table.in_place);

  const TableColumns wide = columns_of(
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw "
      "busbw #wrong i_min i_max i_p99 i_cv% timestamp");
  CHECK(wide.per_iteration);
  CHECK(wide.timestamp);
  CHECK(columns_of("size count type redop root cputime algbw busbw #wrong cputime").cpu_time);
  CHECK_FALSE(parse_table_header(tokens_of("# the size and count of each type")));
}

TEST_CASE("a row of a modern table", "[import]") {
  const NcclRow row = row_of(
      "     1048576        262144     float     sum      -1    18.49   56.70   85.05      0    "
      "18.38 "
      "  57.04   85.57      0");
  CHECK(row.size == 1048576);
  CHECK(row.count == 262144);
  CHECK(row.type == ElementType::fp32);
  CHECK(row.reduction == "sum");
  CHECK(row.root == -1);
  CHECK(row.line == 7);
  CHECK(row.column == 6);
  REQUIRE(row.out_of_place);
  CHECK(row.out_of_place->time_us.value == 18.49);
  CHECK(row.out_of_place->bus_bandwidth.value == 85.05);
  CHECK(row.out_of_place->check == DataCheck::right);
  REQUIRE(row.in_place);
  CHECK(row.in_place->algorithm_bandwidth.value == 57.04);
  // 1048576 B / 18.49 us = 56.71 GB/s.
  CHECK(fault_of(row).empty());
}

TEST_CASE("rows of other tables", "[import]") {
  constexpr const char* kOld =
      "# size count type redop time algbw busbw error time algbw busbw error";
  const NcclRow blank = row_of("32 1 float 89.00 0.00 0.00 N/A 85.13 0.00 0.00 N/A", kOld);
  CHECK(blank.reduction.empty());
  CHECK_FALSE(blank.root);
  CHECK(blank.out_of_place->check == DataCheck::not_done);

  // Differences of fp32 up to 1e-5 passed, above they did not.
  CHECK(row_of("8 2 float sum 179.1 0.00 0.00 2e-07 176.3 0.00 0.00 1e-07", kOld)
            .out_of_place->check == DataCheck::right);
  CHECK(row_of("8 2 float sum 179.1 0.00 0.00 2e-05 176.3 0.00 0.00 1e-07", kOld)
            .out_of_place->check == DataCheck::wrong);
  CHECK(row_of("8 2 int32 sum 179.1 0.00 0.00 2e-07 176.3 0.00 0.00 0e+00", kOld)
            .out_of_place->check == DataCheck::wrong);

  CHECK_FALSE(row_of("512 16 float 87.73 0.01 0.01 N/A",
                     "# size count type time algbw busbw error time algbw busbw error")
                  .in_place);
  CHECK(row_of("8 2 float sum -1 7.84 0.00 0.00", "# size count type redop root time algbw busbw")
            .out_of_place->check == DataCheck::not_done);
  CHECK(row_of("8 8 uint8 sum -1 7.84 0.00 0.00 0 7.84 0.00 0.00 0").type == ElementType::uint8);
  CHECK(row_of("8 8 char sum -1 7.84 0.00 0.00 0 7.84 0.00 0.00 0").type == ElementType::int8);
  CHECK(row_of("8 4 bfloat16 avg -1 7.84 0.00 0.00 0 7.84 0.00 0.00 0").reduction == "avg");

  const NcclRow wide = row_of(
      "8 2 float sum -1 7.84 0.00 0.00 0 7.1 9.2 9.1 3.0 8.05 0.00 0.00 0 7.1 9.2 9.1 3.0 "
      "2026-11-30 13:25:29",
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw "
      "busbw #wrong i_min i_max i_p99 i_cv% timestamp");
  CHECK(wide.in_place->time_us.value == 8.05);
}

TEST_CASE("prefixes of launchers are passed over", "[import]") {
  constexpr const char* kRow = "8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0";
  for (const std::string prefix : {"0: ",
                                   "12:",
                                   "node01: ",
                                   "[pod/nccl-0/main] ",
                                   "worker-0  | ",
                                   "2026-11-30 13:25:29,123 ",
                                   "2026-11-30T13:25:29.123Z ",
                                   "13:25:29 ",
                                   "[12.345678] "}) {
    CAPTURE(prefix);
    const std::string text = prefix + (prefix.back() == ':' ? " " : "") + kRow;
    CHECK(row_of(text).size == 8);
  }
  CHECK(reason_of(std::string("# ") + kRow) == "a row behind something that no launcher prints");
  CHECK(reason_of(std::string("4 ") + kRow) == "a row behind something that no launcher prints");
}

TEST_CASE("a row that is cut or mixed with other output is refused", "[import]") {
  CHECK(reason_of("256 64 float sumhost01:1001:1002 [5] NCCL INFO x")
            .find("broken by other output") != std::string::npos);
  CHECK(reason_of("256 64 floathost01:1001:1002 [5] NCCL INFO x") ==
        "part of a row, mixed with other output");
  CHECK(reason_of("float sum -1 7.84 0.00 0.00 0") == "part of a row, mixed with other output");
  CHECK(reason_of("8 2 float sum -1") == "1 numbers behind the type where the header has 9");
  CHECK(reason_of("8 2 float sum -1 7.84 0.00").find("where the header has 9") !=
        std::string::npos);
  CHECK(reason_of("8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0 1").find("header has 9") !=
        std::string::npos);
  CHECK(reason_of("8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 N/").find("'N/'") !=
        std::string::npos);
  CHECK(reason_of("8 2 float sum -1 XXXXX XXX.XX XXX.XX N/A XXX XX X 0").find("'XXXXX'") !=
        std::string::npos);
  CHECK(reason_of("99999999999999999999 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0") ==
        "size or count is no number of bytes or elements");
  CHECK(reason_of("8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0",
                  "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong "
                  "timestamp") == "the row ends before its time of day");
  CHECK(std::holds_alternative<NoRow>(parse("host01:1:1 [0] NCCL INFO 8 coll channels")));
  CHECK(std::holds_alternative<NoRow>(parse("# Avg bus bandwidth    : 3.50473")));
}

TEST_CASE("at the end of a file half a row is no row", "[import]") {
  constexpr const char* kHalf = "8 2 float sum -1 7.84 0.00 0.00 0";
  CHECK_FALSE(row_of(kHalf).in_place);
  CHECK(reason_of(kHalf, kHeader, false) == "the file ends within the row");
  CHECK(reason_of("8 2 float sum -1 7.84 0.00 0.0",
                  "# size count type redop root time algbw busbw",
                  false) == "the file ends within the row");
  CHECK(std::holds_alternative<NcclRow>(
      parse("8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0", kHeader, false)));
}

TEST_CASE("a row without a header is read when its columns are all there", "[import]") {
  CHECK(row_of("8 2 float sum -1 7.84 0.00 0.00 0 8.05 0.00 0.00 0", nullptr).root == -1);
  CHECK_FALSE(row_of("8 2 float sum 7.84 0.00 0.00 0 8.05 0.00 0.00 0", nullptr).root);
  CHECK(reason_of("8 2 float sum 7.84 0.00 0.00 0", nullptr) ==
        "no header above says which columns these are");
}

TEST_CASE("time and algorithm bandwidth are checked against each other", "[import]") {
  // 4294967296 B / 19002 us = 226.03 GB/s.
  const auto fault = [](std::string_view halves) {
    return fault_of(row_of("4294967296 1073741824 float sum -1 " + std::string(halves)));
  };
  CHECK(fault("19002 226.02 339.04 0 19002 226.03 339.04 0").empty());
  CHECK(fault("19002 225.02 339.04 0 19002 226.03 339.04 0") ==
        "out-of-place: 4294967296 bytes in 19002 us are not 225.02 GB/s");
  CHECK(fault("19002 226.02 339.04 0 1902 226.03 339.04 0") ==
        "in-place: 4294967296 bytes in 1902 us are not 226.03 GB/s");
  CHECK(fault("0.00 226.02 339.04 0 19002 226.03 339.04 0") == "the out-of-place time is zero");
  CHECK(fault("19002 226.02 339.04 12 19002 226.03 339.04 0") ==
        "the out-of-place result was wrong");
  // A mantissa of two digits allows 1.65e4 to 1.75e4 us: 245.4 to 260.3 GB/s.
  CHECK(fault("1.7e+04 250.00 375.00 0 19002 226.03 339.04 0").empty());
  CHECK_FALSE(fault("1.7e+04 261.00 391.50 0 19002 226.03 339.04 0").empty());
}

}  // namespace
}  // namespace trireme::calibrate
