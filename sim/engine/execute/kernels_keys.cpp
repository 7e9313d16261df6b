// Keys of latent attention: a part of each head and a part that all heads share, side by side.
#include "sim/engine/execute/kernels.h"

namespace trireme::engine {

// k[.., head, :] = (own[.., head, :], shared[..., :])
// Source: deepseek2024-v2, section 2.1.3, equation 16
void assemble_keys(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& own = operands[0];
  const LocalTensor& shared = operands[1];
  LocalTensor& keys = operands[2];
  const auto own_dim = static_cast<std::size_t>(own.extent[3]);
  const auto shared_dim = static_cast<std::size_t>(feature_count(shared));
  const auto whole_dim = static_cast<std::size_t>(keys.extent[3]);
  ensure(own_dim + shared_dim == whole_dim && token_count(own) == token_count(keys) &&
             token_count(shared) == token_count(keys) && own.extent[2] == keys.extent[2],
         "assemble_keys: parts that do not make a key");
  for (std::int64_t token = 0; token < token_count(keys); ++token) {
    const auto mine = features_of(own, token);
    const auto common = features_of(shared, token);
    const auto key = features_of(keys, token);
    for (std::size_t head = 0; head * whole_dim < key.size(); ++head) {
      std::copy_n(mine.begin() + static_cast<std::ptrdiff_t>(head * own_dim),
                  own_dim,
                  key.begin() + static_cast<std::ptrdiff_t>(head * whole_dim));
      std::copy(common.begin(),
                common.end(),
                key.begin() + static_cast<std::ptrdiff_t>(head * whole_dim + own_dim));
    }
  }
}

void assemble_keys_backward(const KernelContext& /*context*/, Operands operands) {
  const LocalTensor& d_keys = operands[0];
  LocalTensor& d_own = operands[1];
  LocalTensor& d_shared = operands[2];
  const auto own_dim = static_cast<std::size_t>(d_own.extent[3]);
  const auto whole_dim = static_cast<std::size_t>(d_keys.extent[3]);
  ensure(own_dim + static_cast<std::size_t>(feature_count(d_shared)) == whole_dim,
         "assemble_keys: parts that do not make a key");
  std::fill(d_shared.values.begin(), d_shared.values.end(), 0.0);
  for (std::int64_t token = 0; token < token_count(d_keys); ++token) {
    const auto key = features_of(d_keys, token);
    const auto mine = features_of(d_own, token);
    const auto common = features_of(d_shared, token);
    for (std::size_t head = 0; head * whole_dim < key.size(); ++head) {
      for (std::size_t i = 0; i < whole_dim; ++i) {
        const double gradient = key[head * whole_dim + i];
        if (i < own_dim) {
          mine[head * own_dim + i] = gradient;
        } else {
          common[i - own_dim] += gradient;
        }
      }
    }
  }
}

}  // namespace trireme::engine
