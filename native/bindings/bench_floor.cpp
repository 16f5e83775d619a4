// The relay floor, one blocking call per role; each is meant for a process of its own.
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bench/relay_floor.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using tapewire::bench::RelayPlan;
using Role = void (*)(const std::string&, const RelayPlan&);

template <Role kRole>
void run_role(const std::string& path, std::uint64_t events, std::uint64_t every, std::int64_t interval_ns,
              bool poisson, std::uint64_t seed, std::int64_t linger_ns, std::int64_t timeout_ns) {
  kRole(path, RelayPlan{events, every, interval_ns, poisson, seed, linger_ns, timeout_ns});
}

template <Role kRole>
void def_role(nb::module_& m, const char* name, const char* doc) {
  m.def(name, &run_role<kRole>, "path"_a, "events"_a, "every"_a, "interval_ns"_a, "poisson"_a = false,
        "seed"_a = 42, "linger_ns"_a = 0, "timeout_ns"_a = std::int64_t{10'000'000'000},
        nb::call_guard<nb::gil_scoped_release>(), doc);
}

nb::dict layout(std::uint64_t events, std::uint64_t every) {
  const tapewire::bench::RelayLayout at = tapewire::bench::relay_layout(events, every);
  nb::dict result;
  result["orders"] = at.orders;
  result["depth_offset"] = at.depth_offset;
  result["order_offset"] = at.order_offset;
  result["report_offset"] = at.report_offset;
  result["bytes"] = at.bytes;
  result["depth_bytes"] = tapewire::bench::kFloorDepthBytes;
  result["order_bytes"] = tapewire::bench::kFloorOrderBytes;
  result["report_bytes"] = tapewire::bench::kFloorReportBytes;
  return result;
}

}  // namespace

void bind_bench_floor(nb::module_& m) {
  m.def("floor_create", &tapewire::bench::relay_create, "path"_a, "events"_a, "every"_a,
        "Create the file the three roles of the relay floor share. Raises RuntimeError when it exists or "
        "does not fit.");
  m.def("floor_layout", &layout, "events"_a, "every"_a,
        nb::sig("def floor_layout(events: int, every: int) -> dict[str, int]"),
        "Offsets and slot sizes in bytes of that file; a slot holds its number at byte 8 and its stamp "
        "(CLOCK_MONOTONIC ns) at byte 16.");
  def_role<&tapewire::bench::relay_market_data>(m, "floor_md",
                                                "Publish `events` depths; blocks until the last one.");
  def_role<&tapewire::bench::relay_strategy>(m, "floor_strategy",
                                             "Answer each `every`-th depth with an order; blocks.");
  def_role<&tapewire::bench::relay_trade_gateway>(m, "floor_td", "Answer each order with a report; blocks.");
}
