// The byte layout and the enumerations, exported so that Python never repeats a number.
#include <cstddef>
#include <string>
#include <vector>

#include "bindings/bindings.hpp"
#include "journal/crc32c.hpp"
#include "journal/format.hpp"

namespace {

using namespace tapewire;  // NOLINT: this file is nothing but that header's names

struct Field {
  const char* name;
  std::size_t offset;
  const char* format;  // numpy's
};

nb::dict describe(int type, std::size_t size, const std::vector<Field>& fields) {
  nb::list list;
  for (const auto& f : fields) list.append(nb::make_tuple(f.name, f.offset, f.format));
  nb::dict d;
  d["type"] = type;
  d["size"] = size;
  d["fields"] = list;
  return d;
}

#define FIELD(Struct, member, format) \
  Field { #member, offsetof(Struct, member), format }

nb::dict layouts() {
  const char* levels = "(10,2)i8";  // 10 levels of (price, quantity)
  nb::dict all;
  all["page_header"] = describe(0, sizeof(PageHeader),
                                {FIELD(PageHeader, magic, "u8"), FIELD(PageHeader, version, "u4"),
                                 FIELD(PageHeader, header_bytes, "u4"), FIELD(PageHeader, page_bytes, "u8"),
                                 FIELD(PageHeader, page_number, "u8"), FIELD(PageHeader, stream_id, "u4"),
                                 FIELD(PageHeader, reserved0, "u4"), FIELD(PageHeader, run_id, "u8"),
                                 FIELD(PageHeader, stream_name, "S32"), FIELD(PageHeader, static_crc, "u4"),
                                 FIELD(PageHeader, reserved1, "u4"), FIELD(PageHeader, first_seq, "u8"),
                                 FIELD(PageHeader, first_time, "i8"), FIELD(PageHeader, prepared_time, "i8"),
                                 FIELD(PageHeader, epoch, "u4"), FIELD(PageHeader, reserved2, "u4"),
                                 FIELD(PageHeader, start_word, "u8")});
  all["frame_header"] = describe(
      0, sizeof(FrameHeader),
      {FIELD(FrameHeader, length, "u4"), FIELD(FrameHeader, crc, "u4"), FIELD(FrameHeader, seq, "u8"),
       FIELD(FrameHeader, gen_time, "i8"), FIELD(FrameHeader, type, "u2"), FIELD(FrameHeader, schema, "u2"),
       FIELD(FrameHeader, stream_id, "u2"), FIELD(FrameHeader, pad, "u1"),
       FIELD(FrameHeader, reserved0, "u1"), FIELD(FrameHeader, cause_seq, "u8"),
       FIELD(FrameHeader, root_seq, "u8"), FIELD(FrameHeader, cause_stream, "u2"),
       FIELD(FrameHeader, root_stream, "u2"), FIELD(FrameHeader, root_type, "u2"),
       FIELD(FrameHeader, reserved1, "u2")});
  auto add = [&](const char* name, FrameType type, std::size_t size, const std::vector<Field>& fields) {
    all[name] = describe(static_cast<int>(type), size, fields);
  };
  add("depth", FrameType::kDepth, sizeof(Depth),
      {FIELD(Depth, exchange_time, "i8"), FIELD(Depth, receive_time, "i8"), FIELD(Depth, update_id, "u8"),
       FIELD(Depth, instrument_id, "u4"), FIELD(Depth, bid_count, "u2"), FIELD(Depth, ask_count, "u2"),
       FIELD(Depth, bids, levels), FIELD(Depth, asks, levels)});
  add("book_ticker", FrameType::kBookTicker, sizeof(BookTicker),
      {FIELD(BookTicker, exchange_time, "i8"), FIELD(BookTicker, receive_time, "i8"),
       FIELD(BookTicker, update_id, "u8"), FIELD(BookTicker, instrument_id, "u4"),
       FIELD(BookTicker, reserved, "u4"), Field{"bid_price", offsetof(BookTicker, bid), "i8"},
       Field{"bid_quantity", offsetof(BookTicker, bid) + 8, "i8"},
       Field{"ask_price", offsetof(BookTicker, ask), "i8"},
       Field{"ask_quantity", offsetof(BookTicker, ask) + 8, "i8"}});
  add("trade", FrameType::kTrade, sizeof(Trade),
      {FIELD(Trade, exchange_time, "i8"), FIELD(Trade, receive_time, "i8"), FIELD(Trade, trade_id, "u8"),
       FIELD(Trade, instrument_id, "u4"), FIELD(Trade, aggressor, "u1"), FIELD(Trade, reserved, "(3,)u1"),
       FIELD(Trade, price, "i8"), FIELD(Trade, quantity, "i8")});
  add("order_input", FrameType::kOrderInput, sizeof(OrderInput),
      {FIELD(OrderInput, order_id, "u8"), FIELD(OrderInput, instrument_id, "u4"),
       FIELD(OrderInput, action, "u1"), FIELD(OrderInput, side, "u1"), FIELD(OrderInput, order_type, "u1"),
       FIELD(OrderInput, time_in_force, "u1"), FIELD(OrderInput, price, "i8"),
       FIELD(OrderInput, quantity, "i8"), FIELD(OrderInput, request_id, "u8")});
  add("order_report", FrameType::kOrderReport, sizeof(OrderReport),
      {FIELD(OrderReport, order_id, "u8"), FIELD(OrderReport, instrument_id, "u4"),
       FIELD(OrderReport, status, "u1"), FIELD(OrderReport, side, "u1"), FIELD(OrderReport, reason, "u2"),
       FIELD(OrderReport, price, "i8"), FIELD(OrderReport, quantity, "i8"), FIELD(OrderReport, filled, "i8"),
       FIELD(OrderReport, leaves, "i8"), FIELD(OrderReport, request_id, "u8"),
       FIELD(OrderReport, book_seq, "u8"), FIELD(OrderReport, book_stream, "u2"),
       FIELD(OrderReport, action, "u1"), FIELD(OrderReport, reserved, "(5,)u1")});
  add("fill", FrameType::kFill, sizeof(Fill),
      {FIELD(Fill, order_id, "u8"), FIELD(Fill, exec_id, "u8"), FIELD(Fill, instrument_id, "u4"),
       FIELD(Fill, side, "u1"), FIELD(Fill, liquidity, "u1"), FIELD(Fill, book_stream, "u2"),
       FIELD(Fill, price, "i8"), FIELD(Fill, quantity, "i8"), FIELD(Fill, filled, "i8"),
       FIELD(Fill, leaves, "i8"), FIELD(Fill, fee, "i8"), FIELD(Fill, book_seq, "u8")});
  add("timer", FrameType::kTimer, sizeof(Timer),
      {FIELD(Timer, timer_id, "u8"), FIELD(Timer, due_time, "i8"), FIELD(Timer, fire_time, "i8")});
  add("lifecycle", FrameType::kLifecycle, sizeof(Lifecycle),
      {FIELD(Lifecycle, kind, "u1"), FIELD(Lifecycle, reserved, "(7,)u1"),
       FIELD(Lifecycle, event_time, "i8")});
  add("position", FrameType::kPosition, sizeof(Position),
      {FIELD(Position, instrument_id, "u4"), FIELD(Position, strategy_stream, "u2"),
       FIELD(Position, reserved, "u2"), FIELD(Position, quantity, "i8"), FIELD(Position, average_price, "i8"),
       FIELD(Position, realised, "i8"), FIELD(Position, unrealised, "i8"), FIELD(Position, fees, "i8"),
       FIELD(Position, mark_price, "i8"), FIELD(Position, fills, "u8")});
  add("feed_gap", FrameType::kFeedGap, sizeof(FeedGap),
      {FIELD(FeedGap, instrument_id, "u4"), FIELD(FeedGap, reserved, "u4"), FIELD(FeedGap, expected, "u8"),
       FIELD(FeedGap, found, "u8")});
  // Of variable length: 1 to 32 of these entries.
  add("consumed", FrameType::kConsumed, sizeof(ConsumedEntry),
      {FIELD(ConsumedEntry, up_to_seq, "u8"), FIELD(ConsumedEntry, stream_id, "u4"),
       FIELD(ConsumedEntry, frames, "u4")});
  return all;
}

#undef FIELD

template <class E>
void put(nb::dict& d, const char* name, E value) {
  d[name] = static_cast<int>(value);
}

nb::dict constants() {
  nb::dict all;
  nb::dict d;
  put(d, "DEPTH", FrameType::kDepth);
  put(d, "BOOK_TICKER", FrameType::kBookTicker);
  put(d, "TRADE", FrameType::kTrade);
  put(d, "ORDER_INPUT", FrameType::kOrderInput);
  put(d, "ORDER_REPORT", FrameType::kOrderReport);
  put(d, "FILL", FrameType::kFill);
  put(d, "TIMER", FrameType::kTimer);
  put(d, "LIFECYCLE", FrameType::kLifecycle);
  put(d, "CONSUMED", FrameType::kConsumed);
  put(d, "POSITION", FrameType::kPosition);
  put(d, "TEXT", FrameType::kText);
  put(d, "FEED_GAP", FrameType::kFeedGap);
  put(d, "USER", FrameType::kUser);
  put(d, "PAGE_END", FrameType::kPageEnd);
  all["FrameType"] = d;
  d = nb::dict();
  put(d, "NONE", Side::kNone);
  put(d, "BUY", Side::kBuy);
  put(d, "SELL", Side::kSell);
  all["Side"] = d;
  d = nb::dict();
  put(d, "NEW", OrderAction::kNew);
  put(d, "REPLACE", OrderAction::kReplace);
  put(d, "CANCEL", OrderAction::kCancel);
  all["OrderAction"] = d;
  d = nb::dict();
  put(d, "LIMIT", OrderType::kLimit);
  put(d, "MARKET", OrderType::kMarket);
  all["OrderType"] = d;
  d = nb::dict();
  put(d, "GTC", TimeInForce::kGtc);
  put(d, "IOC", TimeInForce::kIoc);
  put(d, "FOK", TimeInForce::kFok);
  all["TimeInForce"] = d;
  d = nb::dict();
  put(d, "ACCEPTED", ReportStatus::kAccepted);
  put(d, "REJECTED", ReportStatus::kRejected);
  put(d, "REPLACED", ReportStatus::kReplaced);
  put(d, "CANCELLED", ReportStatus::kCancelled);
  put(d, "EXPIRED", ReportStatus::kExpired);
  all["ReportStatus"] = d;
  d = nb::dict();
  put(d, "NONE", Reason::kNone);
  put(d, "UNKNOWN_INSTRUMENT", Reason::kUnknownInstrument);
  put(d, "OFF_TICK", Reason::kOffTick);
  put(d, "OFF_LOT", Reason::kOffLot);
  put(d, "BAD_QUANTITY", Reason::kBadQuantity);
  put(d, "BAD_PRICE", Reason::kBadPrice);
  put(d, "NO_MARKET", Reason::kNoMarket);
  put(d, "UNKNOWN_ORDER", Reason::kUnknownOrder);
  put(d, "DUPLICATE_ORDER", Reason::kDuplicateOrder);
  put(d, "ORDER_DONE", Reason::kOrderDone);
  put(d, "THROTTLED", Reason::kThrottled);
  put(d, "MAX_POSITION", Reason::kMaxPosition);
  put(d, "CAPACITY", Reason::kCapacity);
  put(d, "OVERFLOW", Reason::kOverflow);
  put(d, "UNSUPPORTED", Reason::kUnsupported);
  put(d, "STRATEGY_FAILED", Reason::kStrategyFailed);
  put(d, "REQUESTED", Reason::kRequested);
  put(d, "NOT_FILLABLE", Reason::kNotFillable);
  all["Reason"] = d;
  d = nb::dict();
  put(d, "MAKER", Liquidity::kMaker);
  put(d, "TAKER", Liquidity::kTaker);
  all["Liquidity"] = d;
  d = nb::dict();
  put(d, "START", LifecycleKind::kStart);
  put(d, "STOP", LifecycleKind::kStop);
  put(d, "END_OF_INPUT", LifecycleKind::kEndOfInput);
  put(d, "FAILED", LifecycleKind::kFailed);
  all["LifecycleKind"] = d;
  return all;
}

}  // namespace

void bind_layout(nb::module_& m) {
  m.attr("FORMAT_VERSION") = kFormatVersion;
  m.attr("DEPTH_LEVELS") = kDepthLevels;
  m.attr("MAX_STREAMS") = kMaxStreams;
  m.def("layouts", &layouts, nb::sig("def layouts() -> dict[str, dict[str, typing.Any]]"),
        "Byte layout of every header and payload: {name: {type, size, fields: [(name, offset, numpy "
        "format)]}}.");
  m.def("constants", &constants, nb::sig("def constants() -> dict[str, dict[str, int]]"),
        "The enumerations of the format: {enumeration: {NAME: value}}.");
  m.def(
      "crc32c",
      [](const nb::bytes& data, std::uint32_t seed) { return crc32c(data.data(), data.size(), seed); },
      nb::arg("data"), nb::arg("seed") = 0, "CRC32C (Castagnoli) of `data`, continuing `seed`.");
}
