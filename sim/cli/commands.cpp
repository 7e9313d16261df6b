#include "sim/cli/commands.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "sim/core/nearest.h"
#include "sim/core/printable.h"

namespace trireme::cli {

namespace po = boost::program_options;

namespace {

void add_plan(po::options_description& options) {
  options.add_options()(
      "plan", po::value<std::string>()->value_name("NAME"), "look at this plan alone");
}

void add_engine(po::options_description& options) {
  options.add_options()("engine",
                        po::value<std::string>()->value_name("NAME"),
                        "whose seconds: analytic (default), event: a clock of streams, or both");
}

void add_evaluation(po::options_description& options) {
  add_plan(options);
  add_engine(options);
  options.add_options()("law",
                        po::value<std::string>()->value_name("FILE"),
                        "a law of step times, whose seconds stand beside the others");
}

void add_trace(po::options_description& options) {
  options.add_options()("plan",
                        po::value<std::string>()->value_name("NAME"),
                        "the plan; may be left out when the study has one")(
      "gzip", po::bool_switch(), "compress it, as -o FILE.gz does");
}

void add_one_plan(po::options_description& options) {
  options.add_options()("plan",
                        po::value<std::string>()->value_name("NAME"),
                        "the plan; may be left out when the study has one");
}

void add_explain(po::options_description& options) {
  options.add_options()("plan",
                        po::value<std::string>()->value_name("NAME"),
                        "the plan; may be left out when the study has one")(
      "owners",
      po::value<std::string>()->value_name("TxH"),
      "draw owners for T tokens and H heads, such as 16x8");
}

void add_legal(po::options_description& options) {
  options.add_options()("model",
                        po::value<std::string>()->value_name("MODEL"),
                        "a preset, a model file, or a config.json of Hugging Face")(
      "gpus", po::value<std::string>()->value_name("N"), "GPUs that the degrees divide")(
      "sequence",
      po::value<std::string>()->value_name("TOKENS"),
      "tokens of a sequence, such as 128K; without it, its rules are conditions")(
      "tensor-parallel",
      po::value<std::string>()->value_name("T"),
      "tensor-parallel ranks beside the degree, where a stack has them; 1 without it");
}

void add_verify(po::options_description& options) {
  add_plan(options);
  options.add_options()("transport",
                        po::value<std::string>()->value_name("KIND"),
                        "how ranks exchange messages: threads (default), or mpi under mpirun")(
      "full-trace", po::bool_switch(), "print each operation with shapes and owners")(
      "time", po::bool_switch(), "run larger sizes and print the wall-clock of phases and steps")(
      "full-size", po::bool_switch(), "run the sizes that the study states: what compare predicts");
}

void add_validate(po::options_description& options) {
  options.add_options()("markdown", po::bool_switch(), "print the page of docs/accuracy.md")(
      "bands", po::bool_switch(), "print the bands of topologies/accuracy/public.yaml")(
      "svg", po::bool_switch(), "draw predicted over expected, a row per source");
}

constexpr std::array kCommands = {
    Command{"compare",
            "which of my plans wins?",
            "STUDY.yaml",
            Writes::result,
            "  trireme compare reports/ulysses-vs-megatron/study.yaml\n"
            "  trireme compare study.yaml --plan hybrid --json\n"
            "  trireme compare study.yaml --engine both\n",
            add_evaluation,
            run_compare},
    Command{"sweep",
            "how does that change with length, GPUs, bandwidth, ...?",
            "STUDY.yaml",
            Writes::result,
            "  trireme sweep reports/ulysses-vs-megatron/study.yaml\n"
            "  trireme sweep study.yaml --csv -o sweep.csv\n",
            add_evaluation,
            run_sweep},
    Command{"explain",
            "where does the number come from?",
            "STUDY.yaml",
            Writes::result,
            "  trireme explain study.yaml --plan hybrid\n"
            "  trireme explain study.yaml --plan hybrid --owners 16x8\n"
            "  trireme explain study.yaml --plan hybrid --json -o hybrid.json\n",
            add_explain,
            run_explain},
    Command{"verify",
            "is the program right? executes it with real numbers on every rank",
            "STUDY.yaml",
            Writes::result,
            "  trireme verify reports/ulysses-vs-megatron/study.yaml\n"
            "  trireme verify study.yaml --plan hybrid --full-trace\n"
            "  mpirun -n 8 trireme verify study.yaml --transport mpi\n"
            "  mpirun -n 2 trireme verify small.yaml --transport mpi --time --full-size\n",
            add_verify,
            run_verify},
    Command{"trace",
            "when does what happen? a trace for Perfetto (ui.perfetto.dev) or Chrome",
            "STUDY.yaml",
            Writes::file,
            "  trireme trace reports/ulysses-vs-megatron/study.yaml --plan hybrid -o hybrid.json\n"
            "  trireme trace study.yaml --plan hybrid -o hybrid.json.gz\n",
            add_trace,
            run_trace},
    Command{"report",
            "show my team: report.md and table.csv of a study",
            "STUDY.yaml",
            Writes::folder,
            "  trireme report reports/ulysses-vs-megatron/study.yaml -o build/report\n"
            "  trireme report study.yaml --engine both -o report\n",
            add_engine,
            run_report},
    Command{"max-seq",
            "how long a sequence can I train on?",
            "STUDY.yaml",
            Writes::result,
            "  trireme max-seq reports/ulysses-vs-megatron/study.yaml\n"
            "  trireme max-seq study.yaml --plan hybrid --json\n",
            add_plan,
            run_max_seq},
    Command{"memory",
            "what fills a GPU's memory over the step?",
            "STUDY.yaml",
            Writes::result,
            "  trireme memory reports/ulysses-vs-megatron/study.yaml --plan hybrid\n"
            "  trireme memory study.yaml --plan hybrid --csv -o memory.csv\n",
            add_one_plan,
            run_memory},
    Command{"legal",
            "which degrees does my framework allow for this model and number of GPUs?",
            "",
            Writes::result,
            "  trireme legal --model qwen2.5-14b --gpus 64\n"
            "  trireme legal --model llama-3.1-70b --gpus 64 --tensor-parallel 8 --sequence 128K\n"
            "  trireme legal --model path/config.json --gpus 16 --json\n",
            add_legal,
            run_legal},
    Command{
        "validate",
        "how far off are you? published runs against predictions; exit code 5 beyond the bounds",
        "[CASES.yaml]",
        Writes::result,
        "  trireme validate\n"
        "  trireme validate my-runs.yaml --json\n"
        "  trireme validate --markdown -o accuracy.md\n",
        add_validate,
        run_validate},
    Command{"models",
            "which models are there?",
            "",
            Writes::result,
            "  trireme models\n"
            "  trireme models --data my-presets\n",
            nullptr,
            run_models},
    Command{"clusters",
            "which clusters and GPUs are there?",
            "",
            Writes::result,
            "  trireme clusters --json\n",
            nullptr,
            run_clusters},
    Command{"plans",
            "which plans, and which parts to compose them of, are there?",
            "",
            Writes::result,
            "  trireme plans\n",
            nullptr,
            run_plans},
    Command{"profiles",
            "which machines' coefficients are there?",
            "",
            Writes::result,
            "  trireme profiles --csv\n",
            nullptr,
            run_profiles},
    Command{"calibrate",
            "how fast is my cluster? measures and fits by trireme-calibrate",
            "COMMAND ...",
            Writes::by_another_program,
            "",
            nullptr,
            run_calibrate},
    Command{"help",
            "how is a command used?",
            "[COMMAND]",
            Writes::text,
            "  trireme help compare\n",
            nullptr,
            run_help},
};

}  // namespace

std::span<const Command> command_table() {
  return kCommands;
}

const Command& find_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (command.name == name) {
      return command;
    }
    names.emplace_back(command.name);
  }
  throw Error(ErrorKind::command_line,
              SourceLocation{.file = "trireme"},
              fmt::format("no command is named {}", in_quotes(name)),
              hint_near(name, names));
}

}  // namespace trireme::cli
