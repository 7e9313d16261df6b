#include "sim/core/xml_text.h"

#include "sim/core/printable.h"

namespace trireme {

std::string xml_escaped(std::string_view text) {
  std::string result;
  for (const char character : printable(text)) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

}  // namespace trireme
