#include "calibrate/harness/interruption.h"

#include <csignal>

namespace trireme::calibrate {

namespace {

volatile std::sig_atomic_t arrived = 0;

void on_signal(int signal) {
  arrived = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

void remember_interruption(bool and_termination) {
  std::signal(SIGINT, on_signal);
  if (and_termination) {
    std::signal(SIGTERM, on_signal);
  }
}

bool interrupted() {
  return arrived != 0;
}

}  // namespace trireme::calibrate
