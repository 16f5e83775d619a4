// The consumption record: which frames a process took, in the order it took them, run-length.
#pragma once

#include <cstdint>
#include <memory>

#include "journal/writer.hpp"

namespace tapewire {

class ConsumptionRecord {
 public:
  explicit ConsumptionRecord(std::shared_ptr<StreamWriter> writer) : writer_(std::move(writer)) {}

  void note(std::uint32_t stream, std::uint64_t seq) noexcept {
    if (!writer_) return;
    if (count_ > 0 && entries_[count_ - 1].stream_id == stream) {
      entries_[count_ - 1].up_to_seq = seq;
      ++entries_[count_ - 1].frames;
      return;
    }
    if (count_ == kMaxConsumedEntries) (void)flush();
    entries_[count_++] = ConsumedEntry{seq, stream, 1};
  }
  // Called when idle, so that the record costs nothing while events wait. Once an entry is lost, false for good:
  // a replay that follows a record with a hole would be wrong without a word.
  [[nodiscard]] bool flush() noexcept {
    if (count_ == 0) return !lost_;
    const auto bytes = static_cast<std::uint32_t>(count_ * sizeof(ConsumedEntry));
    if (lost_ || writer_->append(FrameType::kConsumed, entries_, bytes) == 0) lost_ = true;
    count_ = 0;
    return !lost_;
  }
  [[nodiscard]] bool pending() const noexcept { return count_ > 0 || lost_; }
  [[nodiscard]] const StreamWriter* writer() const noexcept { return writer_.get(); }

 private:
  std::shared_ptr<StreamWriter> writer_;
  ConsumedEntry entries_[kMaxConsumedEntries] = {};
  std::uint32_t count_ = 0;
  bool lost_ = false;
};

}  // namespace tapewire
