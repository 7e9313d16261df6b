#include "calibrate/import/timing_table.h"

#include <string>

#include "sim/core/error.h"
#include "tests/catch.h"

namespace trireme::calibrate {
namespace {

const std::string kCollectives =
    "gpu,n_gpus,gpus_per_node,nccl_version,collective,size_bytes,dtype,oop_time_us,nic\n"
    "NVIDIA H100,16,8,2.29.2,alltoall,1048576,half,120.5,\"400G, rail \"\"a\"\"\"\n"
    "NVIDIA H200,8,8,2.29.2,all_gather,0,half,9,\n"
    "NVIDIA H200,8,8,2.29.2,all_gather,512,nvfp4,9,\n"
    "NVIDIA H200,8,8,2.29.2,all_gather,512,float,,\n"
    "NVIDIA H200,12,8,2.29.2,all_gather,512,float,9,\n"
    "NVIDIA H200,8,8,2.29.2,broadcast,512,float,9,\n"
    "NVIDIA H200,8,8,2.29.2,all_gather,512,float,9,\"cut\n"
    "NVIDIA H200,8,8,2.29.2,all_gather,512,float\n";

TEST_CASE("a table of collectives is read by its columns", "[calibrate][import]") {
  REQUIRE(looks_like_timing_table(kCollectives));
  const ImportedLog log = read_timing_table(kCollectives, "t.csv", {});
  REQUIRE(log.measurements.size() == 1);
  const auto& point = std::get<CollectivePoint>(log.measurements[0].point);
  CHECK(point.collective == CollectiveKind::all_to_all);
  CHECK(point.ranks == 16);
  CHECK(point.ranks_per_node == 8);
  CHECK(point.payload == Bytes(1048576));
  CHECK(point.type == ElementType::fp16);
  CHECK(log.measurements[0].timing.median.value() == Approx(120.5e-6));
  CHECK(log.measurements[0].timing.samples == 0);
  CHECK(log.empty_rows == 1);
  REQUIRE(log.environments.size() == 1);
  CHECK(log.environments[0].device == "NVIDIA H100");
  CHECK(log.environments[0].nccl == "2.29.2");
  CHECK(log.measurements[0].environment == log.environments[0].key);
}

TEST_CASE("rows that are no measurement are refused with line and reason", "[calibrate][import]") {
  const ImportedLog log = read_timing_table(kCollectives, "t.csv", {});
  CHECK(log.refused_rows == 6);
  REQUIRE(log.refusals.size() == 6);
  const std::vector<std::pair<int, std::string>> expected = {{4, "dtype: 'nvfp4' is not known"},
                                                             {5, "oop_time_us: "},
                                                             {6, "12 ranks do not fill nodes of 8"},
                                                             {7, "no plan uses 'broadcast'"},
                                                             {8, "a quote is not closed"},
                                                             {9, "the row has 7 fields"}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i, log.refusals[i].reason);
    CHECK(log.refusals[i].where.line == expected[i].first);
    CHECK(log.refusals[i].reason.find(expected[i].second) != std::string::npos);
  }
}

TEST_CASE("tables of attention and of matrix products", "[calibrate][import]") {
  const ImportedLog attention = read_timing_table(
      "kernel,dtype,pass,causal,head_dim,heads,kv_heads,batch,seq,tflops,time_ms\r\n"
      "fa3,bfloat16,bwd,1,128,32,8,2,4096,500,1.25\r\n"
      "fa3,bfloat16,fwdbwd,1,128,32,8,2,4096,500,1.25\r\n"
      "fa3,bfloat16,fwd,see note,128,32,8,2,4096,500,1.25\r\n"
      "fa3,bfloat16,fwd,1,192/128,32,8,2,4096,500,1.25\r\n",
      "a.csv",
      {});
  REQUIRE(attention.measurements.size() == 1);
  const auto& kernel = std::get<AttentionPoint>(attention.measurements[0].point);
  CHECK(kernel.pass == Pass::backward);
  CHECK(kernel.causal);
  CHECK(kernel.query_tokens == Tokens(4096));
  CHECK(kernel.kv_heads == 8);
  CHECK(attention.measurements[0].timing.median.value() == Approx(1.25e-3));
  CHECK(attention.refused_rows == 3);

  const ImportedLog products = read_timing_table(
      "dtype,m,n,k,time_us\nbf16,1024,2048,512,10\nbf16,0,2048,512,10\nbf16,1,2,3,inf\n",
      "g.csv",
      {});
  REQUIRE(products.measurements.size() == 1);
  const auto& product = std::get<GemmPoint>(products.measurements[0].point);
  CHECK(product.m == 1024);
  CHECK(product.n == 2048);
  CHECK(product.k == 512);
  CHECK(products.refused_rows == 2);
}

TEST_CASE("a statement fills what a table leaves out, and may not contradict it",
          "[calibrate][import]") {
  Statements statements;
  statements.device = "NVIDIA H100";
  statements.date = "2026-01-28";
  const ImportedLog log = read_timing_table(kCollectives, "t.csv", statements);
  CHECK(log.environments[0].date == "2026-01-28");
  statements.device = "NVIDIA B200";
  CHECK(read_timing_table(kCollectives, "t.csv", statements).measurements.empty());
}

TEST_CASE("a table without a column, or with two of a name, is refused at its header",
          "[calibrate][import]") {
  const auto refusal = [](const std::string& header) {
    REQUIRE(looks_like_timing_table(header + "\n"));
    try {
      (void)read_timing_table(header + "\nbf16,1,2,3,10,20\n", "g.csv", {});
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK(error.where().line == 1);
      return error.message();
    }
    return std::string("read");
  };
  CHECK(refusal("dtype,m,n,k") == "there is no column time_us");
  CHECK(refusal("dtype,m,n,k,time_us,time_us") == "the column time_us stands twice");
  CHECK(refusal("dtype,m,n,k,time_us,note") == "read");
}

TEST_CASE("a table that ends within a number gives no other number", "[calibrate][import]") {
  const std::string table = "dtype,m,n,k,time_us\nbf16,1024,2048,512,123.25";
  for (std::size_t cut = table.find('\n') + 1; cut <= table.size(); ++cut) {
    CAPTURE(cut);
    CHECK(read_timing_table(table.substr(0, cut), "g.csv", {}).measurements.empty());
  }
  CHECK(read_timing_table(table + "\n", "g.csv", {}).measurements.size() == 1);
  // a note may be cut: nothing reads it
  CHECK(read_timing_table("dtype,m,n,k,time_us,note\nbf16,1024,2048,512,123.25,see th", "g.csv", {})
            .measurements.size() == 1);
}

TEST_CASE("a row whose bandwidths are of another time or number of ranks is refused",
          "[calibrate][import]") {
  const auto reason = [](const std::string& fields) {
    const ImportedLog log = read_timing_table(
        "collective,n_gpus,gpus_per_node,size_bytes,dtype,oop_time_us,oop_algbw_GBps,"
        "oop_busbw_GBps,wrong\nall_reduce," +
            fields + "\n",
        "t.csv",
        {});
    return log.refusals.empty() ? std::string("read") : log.refusals.front().reason;
  };
  CHECK(reason("8,8,1048576,float,86.58,12.11,21.19,0|N/A") == "read");
  CHECK(reason("8,8,1048576,float,86.58,,,") == "read");
  CHECK(reason("8,8,1048576,float,86.58,12.11,21.19,5e-07") == "read");
  CHECK(reason("8,8,1048576,float,0.08658,12.11,21.19,0") ==
        "out-of-place: 1048576 bytes in 0.08658 us are not 12.11 GB/s");
  CHECK(reason("16,8,1048576,float,86.58,12.11,21.19,0") ==
        "all_reduce: algorithm and bus bandwidth are not those of 16 ranks");
  CHECK(reason("8,8,1048576,float,86.58,12.11,21.19,36864|0") ==
        "the out-of-place result was wrong");
  CHECK(reason("1,1,1048576,float,86.58,12.11,0.00,0") ==
        "one rank sends to itself: that measures no link");
}

TEST_CASE("what has other columns is no table", "[calibrate][import]") {
  CHECK_FALSE(looks_like_timing_table(""));
  CHECK_FALSE(looks_like_timing_table("dtype,m,count,time\nbf16,1,2,3\n"));
  CHECK_FALSE(looks_like_timing_table("# nThread 1 nGpus 8\n"));
  CHECK_FALSE(looks_like_timing_table("\"dtype,m,n,k,time_us\n"));
}

}  // namespace
}  // namespace trireme::calibrate
