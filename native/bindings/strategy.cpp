// The native loop under a Python strategy and under the ledger: it waits without the interpreter lock,
// takes it for each event that the handler wants, and is the port through which orders leave.
#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "bindings/event.hpp"
#include "market/instrument.hpp"

using namespace nb::literals;

namespace tapewire::bindings {
namespace {

// The handler's method of that name, or null when it has none: then the event never reaches Python.
nb::object method(nb::handle handler, const char* name) {
  nb::object found = nb::getattr(handler, name, nb::none());
  return found.is_none() ? nb::object() : found;
}

// How many decimals a quantity of the frame's instrument has.
template <class Payload>
std::uint32_t exponent_of(const InstrumentTable& instruments, const FrameHeader& frame) noexcept {
  if constexpr (requires(Payload p) { p.instrument_id; }) {
    if (const auto* p = payload_of<Payload>(frame))
      if (const Instrument* i = instruments.find(p->instrument_id)) return i->quantity_exponent;
  }
  return 9;
}

class StrategyLoop {
 public:
  StrategyLoop(const LoopContext& context, std::shared_ptr<LiveReader> reader,
               std::shared_ptr<StreamWriter> writer, std::shared_ptr<StreamWriter> consumed,
               const std::vector<Instrument>& instruments, bool event_time)
      : context_(context),
        reader_(std::move(reader)),
        writer_(std::move(writer)),
        record_(std::move(consumed)),
        instruments_(instruments),
        event_time_(event_time) {
    timers_.reserve(1024);
  }

  // -- the port -------------------------------------------------------------------------------
  std::uint64_t submit(std::uint8_t action, std::uint8_t type, std::uint8_t tif, std::uint8_t side,
                       std::uint32_t instrument, std::int64_t price, std::int64_t quantity,
                       std::uint64_t order_id, std::uint64_t request_id) {
    check_thread();
    auto* o = writer_->reserve<OrderInput>(FrameType::kOrderInput);
    if (o == nullptr) throw writer_->error();
    *o = OrderInput{order_id, instrument, action, side, type, tif, price, quantity, request_id};
    const auto seq = writer_->commit(origin());
    block().add(Counter::kOrders);
    block().add(Counter::kFramesOut);
    return seq;
  }
  std::uint64_t reject_local(std::uint8_t action, std::uint16_t reason, std::uint8_t side,
                             std::uint32_t instrument, std::int64_t price, std::int64_t quantity,
                             std::int64_t filled, std::uint64_t order_id, std::uint64_t request_id) {
    check_thread();
    auto* r = writer_->reserve<OrderReport>(FrameType::kOrderReport);
    if (r == nullptr) throw writer_->error();
    *r = OrderReport{};
    r->order_id = order_id;
    r->instrument_id = instrument;
    r->status = static_cast<std::uint8_t>(ReportStatus::kRejected);
    r->side = side;
    r->reason = reason;
    r->price = price;
    r->quantity = quantity;
    r->filled = filled;
    r->request_id = request_id;
    r->action = action;
    const auto seq = writer_->commit(origin());
    block().add(Counter::kRefused);
    block().add(Counter::kFramesOut);
    return seq;
  }
  void set_timer(std::uint64_t id, std::int64_t due) {
    check_thread();
    const Pending p{due, id};
    timers_.insert(std::upper_bound(timers_.begin(), timers_.end(), p, later), p);
  }
  bool cancel_timer(std::uint64_t id) {
    check_thread();
    return std::erase_if(timers_, [&](const Pending& p) { return p.id == id; }) != 0;
  }
  [[nodiscard]] std::int64_t now_ns() const noexcept { return event_time_ ? event_now_ : monotonic_ns(); }

  // (stream id, seq, type) of the frame being dispatched; None between frames.
  [[nodiscard]] nb::object current() const {
    if (current_.seq == 0) return nb::none();
    return nb::make_tuple(current_.stream_id, current_.seq, current_.type);
  }
  std::uint64_t text(const std::string& line) {
    check_thread();
    const std::string cut = line.substr(0, 4096);
    const auto seq =
        writer_->append(FrameType::kText, cut.data(), static_cast<std::uint32_t>(cut.size()), origin());
    if (seq == 0) throw writer_->error();
    block().add(Counter::kFramesOut);
    return seq;
  }

  // -- the loop -------------------------------------------------------------------------------
  // on_start, then events until a stop is asked for, then on_stop. An exception of the handler ends it,
  // after a Lifecycle frame that says so, and is raised.
  std::uint64_t run(nb::handle handler) {
    const Claim claim(reader_->taken);
    const Forget forget{*this};
    thread_ = std::this_thread::get_id();
    on_depth_ = method(handler, "on_depth");
    on_ticker_ = method(handler, "on_ticker");
    on_trade_ = method(handler, "on_trade");
    on_report_ = method(handler, "on_report");
    on_fill_ = method(handler, "on_fill");
    on_timer_ = method(handler, "on_timer");
    LoopResult result;
    try {
      lifecycle(LifecycleKind::kStart);
      call(method(handler, "on_start"));
      {
        const nb::gil_scoped_release release;
        result = run_loop(context_, *reader_->mux, record_, *this);
      }
      if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
      (void)finish(result);
      lifecycle(LifecycleKind::kStop);
      call(method(handler, "on_stop"));
    } catch (...) {
      const FrameHeader at = current_;
      try {
        lifecycle(LifecycleKind::kFailed, Origin::caused_by(at));
      } catch (const JournalError&) {  // a full journal: what ended the loop is the error to tell
      }
      current_ = at;
      throw;
    }
    current_ = {};
    return result.frames;
  }

  bool on_frame(const FrameHeader& f) noexcept {
    switch (static_cast<FrameType>(f.type)) {
      case FrameType::kDepth: {
        const auto* d = payload_of<Depth>(f);
        if (d == nullptr) return drop();
        block().add(Counter::kDepths);
        if (!advance_clock(d->receive_time)) return false;
        return dispatch<Depth>(on_depth_, f);
      }
      case FrameType::kBookTicker: {
        const auto* t = payload_of<BookTicker>(f);
        if (t == nullptr) return drop();
        if (!advance_clock(t->receive_time)) return false;
        return dispatch<BookTicker>(on_ticker_, f);
      }
      case FrameType::kTrade: {
        const auto* t = payload_of<Trade>(f);
        if (t == nullptr) return drop();
        block().add(Counter::kTrades);
        if (!advance_clock(t->receive_time)) return false;
        return dispatch<Trade>(on_trade_, f);
      }
      case FrameType::kOrderReport: {
        const auto* r = payload_of<OrderReport>(f);
        if (r == nullptr) return drop();
        if (!mine(r->order_id)) return true;
        block().add(Counter::kReports);
        if (r->status == static_cast<std::uint8_t>(ReportStatus::kRejected)) block().add(Counter::kRejects);
        return dispatch<OrderReport>(on_report_, f);
      }
      case FrameType::kFill: {
        const auto* fill = payload_of<Fill>(f);
        if (fill == nullptr) return drop();
        if (!mine(fill->order_id)) return true;
        block().add(Counter::kFills);
        return dispatch<Fill>(on_fill_, f);
      }
      default:
        return true;
    }
  }
  bool on_idle(std::int64_t now) noexcept { return event_time_ || fire_timers(now); }
  [[nodiscard]] std::int64_t due() const noexcept {
    return event_time_ || timers_.empty() ? kNever : timers_.back().due;
  }
  [[nodiscard]] const JournalError* error() const noexcept {
    return !raised_ && writer_->has_error() ? &writer_->error() : nullptr;
  }

 private:
  // A handler usually holds its port, this loop: let go of its methods, or neither is ever freed.
  struct Forget {
    StrategyLoop& loop;
    ~Forget() {
      loop.thread_ = {};
      for (auto* f : {&loop.on_depth_, &loop.on_ticker_, &loop.on_trade_, &loop.on_report_, &loop.on_fill_,
                      &loop.on_timer_})
        f->reset();
    }
  };
  struct Pending {
    std::int64_t due;
    std::uint64_t id;
  };
  // Latest first: the next timer is at the back. Equal times fire in the order they were set.
  static bool later(const Pending& a, const Pending& b) noexcept {
    return a.due != b.due ? a.due > b.due : a.id > b.id;
  }

  // The loop writes without the interpreter lock, so the lock does not keep another thread away.
  void check_thread() const {
    if (thread_ != std::thread::id{} && thread_ != std::this_thread::get_id())
      throw std::runtime_error("orders, timers and texts leave by the thread that runs the strategy");
  }
  // A frame that says it is what it cannot be.
  bool drop() noexcept {
    block().add(Counter::kDropped);
    return true;
  }

  [[nodiscard]] CounterBlock& block() const noexcept { return context_.block(); }
  [[nodiscard]] Origin origin() const noexcept {
    return current_.seq == 0 ? Origin{} : Origin::caused_by(current_);
  }
  [[nodiscard]] bool mine(std::uint64_t order_id) const noexcept {
    return (order_id >> 48) == writer_->stream_id();
  }

  void lifecycle(LifecycleKind kind, const Origin& from = {}) {
    auto* l = writer_->reserve<Lifecycle>(FrameType::kLifecycle);
    if (l == nullptr) throw writer_->error();
    *l = Lifecycle{static_cast<std::uint8_t>(kind), {}, now_ns()};
    writer_->commit(from);
    block().add(Counter::kFramesOut);
    own_frame(FrameType::kLifecycle);
  }
  // What follows is caused by the frame just written to our own stream.
  void own_frame(FrameType type) noexcept {
    current_ = {};
    current_.seq = writer_->last_seq();
    current_.stream_id = static_cast<std::uint16_t>(writer_->stream_id());
    current_.type = static_cast<std::uint16_t>(type);
  }
  static void call(const nb::object& f) {
    if (f.is_valid()) f();
  }

  template <class Payload>
  bool dispatch(const nb::object& f, const FrameHeader& frame) noexcept {
    if (!f.is_valid()) return true;  // the length was checked
    current_ = frame;
    const nb::gil_scoped_acquire acquire;
    try {
      f(Event<Payload>(frame, exponent_of<Payload>(instruments_, frame)));
      current_ = {};
      return true;
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }
  bool advance_clock(std::int64_t time) noexcept {
    if (!event_time_) return true;
    if (!fire_timers(time)) return false;
    if (time > event_now_) event_now_ = time;
    return true;
  }
  bool fire_timers(std::int64_t now) noexcept {
    // On the real clock one that is set for a time gone by, from on_timer, waits for the next look: a stop
    // request is noticed in between.
    for (std::size_t left = timers_.size(); !timers_.empty() && timers_.back().due <= now; --left) {
      if (left == 0 && !event_time_) break;
      const Pending p = timers_.back();
      timers_.pop_back();
      if (event_time_) event_now_ = std::max(event_now_, p.due);
      auto* t = writer_->reserve<Timer>(FrameType::kTimer);
      if (t == nullptr) return false;
      *t = Timer{p.id, p.due, now_ns()};
      Timer copy = *t;
      writer_->commit();
      block().add(Counter::kTimers);
      block().add(Counter::kFramesOut);
      own_frame(FrameType::kTimer);
      record_.note(current_.stream_id, current_.seq);
      if (!on_timer_.is_valid()) {
        current_ = {};
        continue;
      }
      struct {
        FrameHeader header;
        Timer timer;
      } frame{current_, copy};
      frame.header.length = sizeof frame;
      frame.header.gen_time = copy.fire_time;
      if (!dispatch<Timer>(on_timer_, frame.header)) return false;
    }
    return true;
  }

  LoopContext context_;
  std::shared_ptr<LiveReader> reader_;
  std::shared_ptr<StreamWriter> writer_;
  ConsumptionRecord record_;
  InstrumentTable instruments_;
  bool event_time_;
  std::int64_t event_now_ = 0;
  std::vector<Pending> timers_;
  FrameHeader current_{};
  std::exception_ptr raised_;
  std::thread::id thread_;  // that runs the loop, while it runs
  nb::object on_depth_, on_ticker_, on_trade_, on_report_, on_fill_, on_timer_;
};

// The ledger's loop: orders, reports and fills one by one; of the books only the last touch.
class LedgerLoop {
 public:
  LedgerLoop(const LoopContext& context, std::shared_ptr<LiveReader> reader,
             std::shared_ptr<StreamWriter> consumed, const std::vector<Instrument>& instruments)
      : context_(context),
        reader_(std::move(reader)),
        record_(std::move(consumed)),
        instruments_(instruments),
        touches_(instruments_.size()) {}

  // handler: on_order_input(event), on_report(event), on_fill(event), on_touch(instrument_id, bid, ask)
  // and on_batch() after a batch that held any of them.
  std::uint64_t run(nb::handle handler) {
    const Claim claim(reader_->taken);
    const Forget forget{*this};
    on_input_ = method(handler, "on_order_input");
    on_report_ = method(handler, "on_report");
    on_fill_ = method(handler, "on_fill");
    on_touch_ = method(handler, "on_touch");
    on_batch_ = method(handler, "on_batch");
    LoopResult result;
    {
      const nb::gil_scoped_release release;
      result = run_loop(context_, *reader_->mux, record_, *this);
    }
    if (raised_) std::rethrow_exception(std::exchange(raised_, nullptr));
    return finish(result);
  }
  bool on_frame(const FrameHeader& f) noexcept {
    switch (static_cast<FrameType>(f.type)) {
      case FrameType::kDepth: {
        const auto* d = payload_of<Depth>(f);
        if (d == nullptr) return drop();
        context_.block().add(Counter::kDepths);
        if (d->instrument_id >= touches_.size() || d->bid_count == 0 || d->ask_count == 0) return true;
        touches_[d->instrument_id] = {d->bids[0].price, d->asks[0].price, true};
        dirty_ = true;
        return true;
      }
      case FrameType::kOrderInput:
        context_.block().add(Counter::kOrders);
        return dispatch<OrderInput>(on_input_, f);
      case FrameType::kOrderReport:
        context_.block().add(Counter::kReports);
        return dispatch<OrderReport>(on_report_, f);
      case FrameType::kFill:
        context_.block().add(Counter::kFills);
        return dispatch<Fill>(on_fill_, f);
      default:
        return true;
    }
  }
  bool on_idle(std::int64_t) noexcept {
    if (!dirty_) return true;
    dirty_ = false;
    const nb::gil_scoped_acquire acquire;
    try {
      for (std::uint32_t i = 0; i < touches_.size(); ++i) {
        if (!touches_[i].changed) continue;
        touches_[i].changed = false;
        if (on_touch_.is_valid()) on_touch_(i, touches_[i].bid, touches_[i].ask);
      }
      if (on_batch_.is_valid()) on_batch_();
      return true;
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }
  [[nodiscard]] std::int64_t due() const noexcept { return kNever; }
  [[nodiscard]] const JournalError* error() const noexcept { return nullptr; }

 private:
  struct Forget {
    LedgerLoop& loop;
    ~Forget() {
      for (auto* f : {&loop.on_input_, &loop.on_report_, &loop.on_fill_, &loop.on_touch_, &loop.on_batch_})
        f->reset();
    }
  };
  struct Touch {
    std::int64_t bid = 0;
    std::int64_t ask = 0;
    bool changed = false;
  };
  bool drop() noexcept {
    context_.block().add(Counter::kDropped);
    return true;
  }
  template <class Payload>
  bool dispatch(const nb::object& f, const FrameHeader& frame) noexcept {
    if (payload_of<Payload>(frame) == nullptr) return drop();
    dirty_ = true;
    if (!f.is_valid()) return true;
    const nb::gil_scoped_acquire acquire;
    try {
      f(Event<Payload>(frame, exponent_of<Payload>(instruments_, frame)));
      return true;
    } catch (...) {
      raised_ = std::current_exception();
      return false;
    }
  }

  LoopContext context_;
  std::shared_ptr<LiveReader> reader_;
  ConsumptionRecord record_;
  InstrumentTable instruments_;
  std::vector<Touch> touches_;
  bool dirty_ = false;
  std::exception_ptr raised_;
  nb::object on_input_, on_report_, on_fill_, on_touch_, on_batch_;
};

}  // namespace
}  // namespace tapewire::bindings

void bind_strategy(nb::module_& m) {
  using namespace tapewire;
  using namespace tapewire::bindings;
  nb::class_<StrategyLoop>(m, "StrategyLoop",
                           "The loop of a Python strategy, and the port its orders leave by.")
      .def(nb::init<const LoopContext&, std::shared_ptr<LiveReader>, std::shared_ptr<StreamWriter>,
                    std::shared_ptr<StreamWriter>, const std::vector<Instrument>&, bool>(),
           "context"_a, "reader"_a, "writer"_a, "consumed"_a.none(), "instruments"_a, "event_time"_a = false)
      .def("submit", &StrategyLoop::submit, "action"_a, "order_type"_a, "time_in_force"_a, "side"_a,
           "instrument_id"_a, "price"_a, "quantity"_a, "order_id"_a, "request_id"_a)
      .def("reject_local", &StrategyLoop::reject_local, "action"_a, "reason"_a, "side"_a, "instrument_id"_a,
           "price"_a, "quantity"_a, "filled"_a, "order_id"_a, "request_id"_a)
      .def("set_timer", &StrategyLoop::set_timer, "timer_id"_a, "due_ns"_a)
      .def("cancel_timer", &StrategyLoop::cancel_timer, "timer_id"_a)
      .def("now_ns", &StrategyLoop::now_ns)
      .def("text", &StrategyLoop::text, "line"_a,
           "Append a Text frame (at most 4096 bytes); returns its seq.")
      .def_prop_ro("current", &StrategyLoop::current,
                   nb::sig("def current(self) -> tuple[int, int, int] | None"),
                   "(stream id, seq, type) of the frame being dispatched, or that failed.")
      .def("run", &StrategyLoop::run, "handler"_a, nb::sig("def run(self, handler: object) -> int"));
  nb::class_<LedgerLoop>(m, "LedgerLoop", "The loop of the ledger process.")
      .def(nb::init<const LoopContext&, std::shared_ptr<LiveReader>, std::shared_ptr<StreamWriter>,
                    const std::vector<Instrument>&>(),
           "context"_a, "reader"_a, "consumed"_a.none(), "instruments"_a)
      .def("run", &LedgerLoop::run, "handler"_a, nb::sig("def run(self, handler: object) -> int"));
}
