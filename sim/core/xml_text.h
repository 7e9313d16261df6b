// Text inside XML: SVG figures.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` made harmless to print, with the characters that end text or attributes of XML escaped.
[[nodiscard]] std::string xml_escaped(std::string_view text);

}  // namespace trireme
