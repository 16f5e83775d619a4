// Writers, readers, batches, the recorder and the scan.
#include <algorithm>
#include <bitset>
#include <exception>
#include <limits>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "journal/merge.hpp"
#include "journal/recorder.hpp"

using namespace nb::literals;

namespace tapewire::bindings {

namespace {
// Indexing a tuple of nanobind is not checked.
nb::tuple tuple_of(nb::handle object, std::size_t size, const char* what) {
  if (!nb::isinstance<nb::tuple>(object) || nb::len(object) != size) throw nb::type_error(what);
  return nb::borrow<nb::tuple>(object);
}
}  // namespace

Origin origin_from(nb::handle cause, nb::handle root) {
  Origin o;
  if (!cause.is_none()) {
    const auto t = tuple_of(cause, 2, "cause must be (stream id, seq)");
    o.cause_stream = nb::cast<std::uint16_t>(t[0]);
    o.cause_seq = nb::cast<std::uint64_t>(t[1]);
  }
  if (!root.is_none()) {
    const auto t = tuple_of(root, 3, "root must be (stream id, seq, type)");
    o.root_stream = nb::cast<std::uint16_t>(t[0]);
    o.root_seq = nb::cast<std::uint64_t>(t[1]);
    o.root_type = nb::cast<std::uint16_t>(t[2]);
  }
  return o;
}

namespace {

// A buffer that Python lends, for as long as this lives.
class Borrowed {
 public:
  Borrowed(nb::handle object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0)
      throw nb::python_error();
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() { PyBuffer_Release(&view_); }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(view_.buf); }
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

// One frame, pointing into its page, which it keeps mapped.
struct Frame {
  const FrameHeader* header;
  std::shared_ptr<Mapping> page;
  std::uint32_t epoch;

  [[nodiscard]] const char* payload() const noexcept {
    return reinterpret_cast<const char*>(header) + kHeaderBytes;
  }
  // The padding of an unverified frame may be anything.
  [[nodiscard]] std::size_t payload_bytes() const noexcept {
    const std::size_t room = header->length - kHeaderBytes;
    return room - std::min<std::size_t>(header->pad, room);
  }
};

// The frames of one read_batch(): their places, in order.
struct Batch {
  std::vector<const FrameHeader*> frames;
  std::vector<std::shared_ptr<Mapping>> pages;

  [[nodiscard]] std::size_t count(std::uint16_t type) const noexcept {
    std::size_t n = 0;
    for (const auto* f : frames) n += f->type == type;
    return n;
  }
};

// Which types a reader lets through.
class TypeFilter {
 public:
  explicit TypeFilter(const std::optional<std::vector<std::uint16_t>>& types) {
    if (!types) {
      wanted_.set();
      return;
    }
    for (const auto t : *types) wanted_.set(t);
  }
  [[nodiscard]] bool passes(std::uint16_t type) const noexcept { return wanted_[type]; }

 private:
  std::bitset<65536> wanted_;
};

class Reader {
 public:
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  Reader(const std::vector<std::string>& directories, const std::vector<std::string>& streams,
         const std::optional<std::vector<std::uint16_t>>& types, bool verify)
      : filter_(types), merged_(open(directories, streams, verify)) {}

  void seek_seq(std::uint64_t seq) {
    seek([seq](Cursor& c) { c.seek_seq(seq); });
  }
  void seek_time(std::int64_t time_ns) {
    seek([time_ns](Cursor& c) { c.seek_time(time_ns); });
  }
  // The next frame, or one without a header.
  [[nodiscard]] Frame next() {
    const Claim claim(taken_);
    do {
      while (const FrameHeader* f = merged_.peek()) {
        Frame out{f, nullptr, merged_.epoch()};
        const bool wanted = filter_.passes(f->type);
        if (wanted) out.page = merged_.mapping();
        merged_.advance();
        if (wanted) return out;
      }
    } while (merged_.look_beyond());
    check();
    return {nullptr, nullptr, 0};
  }
  // Up to headers.size()/56 frames; copies their headers.
  [[nodiscard]] Batch fill(nb::handle headers) {
    const Claim claim(taken_);
    const Borrowed buffer(headers, true);
    Batch batch;
    {
      const nb::gil_scoped_release release;
      const std::size_t limit = buffer.size() / kHeaderBytes;
      batch.frames.reserve(std::min<std::size_t>(limit, 1 << 16));
      std::byte* out = buffer.data();
      while (batch.frames.size() < limit) {
        const FrameHeader* f = merged_.peek();
        if (f == nullptr) {
          if (batch.frames.empty() && merged_.look_beyond()) continue;
          break;
        }
        if (filter_.passes(f->type)) {
          std::memcpy(out, f, kHeaderBytes);
          out += kHeaderBytes;
          batch.frames.push_back(f);
          keep(batch);
        }
        merged_.advance();
      }
    }
    if (batch.frames.empty()) check();
    return batch;
  }

 private:
  static std::vector<std::unique_ptr<Cursor>> open(const std::vector<std::string>& directories,
                                                   const std::vector<std::string>& streams, bool verify) {
    std::vector<std::unique_ptr<Cursor>> cursors;
    for (const auto& s : streams)
      cursors.push_back(
          std::make_unique<Cursor>(PageSource(s, directories), CursorOptions{verify, true, nullptr}));
    return cursors;
  }
  // A seek that fails has moved some cursors: the merge looks at all of them again, or it would still
  // point into pages they have left.
  template <class Move>
  void seek(Move&& move) {
    const Claim claim(taken_);
    std::exception_ptr failed;
    for (auto& c : merged_.cursors()) {
      try {
        move(*c);
      } catch (const JournalError&) {
        if (!failed) failed = std::current_exception();
      }
    }
    merged_.refresh_all();
    if (failed) std::rethrow_exception(failed);
  }
  void check() const {
    if (const Cursor* bad = merged_.failed()) throw bad->error();
  }
  void keep(Batch& batch) {
    const auto& page = merged_.mapping();
    const std::size_t which = page.get() == last_page_ ? 0 : 1;
    if (which == 0 && !batch.pages.empty()) return;
    for (const auto& p : batch.pages) {
      if (p == page) {
        last_page_ = page.get();
        return;
      }
    }
    batch.pages.push_back(page);
    last_page_ = page.get();
  }

  TypeFilter filter_;
  MergedReader merged_;
  const Mapping* last_page_ = nullptr;
  std::atomic<bool> taken_{false};
};

std::size_t rows_into(const Batch& batch, std::uint16_t type, std::size_t payload_bytes, nb::handle rows) {
  if (payload_bytes > kMaxPageBytes) throw nb::value_error("no payload is that long");
  const Borrowed buffer(rows, true);
  const nb::gil_scoped_release release;
  const std::size_t row = kHeaderBytes + payload_bytes;
  std::byte* out = buffer.data();
  std::byte* const end = out + buffer.size();
  std::size_t n = 0;
  for (std::size_t i = 0; i < batch.frames.size(); ++i) {
    const FrameHeader* f = batch.frames[i];
    if (i + 8 < batch.frames.size()) __builtin_prefetch(batch.frames[i + 8]);
    if (f->type != type || row > static_cast<std::size_t>(end - out)) continue;
    const std::size_t have = std::min<std::size_t>(row, f->length);
    std::memcpy(out, f, have);
    if (have < row) std::memset(out + have, 0, row - have);
    out += row;
    ++n;
  }
  return n;
}

std::shared_ptr<StreamWriter> open_writer(const std::string& journal_dir, const std::string& stream,
                                          std::uint32_t stream_id, std::uint64_t run_id, std::uint32_t epoch,
                                          std::uint64_t page_bytes, std::shared_ptr<Control> control,
                                          const std::optional<std::vector<int>>& helper_cpus,
                                          const std::optional<BlockRef>& block) {
  WriterOptions options;
  if (helper_cpus) options.helper = process_page_helper(*helper_cpus);
  options.control = std::move(control);
  if (block) {
    if (!block->counters->writable()) throw nb::type_error("these counters were opened for reading");
    options.counters = block->counters;
    options.block = &block->block();
  }
  return std::make_shared<StreamWriter>(
      journal_dir, StreamIdentity{stream, stream_id, run_id, epoch, page_bytes}, std::move(options));
}

std::uint64_t append(StreamWriter& w, std::uint16_t type, nb::handle payload, nb::handle cause,
                     nb::handle root) {
  if (type == 0 || type == static_cast<std::uint16_t>(FrameType::kPageEnd))
    throw nb::value_error("frame types are 1 to 65534");
  const Borrowed bytes(payload, false);
  if (bytes.size() > std::numeric_limits<std::uint32_t>::max() / 2)
    throw nb::value_error("payload too large");
  const auto seq = w.append(static_cast<FrameType>(type), bytes.data(),
                            static_cast<std::uint32_t>(bytes.size()), origin_from(cause, root));
  if (seq == 0) throw w.error();
  return seq;
}

nb::object pair_or_none(std::uint16_t stream, std::uint64_t seq) {
  if (stream == 0) return nb::none();
  return nb::make_tuple(stream, seq);
}

class Recorder {
 public:
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  Recorder(const std::string& live_dir, const std::string& run_dir, const std::vector<std::string>& streams,
           bool sync) {
    for (const auto& s : streams)
      streams_.push_back(std::make_unique<StreamRecorder>(live_dir, run_dir, s, sync));
  }
  // A stream that cannot be recorded does not keep the others from it; its error comes at the end.
  std::uint64_t step() {
    std::uint64_t copied = 0;
    std::exception_ptr failed;
    for (auto& s : streams_) {
      try {
        copied += s->step();
        s->flush();
      } catch (const JournalError&) {
        if (!failed) failed = std::current_exception();
      }
    }
    if (failed) std::rethrow_exception(failed);
    return copied;
  }
  [[nodiscard]] std::vector<std::uint64_t> recorded() const {
    std::vector<std::uint64_t> seqs;
    for (const auto& s : streams_) seqs.push_back(s->watermark().seq);
    return seqs;
  }

 private:
  std::vector<std::unique_ptr<StreamRecorder>> streams_;
};

nb::dict scan(const std::string& path) {
  auto page = map_page_for_reading(path);
  if (!page) throw JournalError(ErrorKind::kStreamNotFound, path + ": no such page", path);
  const PageState state = check_page_header(page->base(), page->bytes(), path, 0);
  const PageHeader& h = page->header();
  PageScan s;
  if (state == PageState::kStarted) s = scan_page(page->base(), page->bytes());
  nb::dict d;
  d["page_number"] = h.page_number;
  d["stream_id"] = h.stream_id;
  d["epoch"] = h.epoch;
  d["first_seq"] = h.first_seq;
  d["page_bytes"] = h.page_bytes;
  d["started"] = state == PageState::kStarted;
  d["frames"] = s.frames;
  d["next_seq"] = s.next_seq;
  d["valid_end"] = s.valid_end;
  d["finding"] = std::string(finding_text(s.finding));
  d["clean"] = s.finding == Finding::kNone || s.finding == Finding::kPageEnd;
  d["at"] = s.at;
  return d;
}

}  // namespace
}  // namespace tapewire::bindings

void bind_journal(nb::module_& m) {
  using namespace tapewire;
  using namespace tapewire::bindings;

  nb::class_<StreamWriter>(m, "StreamWriter", "The one writer of a stream.")
      .def(nb::new_(&open_writer), "journal_dir"_a, "stream"_a, "stream_id"_a, "run_id"_a, "epoch"_a,
           "page_bytes"_a, "control"_a.none() = nb::none(), "helper_cpus"_a.none() = nb::none(),
           "block"_a.none() = nb::none())
      .def("append", &append, "type"_a, "payload"_a, "cause"_a.none() = nb::none(),
           "root"_a.none() = nb::none(),
           nb::sig("def append(self, type: int, payload: bytes | bytearray | memoryview, cause: tuple[int, "
                   "int] | None "
                   "= None, root: tuple[int, int, int] | None = None) -> int"),
           "Publish one frame; returns its seq. Raises JournalFull, FrameTooLarge.")
      .def("close", &StreamWriter::close)
      .def_prop_ro("last_seq", &StreamWriter::last_seq)
      .def_prop_ro("stream_id", &StreamWriter::stream_id)
      .def_prop_ro("epoch", [](const StreamWriter& w) { return w.identity().epoch; })
      .def_prop_ro("page_rolls", &StreamWriter::page_rolls)
      .def_prop_ro("roll_waits", &StreamWriter::roll_waits)
      .def_prop_ro("max_payload", &StreamWriter::max_payload)
      .def_prop_ro("recovered_cut_bytes",
                   [](const StreamWriter& w) { return w.recovery() ? w.recovery()->cut_bytes : 0; });

  nb::class_<Frame>(m, "Frame", "One frame of a journal; its bytes stay valid as long as this object lives.")
      .def_prop_ro("type", [](const Frame& f) { return f.header->type; })
      .def_prop_ro("schema", [](const Frame& f) { return f.header->schema; })
      .def_prop_ro("seq", [](const Frame& f) { return f.header->seq; })
      .def_prop_ro("gen_time", [](const Frame& f) { return f.header->gen_time; })
      .def_prop_ro("stream_id", [](const Frame& f) { return f.header->stream_id; })
      .def_prop_ro("epoch", [](const Frame& f) { return f.epoch; })
      .def_prop_ro("root_type", [](const Frame& f) { return f.header->root_type; })
      .def_prop_ro(
          "cause", [](const Frame& f) { return pair_or_none(f.header->cause_stream, f.header->cause_seq); },
          nb::sig("def cause(self) -> tuple[int, int] | None"))
      .def_prop_ro(
          "root", [](const Frame& f) { return pair_or_none(f.header->root_stream, f.header->root_seq); },
          nb::sig("def root(self) -> tuple[int, int] | None"))
      .def_prop_ro("payload", [](const Frame& f) { return nb::bytes(f.payload(), f.payload_bytes()); });

  nb::class_<Batch>(m, "NativeBatch")
      .def("__len__", [](const Batch& b) { return b.frames.size(); })
      .def("count", &Batch::count, "type"_a)
      .def("rows_into", &rows_into, "type"_a, "payload_bytes"_a, "rows"_a,
           nb::sig("def rows_into(self, type: int, payload_bytes: int, rows: typing.Any) -> int"));

  nb::class_<Reader>(m, "NativeReader", "Streams merged by (epoch, gen_time, stream id, seq).")
      .def(nb::init<const std::vector<std::string>&, const std::vector<std::string>&,
                    const std::optional<std::vector<std::uint16_t>>&, bool>(),
           "directories"_a, "streams"_a, "types"_a.none() = nb::none(), "verify"_a = true)
      .def("seek_seq", &Reader::seek_seq, "seq"_a)
      .def("seek_time", &Reader::seek_time, "time_ns"_a)
      .def("read",
           [](Reader& r) -> std::optional<Frame> {
             Frame f = r.next();
             if (f.header == nullptr) return std::nullopt;
             return f;
           })
      .def(
          "__iter__", [](nb::handle self) { return nb::borrow(self); },
          nb::sig("def __iter__(self) -> collections.abc.Iterator[Frame]"))
      .def("__next__",
           [](Reader& r) {
             Frame f = r.next();
             if (f.header == nullptr) throw nb::stop_iteration();
             return f;
           })
      .def("fill", &Reader::fill, "headers"_a, nb::sig("def fill(self, headers: typing.Any) -> NativeBatch"));

  nb::class_<Recorder>(m, "NativeRecorder", "Copies committed frames of live pages into a run directory.")
      .def(nb::init<const std::string&, const std::string&, const std::vector<std::string>&, bool>(),
           "live_dir"_a, "run_dir"_a, "streams"_a, "sync"_a)
      .def("step", &Recorder::step, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("recorded", &Recorder::recorded);
  m.def(
      "read_watermark",
      [](const std::string& path) -> nb::object {
        const auto w = read_watermark(path);
        if (!w) return nb::none();
        nb::dict d;
        d["page"] = w->page;
        d["offset"] = w->offset;
        d["seq"] = w->seq;
        d["synced"] = w->synced != 0;
        return d;
      },
      "path"_a, nb::sig("def read_watermark(path: str) -> dict[str, typing.Any] | None"));
  m.def("list_pages", &list_pages, "directory"_a);
  m.def("scan_page", &scan, "path"_a, nb::sig("def scan_page(path: str) -> dict[str, typing.Any]"),
        "The longest valid prefix of a page file, and why it ended. Raises NotAJournal, "
        "JournalVersionUnsupported, "
        "JournalCorrupt (the header).");
}
