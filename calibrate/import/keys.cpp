#include "calibrate/import/keys.h"

#include <cctype>
#include <filesystem>

namespace trireme::calibrate {

std::string environment_key_of(const std::string& file) {
  std::string key = std::filesystem::path(file).stem().string();
  for (char& character : key) {
    const bool plain = std::isalnum(static_cast<unsigned char>(character)) != 0 ||
                       character == '.' || character == '_' || character == '-';
    character = plain ? character : '_';
  }
  return key.empty() ? "log" : key;
}

}  // namespace trireme::calibrate
