// The native ends of the event path: synthetic feed, simulated venue with its gateway loop, and the
// benchmark's strategy. Each call blocks for the length of the run, without the interpreter lock.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "market/alternating_strategy.hpp"
#include "market/feed.hpp"
#include "market/gateway_loop.hpp"
#include "market/simulated_venue.hpp"

using namespace nb::literals;

namespace tapewire::bindings {
namespace {

constexpr std::int64_t kMaxFeeRate = 1'000'000'000;

void init_instrument(Instrument* self, std::uint32_t id, std::int64_t tick, std::int64_t lot,
                     std::int64_t maker_fee, std::int64_t taker_fee, std::uint32_t quantity_exponent) {
  if (id == 0 || id >= 1U << 20) throw nb::value_error("instrument ids are 1 to 1048575");
  if (tick <= 0 || lot <= 0) throw nb::value_error("tick and lot must be above zero");
  if (maker_fee > kMaxFeeRate || maker_fee < -kMaxFeeRate || taker_fee > kMaxFeeRate ||
      taker_fee < -kMaxFeeRate)
    throw nb::value_error("a fee is a fraction of the notional, -1 to 1");
  if (quantity_exponent > 18) throw nb::value_error("quantity_exponent is 0 to 18");
  new (self) Instrument{id, tick, lot, maker_fee, taker_fee, quantity_exponent};
}

std::uint64_t run_feed(SyntheticFeed& feed, const LoopContext& context, StreamWriter& writer,
                       const Lockstep* lockstep) {
  return finish(feed.run(context, writer, lockstep));
}

std::uint64_t run_gateway(const LoopContext& context, LiveReader& reader, StreamWriter& writer,
                          std::shared_ptr<StreamWriter> consumed, SimulatedVenue& venue,
                          const std::vector<std::pair<std::uint32_t, std::uint32_t>>& strategies) {
  const Claim claim(reader.taken);
  GatewayHandler handler(venue, writer, context, strategies);
  ConsumptionRecord record(std::move(consumed));
  return finish(run_loop(context, *reader.mux, record, handler));
}

std::uint64_t run_alternating(const LoopContext& context, LiveReader& reader, StreamWriter& writer,
                              std::shared_ptr<StreamWriter> consumed,
                              const std::vector<Instrument>& instruments, std::uint64_t every,
                              std::int64_t lots, std::uint64_t throttle_per_s, std::int64_t max_position) {
  if (every == 0 || lots <= 0 || max_position < 0 || throttle_per_s > 1'000'000'000)
    throw nb::value_error(
        "every and lots must be above zero, throttle_per_s at most 1e9, max_position not negative");
  for (const auto& i : instruments)
    if (!narrow(static_cast<int128>(lots) * i.lot))
      throw nb::value_error("lots times the lot does not fit 64 bits");
  const Claim claim(reader.taken);
  AlternatingStrategy handler(instruments, {every, lots, throttle_per_s, max_position}, writer, context);
  ConsumptionRecord record(std::move(consumed));
  return finish(run_loop(context, *reader.mux, record, handler));
}

}  // namespace
}  // namespace tapewire::bindings

void bind_market(nb::module_& m) {
  using namespace tapewire;
  using namespace tapewire::bindings;

  nb::class_<Instrument>(
      m, "NativeInstrument",
      "tick in 1e-9; lot in 10^-quantity_exponent; fees as fractions of the notional in 1e-9.")
      .def("__init__", &init_instrument, "id"_a, "tick"_a, "lot"_a, "maker_fee"_a = 0, "taker_fee"_a = 0,
           "quantity_exponent"_a = 9)
      .def_ro("id", &Instrument::id)
      .def_ro("tick", &Instrument::tick)
      .def_ro("lot", &Instrument::lot);

  nb::class_<SyntheticFeed>(m, "SyntheticFeed",
                            "A seeded random walk of 10-level books; instruments take turns.")
      .def(
          "__init__",
          [](SyntheticFeed* self, const std::vector<Instrument>& instruments, std::uint64_t events,
             std::int64_t interval_ns, bool poisson, bool paced, std::uint64_t seed, std::int64_t linger_ns,
             std::int64_t spin_window_ns, std::int64_t start_price, std::int64_t spread_ticks,
             std::int64_t realtime_offset_ns) {
            if (instruments.empty()) throw nb::value_error("a feed needs at least one instrument");
            if (start_price <= 0 || spread_ticks <= 0)
              throw nb::value_error("start_price and spread_ticks must be above zero");
            // The last window is not interrupted by a stop, and a Poisson gap may be 37 intervals.
            constexpr std::int64_t kDay = 86'400'000'000'000;
            if (interval_ns < 0 || interval_ns > kDay) throw nb::value_error("interval_ns is 0 to one day");
            constexpr std::int64_t kSecond = 1'000'000'000;
            if (linger_ns < 0 || linger_ns > kSecond || spin_window_ns < 0 || spin_window_ns > kSecond)
              throw nb::value_error("linger_ns and spin_window_ns are 0 to one second");
            for (const auto& i : instruments)
              if (!SyntheticFeed::fits(i, start_price, spread_ticks))
                throw nb::value_error("prices or quantities of this feed would not fit 64 bits");
            new (self)
                SyntheticFeed(instruments, {events, interval_ns, poisson, paced, seed, linger_ns,
                                            spin_window_ns, start_price, spread_ticks, realtime_offset_ns});
          },
          "instruments"_a, "events"_a = 0, "interval_ns"_a = 300'000, "poisson"_a = false, "paced"_a = true,
          "seed"_a = 42, "linger_ns"_a = 10'000, "spin_window_ns"_a = 100'000,
          "start_price"_a = 100'000'000'000, "spread_ticks"_a = 1, "realtime_offset_ns"_a = 0)
      .def("run", &run_feed, "context"_a, "writer"_a, "lockstep"_a.none() = nb::none(),
           nb::call_guard<nb::gil_scoped_release>(),
           "Publish until the events are out or a stop is asked for; returns how many.");

  nb::class_<SimulatedVenue>(m, "SimulatedVenue",
                             "Fills at the touch of the last Depth; see docs/venue-model.")
      .def(nb::init<const std::vector<Instrument>&, std::uint32_t>(), "instruments"_a,
           "max_open_orders"_a = 10'000)
      .def_prop_ro("open_orders", &SimulatedVenue::open_orders);

  m.def("run_gateway", &run_gateway, "context"_a, "reader"_a, "writer"_a, "consumed"_a.none(), "venue"_a,
        "strategies"_a, nb::call_guard<nb::gil_scoped_release>(),
        "The trade gateway's loop. strategies: [(slot, stream id)], whose orders are cancelled when they "
        "fail.");
  m.def("run_alternating", &run_alternating, "context"_a, "reader"_a, "writer"_a, "consumed"_a.none(),
        "instruments"_a, "every"_a = 5, "lots"_a = 1, "throttle_per_s"_a = 0, "max_position"_a = 0,
        nb::call_guard<nb::gil_scoped_release>(),
        "The native alternating strategy's loop; returns frames handled.");
}
