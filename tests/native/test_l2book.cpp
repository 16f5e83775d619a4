// L2Book against two std::maps under random updates, and parse_decimal at its edges.
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <vector>

#include "check.hpp"
#include "market/decimal.hpp"
#include "market/l2book.hpp"

using namespace tapewire;

namespace {

struct Reference {
  std::map<std::int64_t, std::int64_t, std::greater<>> bids;
  std::map<std::int64_t, std::int64_t> asks;

  void set(Side side, std::int64_t price, std::int64_t quantity) {
    if (side == Side::kBuy) {
      put(bids, price, quantity);
    } else {
      put(asks, price, quantity);
    }
  }
  template <class Map>
  static void put(Map& levels, std::int64_t price, std::int64_t quantity) {
    if (quantity == 0) {
      levels.erase(price);
    } else {
      levels[price] = quantity;
    }
  }
};

template <class Map>
void check_side(const Map& expected, const Level* levels, std::size_t count, std::size_t wanted) {
  CHECK_EQ(count, std::min(wanted, expected.size()));
  auto at = expected.begin();
  for (std::size_t i = 0; i < wanted; ++i) {
    if (i >= count) {
      CHECK(levels[i].price == 0 && levels[i].quantity == 0);
      continue;
    }
    CHECK_EQ(levels[i].price, at->first);
    CHECK_EQ(levels[i].quantity, at->second);
    ++at;
  }
}

void check_equal(const L2Book& book, const Reference& reference) {
  CHECK_EQ(book.bid_count(), reference.bids.size());
  CHECK_EQ(book.ask_count(), reference.asks.size());
  std::vector<Level> all(book.bid_count() + book.ask_count() + 3);
  check_side(reference.bids, all.data(), book.top_bids(all.data(), all.size()), all.size());
  check_side(reference.asks, all.data(), book.top_asks(all.data(), all.size()), all.size());
  Depth depth;
  std::memset(static_cast<void*>(&depth), 0xA5, sizeof depth);
  book.fill(depth);
  check_side(reference.bids, depth.bids, depth.bid_count, kDepthLevels);
  check_side(reference.asks, depth.asks, depth.ask_count, kDepthLevels);
  const bool both = !reference.bids.empty() && !reference.asks.empty();
  CHECK(book.crossed() == (both && reference.bids.begin()->first >= reference.asks.begin()->first));
  CHECK((book.best_bid() == nullptr) == reference.bids.empty());
  CHECK((book.best_ask() == nullptr) == reference.asks.empty());
}

void random_updates(std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  L2Book book;
  Reference reference;
  const std::int64_t prices = draw(1, 200);
  for (int step = 0; step < 2000; ++step) {
    const auto side = draw(0, 1) == 0 ? Side::kBuy : Side::kSell;
    if (draw(0, 9) == 0) {
      std::vector<Level> batch;
      for (auto left = draw(0, 50); left > 0; --left) batch.push_back({draw(1, prices), draw(0, 2)});
      CHECK(book.set_all(side, batch.data(), batch.size()));
      for (const Level& level : batch) reference.set(side, level.price, level.quantity);
    } else {
      const Level level{draw(1, prices), draw(0, 2)};
      CHECK(book.set(side, level.price, level.quantity));
      reference.set(side, level.price, level.quantity);
    }
    if (draw(0, 199) == 0) {
      book.clear();
      reference = {};
    }
    if (step % 10 == 0) check_equal(book, reference);
  }
  check_equal(book, reference);
}

void bad_updates_change_nothing() {
  L2Book book;
  CHECK(book.set(Side::kBuy, 5, 5));
  CHECK(!book.set(Side::kNone, 5, 5));
  CHECK(!book.set(Side::kBuy, 0, 5));
  CHECK(!book.set(Side::kBuy, 5, -1));
  const Level bad[] = {{1, 1}, {-1, 1}};
  CHECK(!book.set_all(Side::kBuy, bad, 2));
  CHECK(!book.set_all(Side::kSell, bad, 2));
  CHECK(!book.set_all(Side::kNone, bad, 1));
  CHECK(book.set_all(Side::kSell, nullptr, 0));
  CHECK_EQ(book.bid_count(), 1U);
  CHECK_EQ(book.ask_count(), 0U);
}

void decimals() {
  const auto parse = [](const char* text, unsigned exponent, std::int64_t* value) {
    return parse_decimal(text, std::strlen(text), exponent, value);
  };
  std::int64_t value = -7;
  CHECK(parse("61685.99000000", 9, &value) == DecimalError::kNone);
  CHECK_EQ(value, 61'685'990'000'000);
  CHECK(parse("-9223372036.854775807", 9, &value) == DecimalError::kNone);
  CHECK_EQ(value, -INT64_MAX);
  CHECK(parse("0.000", 0, &value) == DecimalError::kNone);
  CHECK_EQ(value, 0);
  value = -7;
  CHECK(parse("9223372036.854775808", 9, &value) == DecimalError::kOverflow);
  CHECK(parse("99999999999999999999", 0, &value) == DecimalError::kOverflow);
  CHECK(parse("10", 18, &value) == DecimalError::kOverflow);
  CHECK(parse("0.01", 1, &value) == DecimalError::kTooFine);
  CHECK(parse("1", 19, &value) == DecimalError::kExponent);
  for (const char* garbage :
       {"", "-", ".", "1.", ".5", "+1", "1e5", " 1", "1 ", "1.2.3", "--1", "99999999999999999999x"})
    CHECK(parse(garbage, 9, &value) == DecimalError::kGarbage);
  CHECK(parse_decimal(nullptr, 0, 9, &value) == DecimalError::kGarbage);
  CHECK_EQ(value, -7);
}

}  // namespace

int main() {
  for (std::uint32_t seed = 1; seed <= 20 * tapewire::testing::stress_factor(); ++seed) random_updates(seed);
  bad_updates_change_nothing();
  decimals();
  return 0;
}
