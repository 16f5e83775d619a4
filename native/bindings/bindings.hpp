// What the binding files share: the parts of the module, and the helpers they pass around.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stdexcept>
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

// One user at a time. Loops and batch reads work without the interpreter lock, so a second thread, or a handler
// that starts its own loop again, would find a reader half-way.
class Claim {
 public:
  explicit Claim(std::atomic<bool>& taken) : taken_(taken) {
    if (taken_.exchange(true, std::memory_order_acquire))
      throw std::runtime_error("this reader is in use: one loop or one thread at a time");
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool>& taken_;
};

struct LiveReader {
  std::unique_ptr<LiveMux> mux;
  std::shared_ptr<PageHelper> helper;
  std::atomic<bool> taken{false};
};

// Origin from Python's (stream, seq) and (stream, seq, type) tuples; None for none.
[[nodiscard]] Origin origin_from(nb::handle cause, nb::handle root);

// Ends a loop's call: frames handled, or the error raised.
std::uint64_t finish(const LoopResult& result);

}  // namespace tapewire::bindings
