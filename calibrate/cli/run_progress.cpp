#include "calibrate/cli/run_progress.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "calibrate/cli/invocation.h"
#include "sim/core/printable.h"

namespace trireme::calibrate {

namespace {

std::string minutes(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return whole < 60 ? fmt::format("{} s", whole)
                    : fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

}  // namespace

void Current::set(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

std::string Current::during() {
  const std::lock_guard lock(mutex_);
  return what_.empty() ? "" : "; at " + what_;
}

Current& current() {
  static Current value;
  return value;
}

void say_failure(const std::string& reason) {
  say(
      fmt::format("trireme-calibrate: error: {}{}\nhint: what was measured is kept; the same "
                  "command goes on from there\n",
                  reason,
                  current().during()));
}

Progress::Progress(bool speaks)
    : shows_(speaks && ::isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

Progress::~Progress() {
  clear();
}

void Progress::begin(const Point& point, std::int64_t at, std::int64_t of) {
  current().set(in_words(point));
  if (!shows_) {
    return;
  }
  clear();
  ++begun_;
  const std::chrono::duration<double> elapsed = Clock::now() - start_;
  const double each = elapsed.count() / static_cast<double>(std::max<std::int64_t>(begun_ - 1, 1));
  const std::string left =
      begun_ == 1
          ? ""
          : fmt::format(", about {} left", minutes(each * static_cast<double>(of - at + 1)));
  constexpr std::size_t kWidth = 79;
  say(fmt::format("[{}/{}{}] {}", at, of, left, in_words(point)).substr(0, kWidth));
  dirty_ = true;
}

void Progress::left_out(const Point& point, const std::string& reason) {
  clear();
  note(fmt::format("left out: {}: {}", in_words(point), printable(reason)));
}

void Progress::clear() {
  if (dirty_) {
    say("\r\x1b[K");
    dirty_ = false;
  }
}

}  // namespace trireme::calibrate
