// trireme legal: its formats, and what it says about wrong options. The degrees themselves:
// tests/unit/study/legality_test.cpp.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/support/run_trireme.h"

namespace trireme::test {
namespace {

using Json = nlohmann::json;

const Json& stack_of(const Json& document, const std::string& name) {
  const Json& stacks = document["stacks"];
  const auto found =
      std::find_if(stacks.begin(), stacks.end(), [&](const Json& s) { return s["stack"] == name; });
  REQUIRE(found != stacks.end());
  return *found;
}

const Json& degree_of(const Json& stack, int degree) {
  const Json& degrees = stack["degrees"];
  const auto found = std::find_if(
      degrees.begin(), degrees.end(), [&](const Json& d) { return d["degree"] == degree; });
  REQUIRE(found != degrees.end());
  return *found;
}

TEST_CASE("legal --json has every stack with rules, degrees and reasons", "[cli]") {
  const ProgramRun run = run_trireme("legal --model qwen2.5-14b --gpus 80 --json");
  REQUIRE(run.exit_code == 0);
  CHECK(run.error.empty());
  const Json document = Json::parse(run.out);
  CHECK(document["schema_version"] == 1);
  CHECK(document["command"] == "legal");
  CHECK(document["model"] == "qwen2.5-14b");
  CHECK(document["query_heads"] == 40);
  CHECK(document["kv_heads"] == 8);
  CHECK(document["gpus"] == 80);
  CHECK(document["sequence"].is_null());
  REQUIRE(document["stacks"].size() == 9);
  const Json& verl = stack_of(document, "verl");
  CHECK(verl["legal"] == Json({1, 2, 4, 8, 40}));
  CHECK(verl["rules"].size() == 4);
  const Json& repeated = degree_of(verl, 40);
  CHECK(repeated["legal"] == true);
  CHECK(repeated["kv_repeat"] == 5);
  CHECK(repeated["conditions"] == Json({"S % 40 = 0"}));
  const Json& refused = degree_of(verl, 16);
  CHECK(refused["legal"] == false);
  CHECK(refused["kv_repeat"].is_null());
  REQUIRE(refused["refusals"].size() == 1);
  CHECK(refused["refusals"][0]["rule"] == "ulysses-query-heads");
  CHECK(refused["refusals"][0]["message"] ==
        "the number of query heads (40) is not a multiple of 16");
}

TEST_CASE("legal reads model files as a study names them", "[cli]") {
  const TemporaryFolder folder;
  const std::string model =
      read_file(std::filesystem::path(TRIREME_SOURCE_DIR) / "models" / "qwen2.5-7b.yaml");
  for (const char* const name : {"mine.yaml", "mine.yml"}) {
    CAPTURE(name);
    write_file(folder.path() / name, model);
    const ProgramRun run = run_shell("cd '" + folder.path().string() +
                                     "' && \"$TRIREME\" legal --model " + name + " --gpus 64");
    CHECK(run.exit_code == 0);
    CHECK(run.out.find("28 query heads") != std::string::npos);
  }
}

TEST_CASE("legal reads a config.json, and says where one is wrong", "[cli]") {
  const ProgramRun run = run_trireme(
      "legal --model tests/data/hugging_face/falcon-7b.json --gpus 8 --sequence 2K --json");
  REQUIRE(run.exit_code == 0);
  const Json document = Json::parse(run.out);
  CHECK(document["model"] == "falcon-7b");
  // What config.json leaves open is said.
  CHECK(run.error.find("model.hf.head_dim: 64") != std::string::npos);
  CHECK(run.error.find("model.hf.intermediate_size: 18176") != std::string::npos);
  CHECK(document["kv_heads"] == 1);  // multi_query, whatever num_kv_heads says
  CHECK(document["sequence"] == 2048);
  CHECK(stack_of(document, "deepspeed")["legal"] == Json({1}));  // 71 heads, a prime number

  const ProgramRun wrong =
      run_trireme("legal --model tests/golden/hugging_face/misspelt-key.json --gpus 8");
  CHECK(wrong.exit_code == 3);
  CHECK(wrong.out.empty());
  CHECK(wrong.error.find("misspelt-key.json:3:3: error: missing key 'hidden_size'") !=
        std::string::npos);
}

TEST_CASE("legal --csv has a row per stack and degree", "[cli]") {
  const ProgramRun run = run_trireme(
      "legal --model llama-3.1-70b --gpus 64 --tensor-parallel 8 --sequence 128K --csv");
  REQUIRE(run.exit_code == 0);
  std::istringstream lines(run.out);
  std::string line;
  std::getline(lines, line);
  CHECK(line ==
        "stack,tensor_parallel,degree,legal,kv_repeat,rules_broken,refusals,conditions,remarks");
  CHECK(run.out.find("\nmegatron a2a,8,1,true,1,,,,\n") != std::string::npos);
  CHECK(run.out.find("\nmegatron a2a,8,2,false,,context-kv-heads,the key/value heads of a "
                     "tensor-parallel rank (1 of 8) are not a multiple of 2,,\n") !=
        std::string::npos);
  CHECK(run.out.find("\nverl,1,64,true,8,,,,\n") != std::string::npos);
}

TEST_CASE("legal: wrong options exit with 2 and the next thing to type", "[cli]") {
  struct Case {
    std::string arguments;
    std::string message;
    std::string hint;
  };

  const Case cases[] = {
      {"legal --gpus 8", "legal needs a --model", "hint: a preset (see 'trireme models')"},
      {"legal --model qwen2.5-7b", "legal needs the number of --gpus", "hint: such as --gpus 64"},
      {"legal --model qwen2.5-7 --gpus 8",
       "no model is named 'qwen2.5-7'",
       "hint: did you mean 'qwen2.5-7b'?"},
      {"legal --model qwen2.5-7b --gpus 0",
       "--gpus: '0' is out of range",
       "hint: accepted: a whole number from 1 to 524288"},
      {"legal --model qwen2.5-7b --gpus -1", "--gpus", "hint: "},
      {"legal --model qwen2.5-7b --gpus 8 --tensor-parallel two",
       "--tensor-parallel: 'two'",
       "hint: "},
      {"legal --model qwen2.5-7b --gpus 8 --sequence 128k", "--sequence: '128k'", "hint: "},
  };
  for (const Case& item : cases) {
    CAPTURE(item.arguments);
    const ProgramRun run = run_trireme(item.arguments);
    CHECK(run.exit_code == 2);
    CHECK(run.out.empty());
    CHECK(run.error.find(item.message) != std::string::npos);
    CHECK(run.error.find(item.hint) != std::string::npos);
  }
  const ProgramRun missing = run_trireme("legal --model no/such/config.json --gpus 8");
  CHECK(missing.exit_code == 3);
  CHECK(missing.error.find("no/such/config.json") != std::string::npos);
}

}  // namespace
}  // namespace trireme::test
