// What a venue is to the trade gateway: it takes requests and market data, and answers into a sink.
#pragma once

#include <cstdint>

#include "journal/writer.hpp"

namespace tapewire {

// Writes answers into the gateway's stream, each naming the frame that led to it.
class AnswerSink {
 public:
  explicit AnswerSink(StreamWriter& writer, CounterBlock* block) noexcept : writer_(writer), block_(block) {}

  void begin(const FrameHeader& cause) noexcept { origin_ = Origin::caused_by(cause); }
  void begin_unsolicited() noexcept { origin_ = {}; }

  void report(const OrderReport& r) noexcept {
    auto* p = writer_.reserve<OrderReport>(FrameType::kOrderReport);
    if (p == nullptr) return fail();
    *p = r;
    last_time_ = monotonic_ns();
    writer_.commit_at(last_time_, origin_);
    if (block_ == nullptr) return;
    block_->add(Counter::kReports);
    block_->add(Counter::kFramesOut);
    if (r.status == static_cast<std::uint8_t>(ReportStatus::kRejected)) block_->add(Counter::kRejects);
  }
  void fill(const Fill& f) noexcept {
    auto* p = writer_.reserve<Fill>(FrameType::kFill);
    if (p == nullptr) return fail();
    *p = f;
    last_time_ = monotonic_ns();
    writer_.commit_at(last_time_, origin_);
    if (block_ == nullptr) return;
    block_->add(Counter::kFills);
    block_->add(Counter::kFramesOut);
  }
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] const JournalError& error() const noexcept { return writer_.error(); }
  [[nodiscard]] std::int64_t last_time() const noexcept { return last_time_; }

 private:
  void fail() noexcept { failed_ = true; }

  StreamWriter& writer_;
  CounterBlock* block_;
  Origin origin_;
  std::int64_t last_time_ = 0;
  bool failed_ = false;
};

// Every request gets exactly one direct answer (accepted, rejected, replaced, cancelled or expired);
// fills and expiries may follow it.
class Venue {
 public:
  virtual ~Venue() = default;
  virtual void insert(const OrderInput& order, std::uint16_t strategy_stream, AnswerSink& sink) noexcept = 0;
  virtual void replace(const OrderInput& order, AnswerSink& sink) noexcept = 0;
  virtual void cancel(const OrderInput& order, AnswerSink& sink) noexcept = 0;
  // Market data moves the venue: resting orders may fill.
  virtual void poll(const Depth& depth, std::uint16_t stream, std::uint64_t seq,
                    AnswerSink& sink) noexcept = 0;
  // Cancels every open order of a strategy that failed.
  virtual void cancel_all(std::uint16_t strategy_stream, Reason reason, AnswerSink& sink) noexcept = 0;
  [[nodiscard]] virtual std::uint32_t open_orders() const noexcept = 0;
};

}  // namespace tapewire
