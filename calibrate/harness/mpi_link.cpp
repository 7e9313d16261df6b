#include "calibrate/harness/mpi_link.h"

#include <array>
#include <numeric>

namespace trireme::calibrate {

std::vector<std::string> MpiLink::exchange(const std::string& message) {
  const auto count = static_cast<std::size_t>(ranks());
  const int own = static_cast<int>(message.size());
  std::vector<int> lengths(count);
  mpi_.complete(
      "MPI_Iallgather",
      [&](MPI_Request* request) {
        return MPI_Iallgather(
            &own, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD, request);
      },
      engine::MpiCalls::Patience::sleeping);
  std::vector<int> places(count);
  std::exclusive_scan(lengths.begin(), lengths.end(), places.begin(), 0);
  const auto total =
      static_cast<std::size_t>(places.back()) + static_cast<std::size_t>(lengths.back());
  std::vector<std::string> all(count);
  if (total == 0) {
    return all;
  }
  std::string bytes(total, '\0');
  mpi_.complete(
      "MPI_Iallgatherv",
      [&](MPI_Request* request) {
        return MPI_Iallgatherv(message.data(),
                               own,
                               MPI_BYTE,
                               bytes.data(),
                               lengths.data(),
                               places.data(),
                               MPI_BYTE,
                               MPI_COMM_WORLD,
                               request);
      },
      engine::MpiCalls::Patience::sleeping);
  for (std::size_t rank = 0; rank < count; ++rank) {
    all[rank] = bytes.substr(static_cast<std::size_t>(places[rank]),
                             static_cast<std::size_t>(lengths[rank]));
  }
  return all;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), static_cast<std::size_t>(length));
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace trireme::calibrate
