#include "sim/report/table.h"

#include "sim/report/csv.h"
#include "sim/report/listing.h"
#include "tests/catch.h"

namespace trireme::report {
namespace {

Table small_table() {
  Table table;
  table.columns = {{"plan", Align::left}, {"GiB", Align::right}};
  table.add({"a|b", "1.00"});
  table.add({"µs", "10.00"});
  return table;
}

TEST_CASE("a table on a terminal is aligned by characters", "[unit]") {
  CHECK(to_terminal(small_table(), false) ==
        "plan    GiB\n"
        "----  -----\n"
        "a|b    1.00\n"
        "µs    10.00\n");
  CHECK(to_terminal(small_table(), true).starts_with("\x1b[1mplan    GiB\x1b[0m\n"));
}

TEST_CASE("a table as markdown escapes what would end a cell", "[unit]") {
  CHECK(to_markdown(small_table()) ==
        "| plan | GiB |\n"
        "|---|---:|\n"
        "| a\\|b | 1.00 |\n"
        "| µs | 10.00 |\n");
}

TEST_CASE("cells of CSV are quoted where they must be", "[unit]") {
  CHECK(csv_line({"", "a", "b,c", "d\"e", "f\ng"}) == ",a,\"b,c\",\"d\"\"e\",\"f\ng\"\n");
}

TEST_CASE("a listing shows people units and gives machines numbers", "[unit]") {
  Listing listing;
  listing.command = "things";
  listing.columns = {{"name", "thing"}, {"bytes", "memory"}, {"known", "known"}, {"note", "note"}};
  listing.rows = {{std::string("x"), Bytes(2147483648), true, Cell()}};
  CHECK(to_terminal(listing, false) ==
        "thing  memory  known  note\n"
        "-----  ------  -----  ----\n"
        "x       2 GiB  yes    -\n");
  CHECK(to_csv(listing) == "name,bytes,known,note\nx,2147483648,true,\n");
  CHECK(to_json(listing) ==
        "{\n"
        "  \"schema_version\": 1,\n"
        "  \"command\": \"things\",\n"
        "  \"rows\": [\n"
        "    {\n"
        "      \"name\": \"x\",\n"
        "      \"bytes\": 2147483648,\n"
        "      \"known\": true,\n"
        "      \"note\": null\n"
        "    }\n"
        "  ]\n"
        "}\n");
}

}  // namespace
}  // namespace trireme::report
