// The bytes of a journal: page header, frame header and every payload.
// docs/journal-format.md explains them; the static_asserts keep both honest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tapewire {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint64_t kMagic = 0x31455249'57504154ULL;  // "TAPWIRE1", little endian
inline constexpr std::uint32_t kDepthLevels = 10;
inline constexpr std::uint32_t kMaxStreams = 64;  // stream ids are 1 .. 63
inline constexpr std::uint32_t kFrameAlign = 8;

// ---------------------------------------------------------------------------------------------
// Page header, 128 bytes, at offset 0 of every page file.
//
//   0               8       12      16              24              32      36   38
//   +---------------+-------+-------+---------------+---------------+-------+----+----+
//   | magic         |version|hdr len| page_bytes    | page_number   |strm id|     0   |
//   +---------------+-------+-------+---------------+---------------+-------+---------+
//   40              48                                              80      84
//   +---------------+-----------------------------------------------+-------+---------+
//   | run_id        | stream name, NUL padded, 32 bytes             |crc A  |     0   |
//   +---------------+-----------------------------------------------+-------+---------+
//   88              96              104             112     116     120
//   +---------------+---------------+---------------+-------+-------+---------------+
//   | first_seq     | first_time    | prepared_time | epoch |   0   | start word    |
//   +---------------+---------------+---------------+-------+-------+---------------+
//
// Bytes 0..87 are written when the page is prepared (crc A covers 0..79). Bytes 88..127 are written
// when the writer rolls into the page: the start word holds 1 in its low half and the CRC32C of
// 88..119 in its high half and is stored last, with release. A start word of zero means "prepared,
// not started": such a page holds no frame.
struct PageHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t page_bytes;
  std::uint64_t page_number;  // from 1
  std::uint32_t stream_id;
  std::uint32_t reserved0;
  std::uint64_t run_id;
  char stream_name[32];
  std::uint32_t static_crc;
  std::uint32_t reserved1;
  std::uint64_t first_seq;     // seq of the first frame of this page
  std::int64_t first_time;     // CLOCK_MONOTONIC ns when the page was started
  std::int64_t prepared_time;  // CLOCK_MONOTONIC ns when the page was prepared (informative)
  std::uint32_t epoch;         // counts boots and resumes, from 1
  std::uint32_t reserved2;
  std::uint64_t start_word;
};
static_assert(sizeof(PageHeader) == 128 && std::is_trivially_copyable_v<PageHeader>);
static_assert(offsetof(PageHeader, version) == 8 && offsetof(PageHeader, header_bytes) == 12);
static_assert(offsetof(PageHeader, page_bytes) == 16 && offsetof(PageHeader, page_number) == 24);
static_assert(offsetof(PageHeader, stream_id) == 32 && offsetof(PageHeader, run_id) == 40);
static_assert(offsetof(PageHeader, stream_name) == 48 && offsetof(PageHeader, static_crc) == 80);
static_assert(offsetof(PageHeader, first_seq) == 88 && offsetof(PageHeader, first_time) == 96);
static_assert(offsetof(PageHeader, epoch) == 112 && offsetof(PageHeader, start_word) == 120);

// ---------------------------------------------------------------------------------------------
// Frame header, 56 bytes; a frame starts on a multiple of 8 and its length is a multiple of 8.
//
//   0       4       8               16              24   26   28   30  31
//   +-------+-------+---------------+---------------+----+----+----+---+---+
//   |length |crc32c | seq           | gen_time      |type|schm|strm|pad| 0 |
//   +-------+-------+---------------+---------------+----+----+----+---+---+
//   32              40              48   50   52   54
//   +---------------+---------------+----+----+----+----+
//   | cause_seq     | root_seq      |c st|r st|r ty| 0  |   payload, then `pad` zero bytes
//   +---------------+---------------+----+----+----+----+
//
// Bytes 0..7 are the commit word: one aligned 8-byte release store publishes the frame. `length`
// counts header, payload and padding. The CRC covers the 4 bytes of `length`, then bytes 8..length-1.
// A commit word of zero means "nothing yet". A frame of type kPageEnd ends its page: its seq is that
// of the next page's first frame and takes no number of its own.
struct FrameHeader {
  std::uint32_t length;
  std::uint32_t crc;
  std::uint64_t seq;
  std::int64_t gen_time;
  std::uint16_t type;
  std::uint16_t schema;
  std::uint16_t stream_id;
  std::uint8_t pad;
  std::uint8_t reserved0;
  std::uint64_t cause_seq;
  std::uint64_t root_seq;
  std::uint16_t cause_stream;
  std::uint16_t root_stream;
  std::uint16_t root_type;
  std::uint16_t reserved1;
};
static_assert(sizeof(FrameHeader) == 56 && std::is_trivially_copyable_v<FrameHeader>);
static_assert(offsetof(FrameHeader, crc) == 4 && offsetof(FrameHeader, seq) == 8);
static_assert(offsetof(FrameHeader, gen_time) == 16 && offsetof(FrameHeader, type) == 24);
static_assert(offsetof(FrameHeader, stream_id) == 28 && offsetof(FrameHeader, pad) == 30);
static_assert(offsetof(FrameHeader, cause_seq) == 32 && offsetof(FrameHeader, root_seq) == 40);
static_assert(offsetof(FrameHeader, cause_stream) == 48 && offsetof(FrameHeader, root_type) == 52);

inline constexpr std::uint32_t kHeaderBytes = sizeof(FrameHeader);
inline constexpr std::uint32_t kPageHeaderBytes = sizeof(PageHeader);
// Kept free at the end of every page, so that the end-of-page frame always fits.
inline constexpr std::uint32_t kPageEndBytes = kHeaderBytes;

enum class FrameType : std::uint16_t {
  kDepth = 1,
  kBookTicker = 2,
  kTrade = 3,
  kOrderInput = 4,
  kOrderReport = 5,
  kFill = 6,
  kTimer = 7,
  kLifecycle = 8,
  kConsumed = 9,
  kPosition = 10,
  kText = 11,
  kFeedGap = 12,
  kUser = 1000,  // 1000 .. 65534: a user's own frames, payload opaque
  kPageEnd = 65535,
};

// Prices are int64 in units of 1e-9. Quantities are int64 in units of 10^-quantity_exponent of the
// instrument (9 unless configured). Cash (fees, PnL) is int64 in units of 1e-9 of the quote currency.
enum class Side : std::uint8_t { kNone = 0, kBuy = 1, kSell = 2 };
enum class OrderAction : std::uint8_t { kNew = 1, kReplace = 2, kCancel = 3 };
enum class OrderType : std::uint8_t { kLimit = 1, kMarket = 2 };
enum class TimeInForce : std::uint8_t { kGtc = 1, kIoc = 3, kFok = 4 };
enum class ReportStatus : std::uint8_t {
  kAccepted = 1,
  kRejected = 2,
  kReplaced = 3,
  kCancelled = 4,
  kExpired = 5,
};
enum class Reason : std::uint16_t {
  kNone = 0,
  kUnknownInstrument = 1,
  kOffTick = 2,
  kOffLot = 3,
  kBadQuantity = 4,
  kBadPrice = 5,
  kNoMarket = 6,
  kUnknownOrder = 7,
  kDuplicateOrder = 8,
  kOrderDone = 9,
  kThrottled = 10,
  kMaxPosition = 11,
  kCapacity = 12,
  // 13 is free
  kOverflow = 14,
  kUnsupported = 15,
  kStrategyFailed = 16,
  kRequested = 17,
  kNotFillable = 18,
};
enum class Liquidity : std::uint8_t { kMaker = 1, kTaker = 2 };
enum class LifecycleKind : std::uint8_t { kStart = 1, kStop = 2, kEndOfInput = 3, kFailed = 4 };

struct Level {
  std::int64_t price;
  std::int64_t quantity;
};

// Unused levels are zero. exchange_time and receive_time are the source's, realtime ns (0 unknown).
struct Depth {
  std::int64_t exchange_time;
  std::int64_t receive_time;
  std::uint64_t update_id;
  std::uint32_t instrument_id;
  std::uint16_t bid_count;
  std::uint16_t ask_count;
  Level bids[kDepthLevels];
  Level asks[kDepthLevels];
};
static_assert(sizeof(Depth) == 352 && offsetof(Depth, bids) == 32 && offsetof(Depth, asks) == 192);

struct BookTicker {
  std::int64_t exchange_time;
  std::int64_t receive_time;
  std::uint64_t update_id;
  std::uint32_t instrument_id;
  std::uint32_t reserved;
  Level bid;
  Level ask;
};
static_assert(sizeof(BookTicker) == 64);

struct Trade {
  std::int64_t exchange_time;
  std::int64_t receive_time;
  std::uint64_t trade_id;
  std::uint32_t instrument_id;
  std::uint8_t aggressor;  // Side
  std::uint8_t reserved[3];
  std::int64_t price;
  std::int64_t quantity;
};
static_assert(sizeof(Trade) == 48);

// order_id = strategy's stream id << 48 | its order count from 1: deterministic, unique in a run.
struct OrderInput {
  std::uint64_t order_id;
  std::uint32_t instrument_id;
  std::uint8_t action;         // OrderAction
  std::uint8_t side;           // Side
  std::uint8_t order_type;     // OrderType
  std::uint8_t time_in_force;  // TimeInForce
  std::int64_t price;          // 0 for a market order and for cancel
  std::int64_t quantity;       // replace: the new total quantity, filled part included
  std::uint64_t request_id;    // counts every request of this strategy, from 1
};
static_assert(sizeof(OrderInput) == 40);

struct OrderReport {
  std::uint64_t order_id;
  std::uint32_t instrument_id;
  std::uint8_t status;  // ReportStatus
  std::uint8_t side;
  std::uint16_t reason;  // Reason
  std::int64_t price;
  std::int64_t quantity;
  std::int64_t filled;
  std::int64_t leaves;
  std::uint64_t request_id;
  std::uint64_t book_seq;  // book_ref: the Depth this answer was computed from (0 none)
  std::uint16_t book_stream;
  std::uint8_t action;  // OrderAction that is answered, 0 when unsolicited
  std::uint8_t reserved[5];
};
static_assert(sizeof(OrderReport) == 72);

struct Fill {
  std::uint64_t order_id;
  std::uint64_t exec_id;  // unique per venue stream, from 1; 0 is an error
  std::uint32_t instrument_id;
  std::uint8_t side;
  std::uint8_t liquidity;  // Liquidity
  std::uint16_t book_stream;
  std::int64_t price;
  std::int64_t quantity;
  std::int64_t filled;
  std::int64_t leaves;
  std::int64_t fee;  // 1e-9 quote currency; negative is a rebate
  std::uint64_t book_seq;
};
static_assert(sizeof(Fill) == 72);

struct Timer {
  std::uint64_t timer_id;
  std::int64_t due_time;   // in the strategy's time: event time for recordings, else monotonic
  std::int64_t fire_time;  // the same clock, when it fired
};
static_assert(sizeof(Timer) == 24);

struct Lifecycle {
  std::uint8_t kind;  // LifecycleKind
  std::uint8_t reserved[7];
  std::int64_t event_time;  // the strategy's clock at this point, 0 when none
};
static_assert(sizeof(Lifecycle) == 16);

// Consumption record: 1 .. 32 entries, each "and then everything of `stream` up to `up_to_seq`".
struct ConsumedEntry {
  std::uint64_t up_to_seq;
  std::uint32_t stream_id;
  std::uint32_t frames;  // how many frames that was
};
static_assert(sizeof(ConsumedEntry) == 16);
inline constexpr std::uint32_t kMaxConsumedEntries = 32;

struct Position {
  std::uint32_t instrument_id;
  std::uint16_t strategy_stream;
  std::uint16_t reserved;
  std::int64_t quantity;       // signed
  std::int64_t average_price;  // of the open quantity, 0 when flat
  std::int64_t realised;       // 1e-9 quote currency, fees not deducted
  std::int64_t unrealised;     // marked at the mid of the last Depth seen
  std::int64_t fees;
  std::int64_t mark_price;
  std::uint64_t fills;
};
static_assert(sizeof(Position) == 64);

struct FeedGap {
  std::uint32_t instrument_id;
  std::uint32_t reserved;
  std::uint64_t expected;  // first update id that should have come
  std::uint64_t found;     // first update id that came
};
static_assert(sizeof(FeedGap) == 24);

// The payload of a frame, null when the frame is too short for one. A type is a number that anybody may write
// (Python appends frames of any type), so every reader asks here before it looks.
template <class Payload>
[[nodiscard]] inline const Payload* payload_of(const FrameHeader& f) noexcept {
  if (f.length < kHeaderBytes + sizeof(Payload)) return nullptr;
  return reinterpret_cast<const Payload*>(reinterpret_cast<const std::byte*>(&f) + kHeaderBytes);
}

[[nodiscard]] constexpr std::uint32_t padded(std::uint32_t bytes) noexcept {
  return (bytes + (kFrameAlign - 1)) & ~(kFrameAlign - 1);
}

}  // namespace tapewire
