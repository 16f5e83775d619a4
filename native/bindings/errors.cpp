// JournalError to the Python class of its kind. The classes live in tapewire.journal.errors; they are
// looked up when one is raised, so importing the module needs nothing.
#include "bindings/bindings.hpp"
#include "journal/error.hpp"

namespace {

using tapewire::ErrorKind;
using tapewire::JournalError;

const char* class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kFull:
      return "JournalFull";
    case ErrorKind::kLocked:
      return "JournalLocked";
    case ErrorKind::kCorrupt:
      return "JournalCorrupt";
    case ErrorKind::kVersion:
      return "JournalVersionUnsupported";
    case ErrorKind::kNotAJournal:
      return "NotAJournal";
    case ErrorKind::kGap:
      return "JournalGap";
    case ErrorKind::kStreamNotFound:
      return "StreamNotFound";
    case ErrorKind::kFrameTooLarge:
      return "FrameTooLarge";
    case ErrorKind::kJoinTimeout:
      return "JoinTimeout";
    case ErrorKind::kSystem:
      return "JournalIOError";
  }
  return "TapewireError";
}

void raise(const JournalError& e) {
  const nb::object type = nb::module_::import_("tapewire.journal.errors").attr(class_name(e.kind));
  // The message is complete; the class's own constructor would word it again.
  nb::object error = type.attr("from_native")(nb::str(e.message.c_str()), nb::str(e.path.c_str()), e.page,
                                              e.offset, e.seq, e.previous_seq, e.bytes_needed);
  PyErr_SetObject(type.ptr(), error.ptr());
}

}  // namespace

void bind_errors(nb::module_&) {
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const JournalError& e) {
      try {
        raise(e);
      } catch (nb::python_error& failed) {
        failed.restore();
      }
    }
  });
}
