// The shared files of a run, the stop signal, live readers and loop contexts.
#include <algorithm>
#include <cmath>
#include <mutex>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "ipc/keeper.hpp"
#include "ipc/lockstep.hpp"

using namespace nb::literals;

namespace tapewire::bindings {

std::shared_ptr<PageHelper> process_page_helper(const std::vector<int>& cpus) {
  static std::mutex mutex;
  static std::weak_ptr<PageHelper> current;
  const std::lock_guard lock(mutex);
  auto helper = current.lock();
  if (!helper) {
    helper = std::make_shared<PageHelper>(cpus);
    current = helper;
  }
  return helper;
}

std::uint64_t finish(const LoopResult& result) {
  if (result.error) throw *result.error;
  return result.frames;
}

namespace {

Counter counter_named(const std::string& name) {
  for (std::size_t i = 0; i < kCounterNames.size(); ++i)
    if (name == kCounterNames[i]) return static_cast<Counter>(i);
  throw nb::key_error(name.c_str());
}

void check_slot(const Counters& counters, std::uint32_t slot) {
  if (slot >= counters.size()) throw nb::index_error("no such process in this run");
}

// The control file does not know the run's processes, only how many there can be: a slot beyond them would
// stand for another.
void check_process(std::uint32_t slot) {
  if (slot >= kMaxProcesses) throw nb::index_error("process slots are 0 to 31");
}

CounterBlock& writable(const BlockRef& ref) {
  if (!ref.counters->writable()) throw nb::type_error("these counters were opened for reading");
  return ref.block();
}

nb::dict snapshot(const BlockRef& ref) {
  const CounterBlock& b = ref.block();
  nb::dict d;
  d["name"] = std::string(b.name);
  for (std::size_t i = 0; i < kCounterNames.size(); ++i) d[kCounterNames[i]] = b.get(static_cast<Counter>(i));
  nb::dict consumed;
  for (std::uint32_t s = 0; s < kMaxStreams; ++s)
    if (const auto seq = b.get_consumed(s); seq != 0) consumed[nb::int_(s)] = seq;
  d["consumed"] = consumed;
  nb::list buckets;
  for (auto& bucket : const_cast<CounterBlock&>(b).latency_buckets)
    buckets.append(std::atomic_ref(bucket).load(std::memory_order_relaxed));
  d["latency_buckets"] = buckets;
  return d;
}

WaitPolicy wait_policy(const std::string& kind, std::int64_t window_ns, std::int64_t batch_ns) {
  WaitPolicy p;
  p.window_ns = window_ns;
  p.batch_ns = batch_ns;
  if (kind == "spin")
    p.kind = WaitKind::kSpin;
  else if (kind == "yield")
    p.kind = WaitKind::kYield;
  else if (kind == "park")
    p.kind = WaitKind::kPark;
  else if (kind == "hybrid")
    p.kind = WaitKind::kHybrid;
  else if (kind == "batch")
    p.kind = WaitKind::kBatch;
  else
    throw nb::value_error(("no wait policy '" + kind + "': spin, yield, park, hybrid or batch").c_str());
  return p;
}

// Waits for each stream's first page; a stream that does not come is a typed error.
std::shared_ptr<LiveReader> open_live(const std::string& journal_dir, const std::vector<std::string>& streams,
                                      const std::vector<int>& helper_cpus, double timeout_s, bool verify) {
  auto reader = std::make_shared<LiveReader>();
  reader->helper = process_page_helper(helper_cpus);
  std::vector<std::unique_ptr<Cursor>> cursors;
  // Infinity and the like do not fit in nanoseconds.
  const double limited_s = std::isnan(timeout_s) ? 0.0 : std::clamp(timeout_s, 0.0, 1e9);
  const std::int64_t deadline = monotonic_ns() + static_cast<std::int64_t>(limited_s * 1e9);
  for (const auto& s : streams) {
    for (;;) {
      try {
        cursors.push_back(std::make_unique<Cursor>(PageSource(s, {journal_dir}),
                                                   CursorOptions{verify, true, reader->helper}));
        break;
      } catch (const JournalError& e) {
        if (e.kind != ErrorKind::kStreamNotFound) throw;
        if (monotonic_ns() >= deadline || stop_signalled())
          throw JournalError(
              ErrorKind::kJoinTimeout,
              journal_dir + ": stream '" + s + "' did not appear in time; is its process running?", s);
      }
      sleep_until_ns(monotonic_ns() + 2'000'000);
    }
  }
  reader->mux = std::make_unique<LiveMux>(std::move(cursors));
  return reader;
}

}  // namespace
}  // namespace tapewire::bindings

void bind_ipc(nb::module_& m) {
  using namespace tapewire;
  using namespace tapewire::bindings;
  m.def("install_stop_signal", &install_stop_signal,
        "Have SIGTERM set a flag that native loops look at, instead of ending the process.");
  m.def("stop_signalled", &stop_signalled, "Whether SIGTERM came.");
  m.def("monotonic_ns", &monotonic_ns, "CLOCK_MONOTONIC, ns.");

  nb::class_<Keeper>(m, "Keeper", "Idle-class threads that keep CPUs awake; see native/ipc/keeper.hpp.")
      .def(nb::init<const std::vector<int>&>(), "cpus"_a)
      .def("stop", &Keeper::stop, nb::call_guard<nb::gil_scoped_release>());

  nb::class_<Control>(m, "Control", "The control file of a run: stop requests, failures, waiting readers.")
      .def_static(
          "create", [](const std::string& path) { return std::make_shared<Control>(Control::create(path)); },
          "path"_a)
      .def_static(
          "open", [](const std::string& path) { return std::make_shared<Control>(Control::open(path)); },
          "path"_a)
      .def(
          "request_stop",
          [](const Control& c, std::uint32_t slot, std::uint32_t how) {
            check_process(slot);
            if (how > static_cast<std::uint32_t>(StopRequest::kNow))
              throw nb::value_error("how is 0, 1 or 2");
            c.request_stop(slot, static_cast<StopRequest>(how));
          },
          "slot"_a, "how"_a = 1,
          "Ask a process to stop: 1 after it has drained its inputs, 2 at once, 0 takes it back.")
      .def(
          "stop_requested",
          [](const Control& c, std::uint32_t slot) {
            check_process(slot);
            return static_cast<std::uint32_t>(c.stop_requested(slot));
          },
          "slot"_a)
      .def(
          "mark_failed",
          [](const Control& c, std::uint32_t slot, bool failed) {
            check_process(slot);
            c.mark_failed(slot, failed);
          },
          "slot"_a, "failed"_a = true)
      .def(
          "failed",
          [](const Control& c, std::uint32_t slot) {
            check_process(slot);
            return c.failed(slot);
          },
          "slot"_a)
      .def(
          "clear_waits",
          [](const Control& c, std::uint32_t slot) {
            check_process(slot);
            c.clear_waits(slot);
          },
          "slot"_a);

  nb::class_<BlockRef>(m, "CounterBlock",
                       "The counters of one process; see native/ipc/counters.hpp for names and units.")
      .def(
          "get", [](const BlockRef& b, const std::string& n) { return b.block().get(counter_named(n)); },
          "name"_a)
      .def(
          "set",
          [](const BlockRef& b, const std::string& n, std::uint64_t v) {
            writable(b).set(counter_named(n), v);
          },
          "name"_a, "value"_a)
      .def(
          "add",
          [](const BlockRef& b, const std::string& n, std::uint64_t v) {
            writable(b).add(counter_named(n), v);
          },
          "name"_a, "value"_a = 1)
      .def(
          "set_consumed",
          [](const BlockRef& b, std::uint32_t stream, std::uint64_t seq) {
            writable(b).set_consumed(stream, seq);
          },
          "stream_id"_a, "seq"_a)
      .def("snapshot", &snapshot, nb::sig("def snapshot(self) -> dict[str, typing.Any]"),
           "Every counter by name, `consumed` {stream id: seq} and `latency_buckets`.");

  nb::class_<Counters>(m, "Counters", "The counters file of a run, a block per process.")
      .def_static(
          "create",
          [](const std::string& path, const std::vector<std::string>& names) {
            return std::make_shared<Counters>(Counters::create(path, names));
          },
          "path"_a, "names"_a)
      .def_static(
          "open",
          [](const std::string& path, bool w) { return std::make_shared<Counters>(Counters::open(path, w)); },
          "path"_a, "writable"_a = false)
      .def_prop_ro("names",
                   [](const Counters& c) {
                     std::vector<std::string> names;
                     for (std::uint32_t i = 0; i < c.size(); ++i) names.emplace_back(c.block(i).name);
                     return names;
                   })
      .def(
          "block",
          [](std::shared_ptr<Counters> c, std::uint32_t i) {
            check_slot(*c, i);
            return BlockRef{std::move(c), i};
          },
          "index"_a);

  nb::class_<LoopContext>(m, "LoopContext",
                          "What a loop needs: control and counters, its slot, its wait policy.")
      .def(
          "__init__",
          [](LoopContext* self, std::shared_ptr<Control> control, std::shared_ptr<Counters> counters,
             std::uint32_t slot, const std::string& wait, std::int64_t window_ns, std::int64_t batch_ns,
             std::vector<std::pair<std::uint32_t, std::uint32_t>> producers) {
            check_slot(*counters, slot);
            for (const auto& [stream, producer] : producers) check_slot(*counters, producer);
            if (!counters->writable()) throw nb::type_error("these counters were opened for reading");
            new (self) LoopContext{std::move(control), std::move(counters), slot,
                                   wait_policy(wait, window_ns, batch_ns), std::move(producers)};
          },
          "control"_a, "counters"_a, "slot"_a, "wait"_a = "hybrid", "window_ns"_a = 5'000'000,
          "batch_ns"_a = 50'000'000, "producers"_a = std::vector<std::pair<std::uint32_t, std::uint32_t>>{},
          "wait: spin, yield, park, hybrid or batch; producers: [(stream id, slot that writes it)].")
      .def_prop_ro("stop_requested", [](const LoopContext& c) { return c.stop() != StopRequest::kNone; });

  nb::class_<LiveReader>(m, "LiveReader", "Live streams in arrival order, causes first.")
      .def(nb::new_(&open_live), "journal_dir"_a, "streams"_a, "helper_cpus"_a = std::vector<int>{},
           "timeout_s"_a = 10.0, "verify"_a = false, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("stream_ids", [](const LiveReader& r) {
        std::vector<std::uint32_t> ids;
        for (const auto& c : r.mux->cursors()) ids.push_back(c->stream_id());
        return ids;
      });

  nb::class_<Lockstep>(
      m, "Lockstep",
      "Waits until everybody downstream has consumed all there is. consumers: [(slot, [(stream id, "
      "producer slot)])].")
      .def(
          "__init__",
          [](Lockstep* self, const LoopContext& context,
             const std::vector<
                 std::pair<std::uint32_t, std::vector<std::pair<std::uint32_t, std::uint32_t>>>>& all) {
            std::vector<Lockstep::Consumer> consumers;
            for (const auto& [slot, streams] : all) {
              check_slot(*context.counters, slot);
              for (const auto& [stream, producer] : streams) check_slot(*context.counters, producer);
              consumers.push_back({slot, streams});
            }
            new (self) Lockstep(context, std::move(consumers));
          },
          "context"_a, "consumers"_a)
      .def(
          "wait", [](const Lockstep& l, std::uint64_t) { return l.wait(); }, "seq"_a = 0,
          nb::call_guard<nb::gil_scoped_release>(),
          "True when all are at rest, False when a stop was asked for.");
}
