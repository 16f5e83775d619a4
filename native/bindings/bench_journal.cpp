// Native loops of `tapewire bench journal` for Python; each blocks without the interpreter lock.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bench/journal_bench.hpp"

namespace nb = nanobind;
namespace bench = tapewire::bench;
using namespace nb::literals;

namespace {

// Runs without the interpreter lock; exceptions pass through.
template <class Work>
auto unlocked(Work&& work) {
  const nb::gil_scoped_release release;
  return work();
}

nb::dict append(const std::string& journal_dir, std::uint32_t chunks, std::uint32_t chunk_operations,
                std::uint32_t payload_bytes, std::uint64_t page_bytes, const std::vector<int>& helper_cpus) {
  const bench::AppendCost cost = unlocked([&] {
    return bench::measure_append(journal_dir, chunks, chunk_operations, payload_bytes, page_bytes,
                                 helper_cpus);
  });
  nb::dict result;
  result["append_ns"] = cost.append_ns;
  result["floor_ns"] = cost.floor_ns;
  result["floor_payload_only_ns"] = cost.floor_payload_only_ns;
  return result;
}

nb::dict rolls(const std::string& journal_dir, std::uint32_t count, std::int64_t interval_ns,
               std::uint32_t payload_bytes, std::uint64_t page_bytes, const std::vector<int>& helper_cpus) {
  const bench::RollCost cost = unlocked([&] {
    return bench::measure_rolls(journal_dir, count, interval_ns, payload_bytes, page_bytes, helper_cpus);
  });
  nb::dict result;
  result["roll_ns"] = cost.roll_ns;
  result["append_p50_ns"] = cost.append_p50_ns;
  result["append_p99_ns"] = cost.append_p99_ns;
  result["append_p999_ns"] = cost.append_p999_ns;
  result["append_max_ns"] = cost.append_max_ns;
  result["frames"] = cost.frames;
  result["roll_waits"] = cost.roll_waits;
  result["late"] = cost.late;
  result["elapsed_ns"] = cost.elapsed_ns;
  return result;
}

nb::dict read_cost(const bench::ReadCost& cost) {
  nb::dict result;
  result["elapsed_ns"] = cost.elapsed_ns;
  result["frames"] = cost.frames;
  result["seq_sum"] = cost.seq_sum;
  return result;
}

}  // namespace

void bind_bench_journal(nb::module_& m) {
  m.def("bench_append", &append, "journal_dir"_a, "chunks"_a, "chunk_operations"_a, "payload_bytes"_a,
        "page_bytes"_a, "helper_cpus"_a,
        nb::sig("def bench_append(journal_dir: str, chunks: int, chunk_operations: int, payload_bytes: int, "
                "page_bytes: int, helper_cpus: list[int]) -> dict[str, list[float]]"),
        "ns per append and per floor operation, one value per chunk, the kinds alternating chunk by chunk.");
  m.def("bench_rolls", &rolls, "journal_dir"_a, "rolls"_a, "interval_ns"_a, "payload_bytes"_a, "page_bytes"_a,
        "helper_cpus"_a,
        nb::sig("def bench_rolls(journal_dir: str, rolls: int, interval_ns: int, payload_bytes: int, "
                "page_bytes: int, helper_cpus: list[int]) -> dict[str, typing.Any]"),
        "Times each append until `rolls` pages were left; interval_ns 0 is as fast as it goes.");
  m.def(
      "bench_write_streams",
      [](const std::string& journal_dir, std::uint32_t streams, std::uint64_t frames, std::uint16_t type,
         std::uint32_t payload_bytes, std::uint64_t page_bytes) {
        return bench::write_streams(journal_dir, streams, frames, static_cast<tapewire::FrameType>(type),
                                    payload_bytes, page_bytes);
      },
      "journal_dir"_a, "streams"_a, "frames"_a, "type"_a, "payload_bytes"_a, "page_bytes"_a,
      nb::call_guard<nb::gil_scoped_release>(),
      "Write streams s1 .. sN for the read benches; returns the sum of all seqs.");
  m.def(
      "bench_merged_read",
      [](const std::string& journal_dir, std::uint32_t streams, bool verify) {
        return read_cost(unlocked([&] { return bench::measure_merged_read(journal_dir, streams, verify); }));
      },
      "journal_dir"_a, "streams"_a, "verify"_a,
      nb::sig("def bench_merged_read(journal_dir: str, streams: int, verify: bool) -> dict[str, int]"),
      "Read streams s1 .. sN once in merge order.");
  m.def(
      "bench_merge_floor",
      [](const std::string& journal_dir, std::uint32_t streams) {
        return read_cost(unlocked([&] { return bench::measure_merge_floor(journal_dir, streams); }));
      },
      "journal_dir"_a, "streams"_a,
      nb::sig("def bench_merge_floor(journal_dir: str, streams: int) -> dict[str, int]"),
      "The same frames from plain memory: the smallest time by linear scan, nothing checked.");
}
