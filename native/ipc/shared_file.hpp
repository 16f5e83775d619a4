// A small file shared by the processes of a run, mapped whole. Built under a temporary name and
// renamed, so that nobody opens a half-built one.
#pragma once

#include <string>

#include "journal/page.hpp"

namespace tapewire {

class SharedFile {
 public:
  SharedFile() = default;
  SharedFile(SharedFile&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)),
        bytes_(o.bytes_),
        writable_(o.writable_),
        path_(std::move(o.path_)) {}
  SharedFile& operator=(SharedFile&&) = delete;
  ~SharedFile() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }

  // `init` fills the zeroed bytes before the file gets its name.
  template <class Init>
  static SharedFile create(const std::string& path, std::size_t bytes, Init&& init) {
    const std::string temporary = path + ".tmp";
    ::unlink(temporary.c_str());
    FileDescriptor fd(::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd.valid()) raise(path, "cannot create", errno, bytes);
    if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
      const int err = errno;
      ::unlink(temporary.c_str());
      raise(path, "cannot allocate", err, bytes);
    }
    SharedFile f = map(fd.get(), path, bytes, true);
    init(f.base_);
    if (::rename(temporary.c_str(), path.c_str()) != 0) raise(path, "cannot rename", errno, bytes);
    return f;
  }

  static SharedFile open(const std::string& path, bool writable) {
    FileDescriptor fd(::open(path.c_str(), (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC));
    if (!fd.valid()) raise(path, "cannot open", errno, 0);
    struct stat st{};
    ::fstat(fd.get(), &st);
    return map(fd.get(), path, static_cast<std::size_t>(st.st_size), writable);
  }

  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] bool writable() const noexcept { return writable_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] static void raise(const std::string& path, const char* what, int err, std::size_t bytes) {
    if (err == ENOSPC) {
      JournalError e(ErrorKind::kFull, path + ": no space, " + std::to_string(bytes) + " bytes needed", path);
      e.bytes_needed = bytes;
      throw e;
    }
    throw JournalError(ErrorKind::kSystem, path + ": " + what + ": " + std::strerror(err), path);
  }
  static SharedFile map(int fd, const std::string& path, std::size_t bytes, bool writable) {
    void* p = bytes == 0 ? MAP_FAILED
                         : ::mmap(nullptr, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) raise(path, "cannot map", bytes == 0 ? EINVAL : errno, bytes);
    SharedFile f;
    f.base_ = static_cast<std::byte*>(p);
    f.bytes_ = bytes;
    f.writable_ = writable;
    f.path_ = path;
    return f;
  }

  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  bool writable_ = false;
  std::string path_;
};

}  // namespace tapewire
