#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "calibrate/fit/form_fits.h"
#include "calibrate/fit/predict.h"
#include "calibrate/fit/residual_tables.h"
#include "sim/cost/collectives.h"

namespace trireme::calibrate {

namespace {

constexpr const char* kPayload = "payload [bytes]";

const CollectivePoint& point_of(const Measurement& row) {
  return std::get<CollectivePoint>(row.point);
}

bool over_nodes(const Measurement& row) {
  return point_of(row).ranks > point_of(row).ranks_per_node;
}

std::vector<Measurement> rows_of(const std::vector<Measurement>& rows,
                                 CollectiveKind kind,
                                 bool outside) {
  std::vector<Measurement> found;
  for (const Measurement& row : rows) {
    if (point_of(row).collective == kind && over_nodes(row) == outside) {
      found.push_back(row);
    }
  }
  return found;
}

std::set<std::int64_t> rank_counts(const std::vector<Measurement>& rows) {
  std::set<std::int64_t> counts;
  for (const Measurement& row : rows) {
    counts.insert(point_of(row).ranks);
  }
  return counts;
}

std::string shape_in_words(const CollectivePoint& point) {
  if (point.ranks <= point.ranks_per_node) {
    return fmt::format("{} {} ranks", name(point.collective), point.ranks);
  }
  return fmt::format(
      "{} {} ranks, {} per node", name(point.collective), point.ranks, point.ranks_per_node);
}

/// Rows are held out by payload.
void fill(FitJob& job, const std::vector<Measurement>& rows) {
  job.extent = kPayload;
  for (const Measurement& row : rows) {
    const auto payload = static_cast<double>(point_of(row).payload.value());
    job.samples.add(row, payload, payload);
    job.curves.push_back(shape_in_words(point_of(row)));
  }
}

/// Seconds per byte of the fastest row: the scale of an inverse rate.
double least_per_byte(const std::vector<Measurement>& rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const Measurement& row : rows) {
    least = std::min(
        least, row.timing.median.value() / static_cast<double>(point_of(row).payload.value()));
  }
  return least;
}

/// Adds the tables of residuals of the rows at hand to the costs they were fitted into.
Refine residuals_of(const Samples& samples, CollectiveKind kind, BytesPerSecond nic_rate) {
  return
      [&samples, kind, nic_rate](std::span<const std::size_t> rows, cost::MachineCosts& machine) {
        std::vector<TimedCollective> timed;
        for (const std::size_t row : rows) {
          timed.push_back(
              {std::get<CollectivePoint>(samples.points[row]), Seconds(samples.seconds[row])});
        }
        tables_of(machine.residuals, kind) = residual_tables(timed, machine, nic_rate);
      };
}

using NodeCosts = std::optional<cost::NodeCollectiveCosts> cost::CollectiveCosts::*;

/// C1 of one kind. Of one number of ranks, a step and the own chunk cannot be told from the start
/// and from what is received: then they cost nothing.
FitJob node_job(CollectiveKind kind, NodeCosts member, const std::vector<Measurement>& rows) {
  const std::set<std::int64_t> ranks = rank_counts(rows);
  const bool several = ranks.size() > 1;
  FitJob job;
  job.section = "collectives";
  job.name = std::string(name(kind));
  job.form_name = "C1";
  job.yaml_head = fmt::format("ranks: [{}, {}]\n", *ranks.begin(), *ranks.rbegin());
  fill(job, rows);
  const double start = least_seconds(rows);
  const double per_byte = least_per_byte(rows);
  // by place: a0, 1 / beta, c, a1, 1 / gamma
  job.form.start = {start, per_byte, start};
  if (several) {
    job.form.start.insert(job.form.start.end(), {start, per_byte});
  }
  job.form.apply = [member, several](std::span<const double> c, cost::MachineCosts& machine) {
    cost::NodeCollectiveCosts costs;
    costs.start = Seconds(c[0]);
    costs.link_rate = BytesPerSecond(1 / c[1]);
    costs.ramp_per_root_megabyte = Seconds(c[2]);
    costs.per_rank = Seconds(several ? c[3] : 0);
    costs.local_rate = BytesPerSecond(several ? 1 / c[4] : std::numeric_limits<double>::infinity());
    machine.collectives.*member = costs;
  };
  const auto nothing = [](std::span<const double>) { return 0.0; };
  const auto none = [](std::span<const double>) { return std::numeric_limits<double>::infinity(); };
  job.readings.push_back({"a0", plain(0), seconds_text});
  job.readings.push_back({"a1", several ? plain(3) : nothing, seconds_text});
  job.readings.push_back({"beta", rate(1), rate_text});
  job.readings.push_back({"c", plain(2), seconds_text});
  job.readings.push_back({"gamma", several ? rate(4) : none, rate_text});
  return job;
}

/// C1n of the rows of one number of ranks.
FitJob switch_job(const std::vector<Measurement>& rows) {
  FitJob job;
  job.section = "collectives";
  job.name = "all_reduce_nvls";
  job.form_name = "C1n";
  const std::int64_t ranks = point_of(rows.front()).ranks;
  job.yaml_head = fmt::format("ranks: [{}, {}]\n", ranks, ranks);
  fill(job, rows);
  const double start = least_seconds(rows);
  job.form.start = {start, least_per_byte(rows), start};
  job.form.apply = [ranks](std::span<const double> c, cost::MachineCosts& machine) {
    cost::SwitchReduceCosts costs;
    costs.least_ranks = ranks;
    costs.most_ranks = ranks;
    costs.start = Seconds(c[0]);
    costs.rate = BytesPerSecond(1 / c[1]);
    costs.ramp_per_root_megabyte = Seconds(c[2]);
    machine.collectives.all_reduce_nvls = costs;
  };
  job.readings = {
      {"a", plain(0), seconds_text}, {"beta", rate(1), rate_text}, {"c", plain(2), seconds_text}};
  return job;
}

/// Fits a job whose rows are those of one kind of collective, with its residuals.
ModelFit fit_collective(FitJob& job, CollectiveKind kind, Fitting& fitting) {
  job.refine = residuals_of(job.samples, kind, fitting.surroundings.nic_rate);
  return fit_model(job, fitting.surroundings, fitting.origin);
}

/// Of the rows that it is fitted to.
double fitted_loss(const FitJob& job, Surroundings surroundings) {
  job.form.apply(robust_fit(job.form, surroundings, job.samples), surroundings.machine);
  std::vector<double> predicted;
  for (const Point& point : job.samples.points) {
    predicted.push_back(predict(point, surroundings.machine, surroundings.nic_rate)->value());
  }
  return robust_loss(predicted, job.samples);
}

double held_out_loss(const FitJob& job, const Surroundings& surroundings) {
  return robust_loss(hold_out(job.form, surroundings, job.samples).seconds, job.samples);
}

/// What more coefficients must leave of the held-out loss to be worth it: C1n of the largest number
/// of ranks beside C1 of the others, and a crowd in point-to-point over nodes.
constexpr double kWorthIt = 0.9;

void fit_node_all_reduce(const std::vector<Measurement>& rows, Fitting& fitting) {
  const NodeCosts member = &cost::CollectiveCosts::all_reduce;
  const auto kind = CollectiveKind::all_reduce;
  const std::set<std::int64_t> ranks = rank_counts(rows);
  FitJob together = node_job(kind, member, rows);
  if (ranks.size() > 1) {
    std::vector<Measurement> fewer;
    std::vector<Measurement> most;
    for (const Measurement& row : rows) {
      (point_of(row).ranks == *ranks.rbegin() ? most : fewer).push_back(row);
    }
    FitJob ring = node_job(kind, member, fewer);
    FitJob switches = switch_job(most);
    const bool enough = ring.samples.size() >= kRowsPerCoefficient * ring.form.start.size() &&
                        switches.samples.size() >= kRowsPerCoefficient * switches.form.start.size();
    if (enough &&
        held_out_loss(ring, fitting.surroundings) + held_out_loss(switches, fitting.surroundings) <
            kWorthIt * held_out_loss(together, fitting.surroundings)) {
      fitting.models.push_back(fit_collective(ring, kind, fitting));
      fitting.models.push_back(fit_collective(switches, kind, fitting));
      fitting.models.back().notes.push_back(
          fmt::format("{} ranks do not follow the ring of fewer: they have the form of switches "
                      "that reduce",
                      *ranks.rbegin()));
      return;
    }
  }
  fitting.models.push_back(fit_collective(together, kind, fitting));
}

/// Candidates of what point-to-point is made of: channels, and the bytes that take one more.
constexpr std::array<std::int64_t, 9> kChannels = {1, 2, 4, 8, 12, 16, 24, 32, 64};
constexpr std::array<std::int64_t, 8> kChannelMebibytes = {1, 2, 4, 8, 16, 32, 64, 128};

FitJob send_recv_job(const std::vector<Measurement>& rows,
                     std::int64_t channels,
                     Bytes channel_bytes) {
  FitJob job;
  job.section = "collectives";
  job.name = "send_recv";
  job.form_name = "C2";
  fill(job, rows);
  const double per_byte = least_per_byte(rows);
  // a, 1 / r, 1 / beta
  job.form.start = {least_seconds(rows), per_byte * static_cast<double>(channels), per_byte};
  job.form.apply = [channels, channel_bytes](std::span<const double> c,
                                             cost::MachineCosts& machine) {
    machine.collectives.send_recv = cost::SendRecvCosts{.start = Seconds(c[0]),
                                                        .channel_rate = BytesPerSecond(1 / c[1]),
                                                        .channels = channels,
                                                        .channel_bytes = channel_bytes,
                                                        .link_rate = BytesPerSecond(1 / c[2])};
  };
  const auto count = [](double value) { return fmt::format("{:.0f}", value); };
  const auto mebibytes = [](double value) { return fmt::format("{:.0f} MiB", value); };
  const auto chosen = static_cast<double>(channels);
  const auto chosen_bytes =
      static_cast<double>(channel_bytes.value()) / static_cast<double>(1 << 20);
  job.readings = {{"a", plain(0), seconds_text},
                  {"r", rate(1), finite_rate_text},
                  {"channels", [chosen](std::span<const double>) { return chosen; }, count},
                  {"channel_bytes",
                   [chosen_bytes](std::span<const double>) { return chosen_bytes; },
                   mebibytes},
                  {"beta", rate(2), finite_rate_text}};
  return job;
}

void fit_node_send_recv(const std::vector<Measurement>& rows, Fitting& fitting) {
  std::optional<FitJob> best;
  double least = std::numeric_limits<double>::infinity();
  for (const std::int64_t channels : kChannels) {
    for (const std::int64_t mebibytes : kChannelMebibytes) {
      FitJob job = send_recv_job(rows, channels, Bytes(mebibytes << 20));
      const double loss = fitted_loss(job, fitting.surroundings);
      if (std::isfinite(loss) && loss < least) {
        least = loss;
        best = std::move(job);
      }
    }
  }
  if (best) {
    fitting.models.push_back(fit_collective(*best, CollectiveKind::send_recv, fitting));
  }
}

void fit_exchange_over_nodes(const std::vector<Measurement>& all, Fitting& fitting) {
  std::vector<Measurement> rows;
  std::set<std::int64_t> remote;
  for (const Measurement& row : all) {
    const CollectivePoint& point = point_of(row);
    if (point.ranks_per_node == 1 || fitting.surroundings.machine.collectives.all_to_all) {
      rows.push_back(row);
      remote.insert(point.ranks - point.ranks_per_node);
    }
  }
  FitJob job;
  job.section = "multi_node";
  job.name = "all_to_all";
  job.form_name = "M1";
  if (rows.empty()) {
    ModelFit fit;
    fit.section = job.section;
    fit.name = job.name;
    fit.form = job.form_name;
    fit.absent = "no all-to-all inside a node was measured, which it includes";
    fitting.models.push_back(fit);
    return;
  }
  fill(job, rows);
  // a0, 1 / eff, ar: the last cannot be told from the first with one number of remote ranks
  const bool several = remote.size() > 1;
  const double start = least_seconds(rows);
  job.form.start = {start, 1};
  if (several) {
    job.form.start.push_back(start / static_cast<double>(*remote.rbegin()));
  }
  job.form.apply = [several](std::span<const double> c, cost::MachineCosts& machine) {
    machine.multi_node.all_to_all =
        cost::MultiNodeAllToAllCosts{.start = Seconds(c[0]),
                                     .per_remote_rank = Seconds(several ? c[2] : 0),
                                     .nic_efficiency = 1 / c[1]};
  };
  const auto nothing = [](std::span<const double>) { return 0.0; };
  job.readings.push_back({"a0", plain(0), seconds_text});
  job.readings.push_back({"a_r", several ? plain(2) : nothing, seconds_text});
  job.readings.push_back({"nic_efficiency", rate(1), number_text, 1.0});
  fitting.models.push_back(fit_collective(job, CollectiveKind::all_to_all, fitting));
}

constexpr std::size_t kFabricReplicates = 400;
/// Payloads from this share of a group's largest on say what a fabric carries.
constexpr double kLargeShare = 0.25;

std::vector<Measurement> largest(const std::vector<Measurement>& rows) {
  std::vector<Measurement> found;
  for (const Measurement& row : rows) {
    Bytes most;
    for (const Measurement& other : rows) {
      if (shape_in_words(point_of(other)) == shape_in_words(point_of(row))) {
        most = std::max(most, point_of(other).payload);
      }
    }
    if (ratio(point_of(row).payload, most) >= kLargeShare) {
      found.push_back(row);
    }
  }
  return found;
}

struct RingKind {
  CollectiveKind kind;
  std::optional<Seconds> cost::MultiNodeRingCosts::*step;
  const char* key;
};

constexpr std::array<RingKind, 3> kRingKinds = {
    {{CollectiveKind::all_gather, &cost::MultiNodeRingCosts::all_gather_step, "a_s_all_gather"},
     {CollectiveKind::reduce_scatter,
      &cost::MultiNodeRingCosts::reduce_scatter_step,
      "a_s_reduce_scatter"},
     {CollectiveKind::all_reduce, &cost::MultiNodeRingCosts::all_reduce_step, "a_s_all_reduce"}}};

/// M2. The bandwidths come from the largest messages first (fit_forms, section 2: left free, they
/// held out worse), the steps from all rows then.
void fit_rings_over_nodes(const std::vector<Measurement>& all, Fitting& fitting) {
  std::vector<Measurement> rows;
  std::vector<RingKind> kinds;
  for (const RingKind& ring : kRingKinds) {
    const std::vector<Measurement> of_kind = rows_of(all, ring.kind, true);
    if (of_kind.size() >= kRowsPerCoefficient) {
      kinds.push_back(ring);
      rows.insert(rows.end(), of_kind.begin(), of_kind.end());
    }
  }
  if (kinds.empty()) {
    return;
  }
  std::set<std::int64_t> per_node;
  for (const Measurement& row : rows) {
    per_node.insert(point_of(row).ranks_per_node);
  }
  const auto& inside = fitting.surroundings.machine.collectives.all_gather;
  FitJob job;
  job.section = "multi_node";
  job.name = "ring";
  job.form_name = "M2";
  const bool free_link = per_node.size() > 1;
  if (!free_link && !inside) {
    ModelFit fit;
    fit.section = job.section;
    fit.name = job.name;
    fit.form = job.form_name;
    fit.absent =
        "one number of ranks per node, and no all-gather inside a node: NICs and links cannot be "
        "told apart";
    fitting.models.push_back(fit);
    return;
  }
  const double step = least_seconds(rows) / 100;
  const double known_link = inside ? 1 / inside->link_rate.value() : least_per_byte(rows);

  Form bandwidths;
  bandwidths.start = {1, known_link};
  bandwidths.start.resize(2 + kinds.size(), step);
  bandwidths.apply = [kinds, free_link, known_link](std::span<const double> c,
                                                    cost::MachineCosts& machine) {
    cost::MultiNodeRingCosts costs;
    costs.nic_efficiency = 1 / c[0];
    costs.nvlink_rate = BytesPerSecond(1 / (free_link ? c[1] : known_link));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      costs.*kinds[i].step = Seconds(c[2 + i]);
    }
    machine.multi_node.ring = costs;
  };
  FitJob large;
  fill(large, largest(rows));
  const std::vector<double> fabric = robust_fit(bandwidths, fitting.surroundings, large.samples);
  const auto fabric_draws = bootstrap(bandwidths,
                                      fitting.surroundings,
                                      large.samples,
                                      fabric,
                                      fitting.origin.seed,
                                      kFabricReplicates);
  const double efficiency = std::min(1.0, 1 / fabric[0]);
  const double link = free_link ? fabric[1] : known_link;

  fill(job, rows);
  job.form.start.assign(kinds.size(), step);
  job.form.apply = [kinds, efficiency, link](std::span<const double> c,
                                             cost::MachineCosts& machine) {
    cost::MultiNodeRingCosts costs;
    costs.nic_efficiency = efficiency;
    costs.nvlink_rate = BytesPerSecond(1 / link);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      costs.*kinds[i].step = Seconds(c[i]);
    }
    machine.multi_node.ring = costs;
  };
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    job.readings.push_back({kinds[i].key, plain(i), seconds_text});
  }
  const Samples& samples = job.samples;
  const BytesPerSecond nic_rate = fitting.surroundings.nic_rate;
  job.refine = [&samples, nic_rate, kinds](std::span<const std::size_t> chosen,
                                           cost::MachineCosts& machine) {
    for (const RingKind& ring : kinds) {
      std::vector<TimedCollective> timed;
      for (const std::size_t row : chosen) {
        const auto& point = std::get<CollectivePoint>(samples.points[row]);
        if (point.collective == ring.kind) {
          timed.push_back({point, Seconds(samples.seconds[row])});
        }
      }
      tables_of(machine.residuals, ring.kind) = residual_tables(timed, machine, nic_rate);
    }
  };
  ModelFit fit;
  if (link > 0) {
    fit = fit_model(job, fitting.surroundings, fitting.origin);
  } else {
    fit.section = job.section;
    fit.name = job.name;
    fit.form = job.form_name;
    fit.absent = "beta_nvl cannot be told from these rows";
  }
  if (fit.absent.empty()) {
    const auto count = static_cast<std::int64_t>(large.samples.size());
    fit.estimates.push_back(
        estimate_of({"nic_efficiency", rate(0), number_text, 1.0}, fabric, fabric_draws, count));
    fit.yaml += coefficient_line(fit.estimates.back(), fitting.origin);
    fit.estimates.push_back(
        free_link
            ? estimate_of({"beta_nvl", rate(1), finite_rate_text}, fabric, fabric_draws, count)
            : Estimate{"beta_nvl", finite_rate_text(1 / known_link), "", "", 0});
    fit.yaml += coefficient_line(fit.estimates.back(), fitting.origin);
    if (!free_link) {
      fit.notes.emplace_back(
          "beta_nvl is the link rate of the all-gather inside a node: one number of ranks per node "
          "was measured");
    }
  }
  fitting.models.push_back(std::move(fit));
}

/// Point-to-point over nodes: what large messages reach, and from which number of ranks on one
/// channel serves a peer, if any does.
void fit_send_recv_over_nodes(const std::vector<Measurement>& all, Fitting& fitting) {
  const std::vector<Measurement> rows = largest(all);
  const double line = fitting.surroundings.nic_rate.value();
  std::optional<FitJob> best;
  double least = std::numeric_limits<double>::infinity();
  std::set<std::int64_t> counts = rank_counts(rows);
  counts.erase(counts.begin());  // the smallest communicator is not a crowd
  std::vector<std::int64_t> candidates = {0};
  candidates.insert(candidates.end(), counts.begin(), counts.end());
  for (const std::int64_t crowd : candidates) {
    FitJob job;
    job.section = "multi_node";
    job.name = "send_recv";
    fill(job, rows);
    job.form.start = {1};
    if (crowd > 0) {
      job.form.start.push_back(1 / line);
    }
    job.form.apply = [crowd](std::span<const double> c, cost::MachineCosts& machine) {
      cost::MultiNodeSendRecvCosts costs;
      costs.nic_efficiency = 1 / c[0];
      if (crowd > 0) {
        costs.crowded =
            cost::CrowdedSendRecvCosts{.ranks = crowd, .rate = BytesPerSecond(1 / c[1])};
      }
      machine.multi_node.send_recv = costs;
    };
    job.readings.push_back({"nic_efficiency", rate(0), number_text, 1.0});
    if (crowd > 0) {
      const auto ranks = static_cast<double>(crowd);
      job.readings.push_back({"crowded_ranks",
                              [ranks](std::span<const double>) { return ranks; },
                              [](double value) { return fmt::format("{:.0f}", value); }});
      job.readings.push_back({"crowded_rate", rate(1), finite_rate_text});
    }
    const double loss = held_out_loss(job, fitting.surroundings);
    if (!best || loss < kWorthIt * least) {
      least = loss;
      best = std::move(job);
    }
  }
  fitting.models.push_back(fit_collective(*best, CollectiveKind::send_recv, fitting));
  fitting.models.back().notes.emplace_back(
      "large messages only: the form has no latency over nodes");
}

}  // namespace

void fit_collectives(const std::vector<Measurement>& rows, Fitting& fitting) {
  using Costs = cost::CollectiveCosts;
  const std::array<std::pair<CollectiveKind, NodeCosts>, 3> alike = {
      {{CollectiveKind::all_to_all, &Costs::all_to_all},
       {CollectiveKind::all_gather, &Costs::all_gather},
       {CollectiveKind::reduce_scatter, &Costs::reduce_scatter}}};
  for (const auto& [kind, member] : alike) {
    const std::vector<Measurement> inside = rows_of(rows, kind, false);
    if (!inside.empty()) {
      FitJob job = node_job(kind, member, inside);
      fitting.models.push_back(fit_collective(job, kind, fitting));
    }
  }
  if (const auto inside = rows_of(rows, CollectiveKind::all_reduce, false); !inside.empty()) {
    fit_node_all_reduce(inside, fitting);
  }
  if (const auto inside = rows_of(rows, CollectiveKind::send_recv, false); !inside.empty()) {
    fit_node_send_recv(inside, fitting);
  }
  if (const auto outside = rows_of(rows, CollectiveKind::all_to_all, true); !outside.empty()) {
    fit_exchange_over_nodes(outside, fitting);
  }
  fit_rings_over_nodes(rows, fitting);
  if (const auto outside = rows_of(rows, CollectiveKind::send_recv, true); !outside.empty()) {
    fit_send_recv_over_nodes(outside, fitting);
  }
}

}  // namespace trireme::calibrate
