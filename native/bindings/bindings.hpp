// What the binding files share: the parts of the module, and the helpers they pass around.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>

#include "ipc/loop.hpp"
#include "journal/writer.hpp"

namespace nb = nanobind;

void bind_errors(nb::module_& m);
void bind_layout(nb::module_& m);
void bind_ipc(nb::module_& m);
void bind_journal(nb::module_& m);
void bind_events(nb::module_& m);
void bind_market(nb::module_& m);
void bind_strategy(nb::module_& m);
void bind_l2book(nb::module_& m);
void bind_market_publisher(nb::module_& m);
void bind_bench_floor(nb::module_& m);
void bind_bench_journal(nb::module_& m);

namespace tapewire::bindings {

// The process's one page helper; it lives as long as somebody uses it.
[[nodiscard]] std::shared_ptr<PageHelper> process_page_helper(const std::vector<int>& cpus);

// A counters file together with the index of one of its blocks.
struct BlockRef {
  std::shared_ptr<Counters> counters;
  std::uint32_t index = 0;
  [[nodiscard]] CounterBlock& block() const noexcept { return counters->block(index); }
};

struct LiveReader {
  std::unique_ptr<LiveMux> mux;
  std::shared_ptr<PageHelper> helper;
};

// Origin from Python's (stream, seq) and (stream, seq, type) tuples; None for none.
[[nodiscard]] Origin origin_from(nb::handle cause, nb::handle root);

// Ends a loop's call: frames handled, or the error raised.
std::uint64_t finish(const LoopResult& result);

}  // namespace tapewire::bindings
