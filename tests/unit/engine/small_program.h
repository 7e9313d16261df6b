// Programs of a few operations for the readers' tests.
#pragma once

#include <array>
#include <string_view>

#include "sim/program/builder.h"

namespace trireme::engine {

/// A builder whose first segment has begun, on a mesh of the given axes, innermost first.
inline program::Builder small_program(std::initializer_list<program::MeshAxis> axes,
                                      std::int64_t micro_batches = 1,
                                      std::int64_t layers = 1) {
  program::Mesh mesh;
  for (const program::MeshAxis& axis : axes) {
    mesh.add_axis(axis.name, axis.size);
  }
  program::Builder builder(mesh, {micro_batches, layers, 1});
  builder.begin_segment("run");
  return builder;
}

/// A tensor that is there all the time.
inline program::TensorSpec resident(std::string_view name,
                                    const program::Shape& shape,
                                    program::Layout layout = {}) {
  program::TensorSpec spec;
  spec.name = name;
  spec.shape = shape;
  spec.layout = layout;
  spec.resident = true;
  return spec;
}

/// Emits a collective from one resident tensor to another.
inline program::Op& emit_collective(program::Builder& builder,
                                    CollectiveKind kind,
                                    program::AxisMask group,
                                    const program::TensorSpec& from,
                                    const program::TensorSpec& to) {
  const std::array in{program::read(builder.declare(from))};
  const std::array out{program::write(builder.declare(to))};
  return builder.emit_collective(kind, name(kind), group, in, out);
}

}  // namespace trireme::engine
