#include "sim/report/gzip.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <vector>
#include <zlib.h>

namespace trireme::report {

namespace {

constexpr int kWindowBits = 15;  // the largest window, 32 KiB
constexpr int kGzipHeader = 16;  // added to the window bits: gzip's header, not zlib's
constexpr int kMemoryLevel = 8;  // zlib's default
constexpr std::size_t kPiece = 1 << 16;

class Deflater {
 public:
  Deflater() {
    if (deflateInit2(&stream_,
                     Z_DEFAULT_COMPRESSION,
                     Z_DEFLATED,
                     kWindowBits + kGzipHeader,
                     kMemoryLevel,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::runtime_error("gzip: zlib cannot be started");
    }
  }

  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  ~Deflater() { deflateEnd(&stream_); }

  /// Appends what `input` compresses to; of the last one all that is left.
  void append(std::vector<Bytef>& input, bool last, std::string& to) {
    stream_.next_in = input.data();
    stream_.avail_in = static_cast<uInt>(input.size());
    std::array<Bytef, kPiece> piece{};
    do {
      stream_.next_out = piece.data();
      stream_.avail_out = static_cast<uInt>(piece.size());
      static_cast<void>(deflate(&stream_, last ? Z_FINISH : Z_NO_FLUSH));
      const std::size_t made = piece.size() - stream_.avail_out;
      std::transform(piece.begin(),
                     piece.begin() + static_cast<std::ptrdiff_t>(made),
                     std::back_inserter(to),
                     [](Bytef byte) { return static_cast<char>(byte); });
    } while (stream_.avail_out == 0);
  }

 private:
  z_stream stream_{};
};

}  // namespace

std::string gzip(std::string_view text) {
  Deflater deflater;
  std::string compressed;
  std::vector<Bytef> input;
  do {
    const std::string_view piece = text.substr(0, kPiece);
    text.remove_prefix(piece.size());
    input.assign(piece.begin(), piece.end());
    deflater.append(input, text.empty(), compressed);
  } while (!text.empty());
  return compressed;
}

}  // namespace trireme::report
