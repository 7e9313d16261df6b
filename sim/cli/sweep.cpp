#include <chrono>
#include <string>
#include <unistd.h>

#include <fmt/format.h>

#include "sim/cli/commands.h"
#include "sim/cli/output.h"
#include "sim/cli/study_call.h"
#include "sim/report/json.h"
#include "sim/report/study_tables.h"
#include "sim/study/evaluate.h"
#include "sim/study/law.h"

namespace trireme::cli {

namespace {

/// Points done, rate and time left on stderr, when that is a terminal and the sweep takes a while.
class Progress {
 public:
  void operator()(std::size_t done, std::size_t all) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point now = Clock::now();
    if (!on_terminal_ || (now - last_shown_ < kInterval && (!shown_ || done < all))) {
      return;
    }
    last_shown_ = now;
    shown_ = done < all;
    if (!shown_) {
      say(fmt::format("\r{:60}\r", ""));
      return;
    }
    const std::chrono::duration<double> elapsed = now - start_;
    const double rate = static_cast<double>(done) / elapsed.count();
    say(fmt::format("\r{} of {} points, {:.0f} per second, {:.0f} s left ",
                    done,
                    all,
                    rate,
                    static_cast<double>(all - done) / rate));
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{500};

  bool on_terminal_ = ::isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_shown_ = start_;
};

}  // namespace

ExitCode run_sweep(const Invocation& call) {
  const config::StudyFile file = read_study_of(call);
  if (file.points().empty()) {
    note("the study has no sweep: its base point is evaluated");
  }
  ledger::StudyResult result =
      study::sweep(file, call.text("plan"), Progress(), engine_of(call, file));
  if (const auto law = law_of(call)) {
    study::apply_law(*law, result);
  }
  note_result(result);
  write_result_as(
      call,
      [&] { return report::to_json(result, "sweep"); },
      [&] { return report::to_csv(result); },
      [&] { return report::to_terminal(result, call.color); });
  return exit_code_of(result);
}

}  // namespace trireme::cli
