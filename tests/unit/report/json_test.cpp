#include "sim/report/json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "tests/catch.h"

namespace trireme::report {
namespace {

using Json = nlohmann::ordered_json;
using ledger::index;

/// A result of one legal plan whose ledgers are filled by hand, and one illegal plan.
ledger::StudyResult two_rows() {
  ledger::StudyResult result;
  result.name = "s";
  result.profile = "h100";
  ledger::PlanResult legal;
  legal.plan = "a";
  legal.point = {{"workload.sequence", "1K", std::int64_t{1024}}};
  legal.verdict = ledger::Verdict::fits;
  legal.reasons = {"because"};
  legal.rank_class = "the largest";
  legal.capacity = Bytes(80);
  ledger::PlanNumbers& numbers = legal.numbers.emplace();
  numbers.bytes.book(
      {Phase::forward, Traffic::activations, Component::mlp, CollectiveKind::all_gather},
      Bytes(10),
      Bytes(4),
      Bytes(11));
  numbers.bytes.book(
      {Phase::backward, Traffic::gradients, Component::norm, CollectiveKind::all_reduce},
      Bytes(6),
      Bytes(0),
      Bytes(5));
  numbers.bytes.book(
      {Phase::optimizer, Traffic::optimizer, Component::clipping, CollectiveKind::all_reduce},
      Bytes(1),
      Bytes(0),
      Bytes(1));
  numbers.memory.allocated = Bytes(70);
  numbers.memory.instant = "backward";
  numbers.device.reserved = Bytes(73);
  numbers.device.reserved_low = Bytes(71);
  numbers.device.reserved_high = Bytes(75);
  numbers.device.outside[index(ledger::OutsideItem::nccl_rings)] = Bytes(4);
  numbers.memory.by_item[index(MemoryItem::temporaries)] = Bytes(70);
  ledger::StepResult& step = numbers.step.emplace();
  step.time.step = Seconds(1.0 / 3);
  step.mfu = 0.5;
  step.bound_by = ledger::Bound::communication;
  ledger::PlanResult illegal;
  illegal.plan = "b";
  illegal.point = legal.point;
  illegal.reasons = {"x, y", "z"};
  illegal.capacity = Bytes(80);
  result.rows = {legal, illegal};
  return result;
}

/// Every leaf below `value`.
void leaves(const Json& value, std::vector<Json>& found) {
  if (!value.is_structured()) {
    found.push_back(value);
    return;
  }
  for (const Json& child : value) {
    leaves(child, found);
  }
}

TEST_CASE("a row's sent bytes are booked under every heading and sum to the total", "[unit]") {
  const Json document = Json::parse(to_json(two_rows(), "compare"));
  CHECK(document["schema_version"] == 1);
  CHECK(document["command"] == "compare");
  const Json& row = document["rows"][0];
  CHECK(row["point"]["workload.sequence"] == 1024);
  const Json& sent = row["sent_bytes_per_rank"];
  CHECK(sent["total"] == 17);  // 10 + 6 + 1
  CHECK(sent["received"] == 17);
  CHECK(sent["by_phase"]["forward"] == 10);
  CHECK(sent["by_phase"]["optimizer"] == 1);
  CHECK(sent["activations"]["mlp"] == 10);
  CHECK(sent["gradients"]["norm"] == 6);
  CHECK(sent["optimizer"] == 1);
  CHECK(sent["by_collective"]["all_reduce"] == 7);
  CHECK(sent["by_link"]["nvlink"] == 13);
  CHECK(sent["by_link"]["nic"] == 4);
  CHECK(row["peak_memory_bytes"]["allocated"] == 70);
  CHECK(row["peak_memory_bytes"]["reserved"] == 73);
  CHECK(row["peak_memory_bytes"]["reserved_high"] == 75);
  CHECK(row["peak_memory_bytes"]["outside"]["nccl_rings"] == 4);
  CHECK(row["peak_memory_bytes"]["device"] == 77);
  CHECK(row["next_lever"]["change"].is_null());
  CHECK(row["step_time_seconds"].dump() == "0.333333333");
  CHECK(row["step_time_band"].is_null());
  CHECK(row["bound_by"] == "communication");
}

TEST_CASE("an illegal plan's numbers are null, under the same names", "[unit]") {
  const Json document = Json::parse(to_json(two_rows(), "compare"));
  Json legal = document["rows"][0];
  Json illegal = document["rows"][1];
  CHECK(illegal["verdict"] == "illegal");
  CHECK(illegal["reasons"] == Json({"x, y", "z"}));
  CHECK(legal["reasons"].size() == 2);  // that its memory fits, and "because"
  CHECK(legal.flatten().size() == illegal.flatten().size());
  std::vector<Json> numbers;
  leaves(illegal["sent_bytes_per_rank"], numbers);
  leaves(illegal["peak_memory_bytes"], numbers);
  CHECK(numbers.size() > 40);
  CHECK(
      std::all_of(numbers.begin(), numbers.end(), [](const Json& leaf) { return leaf.is_null(); }));
  CHECK(illegal["step_time_seconds"].is_null());
  CHECK(illegal["mfu"].is_null());
}

TEST_CASE("bytes that no heading would show are a bug", "[unit]") {
  ledger::StudyResult result = two_rows();
  result.rows[0].numbers->bytes.book(
      {Phase::forward, Traffic::gradients, Component::loss, CollectiveKind::all_reduce},
      Bytes(1),
      Bytes(0),
      Bytes(1));
  CHECK_THROWS_AS(to_json(result, "compare"), std::logic_error);
}

TEST_CASE("CSV has the fields of the JSON, one line a row", "[unit]") {
  const std::string text = to_csv(two_rows());
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
  const std::string titles = text.substr(0, text.find('\n'));
  CHECK(titles.starts_with("plan,point.workload.sequence,verdict,reasons,what_if,rank_class,"));
  CHECK(titles.find("sent_bytes_per_rank.by_link.nic") != std::string::npos);
  CHECK(text.find("gradients 0.00 GiB; because\",,the largest,17,17,10,0,6,1,") !=
        std::string::npos);
  CHECK(text.find("\nb,1024,illegal,\"x, y; z\",,") != std::string::npos);
}

TEST_CASE("seconds of each engine, of each collective and of many runs", "[unit]") {
  ledger::StudyResult result = two_rows();
  result.engine = ledger::Engine::both;
  ledger::PlanNumbers& numbers = *result.rows[0].numbers;
  numbers.step->exposed_is_split = true;
  numbers.step->time.exposed_by_collective[index(CollectiveKind::all_to_all)] = Seconds(0.25);
  numbers.step->distribution.emplace();
  numbers.step->distribution->steps = {Seconds(1), Seconds(3)};
  numbers.step->distribution->quantile_95 = Seconds(2.9);
  numbers.by_reader.event = numbers.step->time;
  result.rows[0].what_if = {"nothing overlaps"};
  const Json document = Json::parse(to_json(result, "compare"));
  CHECK(document["engine"] == "both");
  const Json& row = document["rows"][0];
  CHECK(row["what_if"] == Json({"nothing overlaps"}));
  CHECK(row["exposed_seconds_by_collective"]["all_to_all"] == 0.25);
  CHECK(row["exposed_seconds_by_collective"]["all_gather"] == 0.0);
  CHECK(row["step_time_distribution"]["runs"] == 2);
  CHECK(row["step_time_distribution"]["p95"] == 2.9);
  CHECK(row["by_engine"]["event"]["step_time_seconds"] == row["step_time_seconds"]);
  CHECK(row["by_engine"]["analytic"]["step_time_seconds"].is_null());
  // The analytic engine does not split what is exposed.
  const Json analytic = Json::parse(to_json(two_rows(), "compare"))["rows"][0];
  CHECK(analytic["exposed_seconds_by_collective"]["all_to_all"].is_null());
  CHECK(analytic["step_time_distribution"]["p50"].is_null());
  CHECK(analytic["what_if"].empty());
}

TEST_CASE("a sweep's document has its crossovers and walls", "[unit]") {
  ledger::StudyResult result = two_rows();
  result.crossovers = {{"a", "b", "workload.sequence", 62464}};
  ledger::MemoryWall wall;
  wall.plan = "a";
  wall.key = "workload.sequence";
  wall.first_that_does_not = {"workload.sequence", "1M", std::int64_t{1048576}};
  result.walls = {wall};
  const Json document = Json::parse(to_json(result, "sweep"));
  CHECK(document["crossovers"][0]["at"] == 62464);
  CHECK(document["crossovers"][0]["faster_below"] == "a");
  CHECK(document["memory_walls"][0]["last_that_fits"].is_null());
  CHECK(document["memory_walls"][0]["first_that_does_not"] == 1048576);
  CHECK_FALSE(Json::parse(to_json(result, "compare")).contains("crossovers"));
}

}  // namespace
}  // namespace trireme::report
