// The words with which a builder refuses.
#pragma once

#include <string>

#include "sim/program/builder.h"

namespace trireme::program {

/// The message of the BuildError that `emit` throws; "accepted" when it throws none.
template <class Emit>
std::string refusal(Emit emit) {
  try {
    emit();
  } catch (const BuildError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace trireme::program
