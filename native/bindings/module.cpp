#include "bindings/bindings.hpp"

NB_MODULE(_native, m) {
  m.doc() =
      "The native core of tapewire: journal, shared files, loops, books. Used through tapewire.journal and "
      "tapewire.runtime.";
  // A process that froze its collector ends with objects alive, by design; the report would fill its log.
  nb::set_leak_warnings(false);
  m.attr("compiler") = TAPEWIRE_COMPILER;
  m.attr("cxx_flags") = TAPEWIRE_CXX_FLAGS;
  bind_errors(m);
  bind_layout(m);
  bind_ipc(m);
  bind_journal(m);
  bind_events(m);
  bind_market(m);
  bind_strategy(m);
  bind_l2book(m);
  bind_bench_floor(m);
  bind_bench_journal(m);
  bind_market_publisher(m);
}
