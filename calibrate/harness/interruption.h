// Ctrl-C, which ends a run after the sample that it is at.
#pragma once

namespace trireme::calibrate {

/// From here on SIGINT, and SIGTERM with `and_termination`, is remembered instead of ending the
/// process; a second one ends it.
void remember_interruption(bool and_termination);

[[nodiscard]] bool interrupted();

}  // namespace trireme::calibrate
