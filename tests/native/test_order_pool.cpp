// The pool of open orders and its hash against std::unordered_map, under removals that leave holes
// everywhere, wrap around the table's end and hit long runs of colliding ids.
#include <random>
#include <unordered_map>
#include <vector>

#include "market/order_pool.hpp"
#include "scratch.hpp"

using namespace tapewire;
using namespace tapewire::testing;

namespace {

// Ids that all begin their search in the last two slots of a table of `slots`.
std::vector<std::uint64_t> colliding_ids(std::size_t slots, std::size_t count) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t id = 1; ids.size() < count; ++id) {
    const std::size_t home = static_cast<std::size_t>((id * 0x9E3779B97F4A7C15ULL) >> 20) & (slots - 1);
    if (home >= slots - 2) ids.push_back(id);
  }
  return ids;
}

std::uint64_t hammer(std::uint32_t capacity, const std::vector<std::uint64_t>& ids,
                     std::uint64_t operations) {
  std::mt19937_64 random(seed() + capacity);
  OrderPool pool(capacity);
  std::unordered_map<std::uint64_t, std::uint32_t> model;
  for (std::uint64_t n = 0; n < operations; ++n) {
    const std::uint64_t id = ids[random() % ids.size()];
    const auto known = model.find(id);
    CHECK_EQ(pool.find(id), known == model.end() ? kNoNode : known->second);
    if (known != model.end()) {
      if (random() % 3 != 0) continue;
      pool.remove(known->second);
      model.erase(known);
      CHECK_EQ(pool.find(id), kNoNode);
    } else if (pool.full()) {
      CHECK_EQ(model.size(), capacity);
      CHECK_EQ(pool.add(id), kNoNode);
    } else {
      const std::uint32_t node = pool.add(id);
      CHECK(node < capacity);
      CHECK(pool[node].used && pool[node].order_id == id && pool[node].leaves() == 0);
      for (const auto& [other, at] : model) CHECK(at != node || other == id);
      model[id] = node;
    }
    CHECK_EQ(pool.size(), model.size());
    CHECK_EQ(pool.full(), model.size() == capacity);
    if (n % 64 == 0)
      for (const auto& [other, at] : model) CHECK_EQ(pool.find(other), at);
  }
  for (const auto& [id, node] : model) {
    CHECK_EQ(pool.find(id), node);
    pool.remove(node);
  }
  CHECK_EQ(pool.size(), 0U);
  for (const auto id : ids) CHECK_EQ(pool.find(id), kNoNode);
  return operations;
}

}  // namespace

int main() {
  const std::uint64_t operations = (kSanitized ? 20'000 : 100'000) * stress_factor();
  std::uint64_t done = 0;
  for (const std::uint32_t capacity : {1U, 2U, 3U, 7U, 31U, 100U}) {
    const std::size_t slots = std::bit_ceil(2ULL * capacity + 2);
    done += hammer(capacity, colliding_ids(slots, capacity + capacity / 2 + 2), operations);
    std::vector<std::uint64_t> in_sequence;
    for (std::uint64_t i = 0; i < 2 * capacity + 3; ++i) in_sequence.push_back((5ULL << 48) + i);
    done += hammer(capacity, in_sequence, operations);
  }
  std::printf("order pool: %llu operations as the model, holes and collisions included\n",
              static_cast<unsigned long long>(done));
}
