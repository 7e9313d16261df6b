#include "sim/engine/execute/dense_reference.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/catch.h"

using namespace trireme::engine;

namespace {

/// Moderate numbers without a pattern that a wrong index could hide in.
double wave(std::size_t seed, std::size_t index) {
  const auto x = static_cast<double>(1 + index) * (1.7 + 0.31 * static_cast<double>(seed));
  return std::sin(x * x);
}

DenseValues some_parameters(const DenseModel& model) {
  DenseValues values = dense_zeros(model);
  std::size_t seed = 0;
  for (auto& [name, instances] : values) {
    const bool norm_weight = name.find("norm weight") != std::string::npos;
    for (std::vector<double>& instance : instances) {
      ++seed;
      for (std::size_t i = 0; i < instance.size(); ++i) {
        instance[i] = (norm_weight ? 1.0 : 0.0) + 0.4 * wave(seed, i);
      }
    }
  }
  return values;
}

DenseBatch some_batch(const DenseModel& model, std::int64_t sequences, std::int64_t sequence) {
  DenseBatch batch;
  batch.sequences = sequences;
  batch.sequence = sequence;
  for (std::int64_t t = 0; t < sequences * sequence; ++t) {
    if (model.vocabulary > 0) {
      batch.ids.push_back((3 * t + 1) % model.vocabulary);
      batch.labels.push_back((5 * t + 2) % model.vocabulary);
    } else {
      for (std::int64_t i = 0; i < model.hidden; ++i) {
        batch.input.push_back(wave(91, static_cast<std::size_t>(t * model.hidden + i)));
      }
    }
  }
  return batch;
}

struct Case {
  const char* name;
  DenseModel model;
};

/// Grouped queries, SwiGLU, RMSNorm, rotary, a tied vocabulary; a·d is not h.
DenseModel llama_like() {
  DenseModel model;
  model.layers = 2;
  model.hidden = 5;
  model.heads = 4;
  model.kv_heads = 2;
  model.head_dim = 2;
  model.mlp_width = 3;
  model.vocabulary = 7;
  model.tied_embeddings = true;
  return model;
}

/// Multi-head, GELU, LayerNorm, every bias, learned positions, its own head.
DenseModel gpt_like() {
  DenseModel model;
  model.layers = 2;
  model.hidden = 4;
  model.heads = 3;
  model.kv_heads = 3;
  model.head_dim = 3;
  model.mlp_width = 5;
  model.vocabulary = 6;
  model.position_rows = 5;
  model.swiglu = false;
  model.rmsnorm = false;
  model.rotary = false;
  model.qkv_bias = true;
  model.output_bias = true;
  model.mlp_bias = true;
  return model;
}

DenseModel without_vocabulary() {
  DenseModel model = llama_like();
  model.vocabulary = 0;
  model.tied_embeddings = false;
  model.causal = false;
  model.qkv_bias = true;
  return model;
}

/// (f(x + e) - f(x - e)) / 2e of the loss with respect to one number.
template <class Loss>
double slope(double& number, Loss loss) {
  constexpr double kStep = 1e-5;
  const double middle = number;
  number = middle + kStep;
  const double above = loss();
  number = middle - kStep;
  const double below = loss();
  number = middle;
  return (above - below) / (2 * kStep);
}

}  // namespace

TEST_CASE("dense reference: gradients equal central finite differences", "[execute]") {
  const Case picked = GENERATE(Case{"llama-like", llama_like()},
                               Case{"gpt-like", gpt_like()},
                               Case{"without vocabulary", without_vocabulary()});
  const DenseModel& model = picked.model;
  DenseValues parameters = some_parameters(model);
  DenseBatch batch = some_batch(model, 2, 4);
  const ExecutionConstants constants{.rmsnorm = model.rmsnorm};
  const auto loss = [&] { return dense_step(model, constants, parameters, batch).loss; };
  const DenseResult result = dense_step(model, constants, parameters, batch);

  for (auto& [name, instances] : parameters) {
    for (std::size_t instance = 0; instance < instances.size(); ++instance) {
      for (std::size_t i = 0; i < instances[instance].size(); ++i) {
        CAPTURE(picked.name, name, instance, i);
        CHECK(result.gradients.at(name)[instance][i] ==
              Approx(slope(instances[instance][i], loss)).epsilon(1e-6).margin(1e-8));
      }
    }
  }
  for (std::size_t i = 0; i < batch.input.size(); ++i) {
    CAPTURE(picked.name, i);
    CHECK(result.input_gradient[i] ==
          Approx(slope(batch.input[i], loss)).epsilon(1e-6).margin(1e-8));
  }
}

TEST_CASE("dense reference: the gradient of the input through an embedding", "[execute]") {
  // With every token its own id and no other use of the table, row `id` of its gradient is the
  // gradient of the first residual stream at that token.
  DenseModel model = gpt_like();
  model.position_rows = 0;
  DenseBatch batch = some_batch(model, 1, 4);
  batch.ids = {2, 0, 5, 3};
  const DenseResult result =
      dense_step(model, ExecutionConstants{.rmsnorm = false}, some_parameters(model), batch);
  const std::vector<double>& table = result.gradients.at("embedding table")[0];
  for (std::size_t t = 0; t < batch.ids.size(); ++t) {
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(result.input_gradient[4 * t + i] ==
            table[4 * static_cast<std::size_t>(batch.ids[t]) + i]);
    }
  }
}

TEST_CASE("dense reference: a layer small enough to compute by hand", "[execute]") {
  // One token, one head of width 2, h = 2: attention to itself returns the value, so
  // x1 = x + Wo Wv n(x). RMSNorm of (3, 4): mean square 12.5, so n = (3, 4) / sqrt(12.5 + 1e-5).
  DenseModel model;
  model.hidden = 2;
  model.heads = 1;
  model.kv_heads = 1;
  model.head_dim = 2;
  model.mlp_width = 1;
  DenseValues parameters = dense_zeros(model);
  parameters["attention norm weight"][0] = {1, 2};
  parameters["mlp norm weight"][0] = {1, 1};
  // Rows: query (2), key (2), value (2): the value is (n0, n0 + n1).
  parameters["qkv weight"][0] = {7, 7, 7, 7, 9, 9, 9, 9, 1, 0, 1, 1};
  parameters["attention output weight"][0] = {2, 0, 0, 1};
  // The MLP's up weight is zero, so it adds nothing.
  DenseBatch batch;
  batch.input = {3, 4};
  const DenseResult result = dense_step(model, {}, parameters, batch);
  const double r = std::sqrt(12.5 + 1e-5);
  CHECK(result.output[0] == Approx(3 + 2 * 3 / r).epsilon(1e-14));
  CHECK(result.output[1] == Approx(4 + (3 + 2 * 4) / r).epsilon(1e-14));
  const double x0 = 3 + 6 / r;
  const double x1 = 4 + 11 / r;
  CHECK(result.loss == Approx((x0 * x0 + x1 * x1) / 2).epsilon(1e-14));
}

TEST_CASE("dense reference: the loss is a mean over the step's tokens", "[execute]") {
  // A table and head of zeros make every class equally likely: ln V for each token, whatever the
  // number of sequences, and a head gradient of zero since the final norm's input is zero.
  DenseModel model = gpt_like();
  DenseValues parameters = dense_zeros(model);
  for (const std::int64_t sequences : {1, 3}) {
    const DenseResult result = dense_step(
        model, ExecutionConstants{.rmsnorm = false}, parameters, some_batch(model, sequences, 4));
    CHECK(result.loss == Approx(std::log(6.0)).epsilon(1e-14));
  }

  // Repeating the batch changes neither loss nor gradients.
  parameters = some_parameters(model);
  DenseBatch once = some_batch(model, 1, 4);
  DenseBatch twice = once;
  twice.sequences = 2;
  twice.ids.insert(twice.ids.end(), once.ids.begin(), once.ids.end());
  twice.labels.insert(twice.labels.end(), once.labels.begin(), once.labels.end());
  const ExecutionConstants constants{.rmsnorm = false};
  const DenseResult one = dense_step(model, constants, parameters, once);
  const DenseResult two = dense_step(model, constants, parameters, twice);
  CHECK(two.loss == Approx(one.loss).epsilon(1e-14));
  CHECK(two.gradient_norm == Approx(one.gradient_norm).epsilon(1e-13));
}

TEST_CASE("dense reference: a causal token does not see what follows", "[execute]") {
  DenseModel model = without_vocabulary();
  const DenseValues parameters = some_parameters(model);
  DenseBatch batch = some_batch(model, 1, 4);
  DenseBatch changed = batch;
  changed.input.back() += 1;  // the last token
  for (const bool causal : {true, false}) {
    model.causal = causal;
    const DenseResult before = dense_step(model, {}, parameters, batch);
    const DenseResult after = dense_step(model, {}, parameters, changed);
    CHECK((before.output[0] == after.output[0]) == causal);
    CHECK(before.output.back() != after.output.back());
  }
}

TEST_CASE("dense reference: one AdamW step by hand", "[execute]") {
  // First step: m / (1 - b1) = g and v / (1 - b2) = g^2, so the direction is g / (|g| + eps).
  DenseModel model;  // h = 1: the norm weights have one element
  DenseValues parameters = dense_zeros(model);
  DenseMoments moments{dense_zeros(model), dense_zeros(model)};
  DenseResult result;
  result.gradients = dense_zeros(model);
  parameters["mlp norm weight"][0][0] = 2;
  result.gradients["mlp norm weight"][0][0] = 30;
  result.gradients["attention norm weight"][0][0] = 40;
  result.gradient_norm = 50;
  ExecutionConstants constants;
  constants.learning_rate = 0.5;
  constants.weight_decay = 0.1;
  constants.clip_norm = 5;  // gradients shrink by 5 / 50: to 3 and 4
  constants.adam_epsilon = 1;
  constexpr double kClipped = 1e-7;  // pytorch divides by the norm plus 1e-6

  SECTION("clipped") {
    dense_adamw(constants, true, result, parameters, moments);
    // 2 - 0.5 (3 / (3 + 1) + 0.1 · 2) = 2 - 0.5 · 0.95
    CHECK(parameters["mlp norm weight"][0][0] == Approx(1.525).epsilon(kClipped));
    // 0 - 0.5 · 4 / 5
    CHECK(parameters["attention norm weight"][0][0] == Approx(-0.4).epsilon(kClipped));
    CHECK(moments.first["mlp norm weight"][0][0] == Approx(0.1 * 3).epsilon(kClipped));
    CHECK(moments.second["mlp norm weight"][0][0] == Approx(0.05 * 9).epsilon(kClipped));
  }
  SECTION("not clipped") {
    dense_adamw(constants, false, result, parameters, moments);
    // 2 - 0.5 (30 / 31 + 0.2)
    CHECK(parameters["mlp norm weight"][0][0] == Approx(1.9 - 15.0 / 31.0).epsilon(1e-14));
  }
  SECTION("a gradient below the largest norm stays as it is") {
    constants.clip_norm = 60;
    dense_adamw(constants, true, result, parameters, moments);
    CHECK(parameters["mlp norm weight"][0][0] == Approx(1.9 - 15.0 / 31.0).epsilon(1e-14));
  }
}
