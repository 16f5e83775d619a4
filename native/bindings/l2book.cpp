// L2Book and parse_decimal for Python. Levels come as the text of the feed and are parsed here, one call per
// side of an update: a Python int per price would cost more than the book itself.
#include "market/l2book.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "bindings/bindings.hpp"
#include "market/decimal.hpp"

namespace {

using tapewire::DecimalError;
using tapewire::kDepthLevels;
using tapewire::kMaxDecimalExponent;
using tapewire::L2Book;
using tapewire::Level;
using tapewire::Side;

// A feed can put anything into a string: an error shows its beginning, in printable ASCII.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string out = "\"";
  for (const char c : text.substr(0, kShown)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kShown ? "...\"" : "\"");
}

// The UTF-8 text of a str, owned by it; for the ASCII of a feed this is no copy.
std::string_view text_of(nb::handle object, const char* what) {
  if (!PyUnicode_Check(object.ptr())) {
    throw nb::type_error((std::string(what) + " must be a str").c_str());
  }
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &length);
  if (text == nullptr) {
    throw nb::python_error();
  }
  return {text, static_cast<std::size_t>(length)};
}

std::int64_t parse(std::string_view text, unsigned exponent, const char* what) {
  std::int64_t value = 0;
  const DecimalError error = tapewire::parse_decimal(text.data(), text.size(), exponent, &value);
  if (error != DecimalError::kNone) {
    throw nb::value_error((std::string(what) + " " + quoted(text) + ": " + describe(error)).c_str());
  }
  return value;
}

std::int64_t parse_unsigned(std::string_view text, unsigned exponent, const char* what, bool zero_allowed) {
  const std::int64_t value = parse(text, exponent, what);
  if (value < 0 || (value == 0 && !zero_allowed)) {
    throw nb::value_error(
        (std::string(what) + " " + quoted(text) + (zero_allowed ? ": is negative" : ": must be above zero"))
            .c_str());
  }
  return value;
}

Side side_of(int side) {
  if (side != static_cast<int>(Side::kBuy) && side != static_cast<int>(Side::kSell)) {
    throw nb::value_error(("side must be 1 (buy) or 2 (sell), not " + std::to_string(side)).c_str());
  }
  return static_cast<Side>(side);
}

// One [price, quantity] pair, a list or a tuple of two str.
Level level_of(nb::handle pair, unsigned quantity_exponent) {
  PyObject* const object = pair.ptr();
  nb::handle price;
  nb::handle quantity;
  if (PyTuple_Check(object) && NB_TUPLE_GET_SIZE(object) == 2) {
    price = NB_TUPLE_GET_ITEM(object, 0);
    quantity = NB_TUPLE_GET_ITEM(object, 1);
  } else if (PyList_Check(object) && NB_LIST_GET_SIZE(object) == 2) {
    price = NB_LIST_GET_ITEM(object, 0);
    quantity = NB_LIST_GET_ITEM(object, 1);
  } else {
    throw nb::type_error("a level must be a [price, quantity] pair");
  }
  return {parse_unsigned(text_of(price, "price"), 9, "price", false),
          parse_unsigned(text_of(quantity, "quantity"), quantity_exponent, "quantity", true)};
}

// Everything is parsed before anything is set, so a bad string leaves the book as it was.
std::size_t apply(L2Book& book, int side, const nb::list& levels) {
  const Side checked = side_of(side);
  std::vector<Level> parsed;
  const std::size_t count = levels.size();
  parsed.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    parsed.push_back(
        level_of(NB_LIST_GET_ITEM(levels.ptr(), static_cast<Py_ssize_t>(i)), book.quantity_exponent()));
  }
  if (!book.set_all(checked, parsed.data(), count)) {
    throw nb::value_error("a level was refused");  // not reachable: prices and quantities were checked
  }
  return count;
}

nb::object level_tuple(const Level* level) {
  return level == nullptr ? nb::none() : nb::object(nb::make_tuple(level->price, level->quantity));
}

nb::list level_list(const Level* levels, std::size_t count) {
  nb::list out;
  for (std::size_t i = 0; i < count; ++i) {
    out.append(nb::make_tuple(levels[i].price, levels[i].quantity));
  }
  return out;
}

}  // namespace

void bind_l2book(nb::module_& m) {
  m.def(
      "parse_decimal",
      [](nb::handle text, unsigned exponent) { return parse(text_of(text, "number"), exponent, "number"); },
      nb::arg("text"), nb::arg("exponent") = 9,
      nb::sig("def parse_decimal(text: str, exponent: int = 9) -> int"),
      "`text` ([-]digits[.digits]) times 10**exponent as an exact int.\n\n"
      "ValueError, with the text, when it is anything else, does not fit 64 bits, has a non-zero digit past\n"
      "`exponent` decimals, or `exponent` is not 0 .. 18.");

  nb::class_<L2Book>(
      m, "L2Book",
      "The full-depth book of one instrument, kept from price-level updates.\n\n"
      "Prices are ints in 1e-9, quantities ints in 10**-quantity_exponent. side is 1 (buy) or\n"
      "2 (sell).")
      .def(
          "__init__",
          [](L2Book* self, unsigned quantity_exponent) {
            if (quantity_exponent > kMaxDecimalExponent) {
              throw nb::value_error("quantity_exponent must be 0 .. 18");
            }
            new (self) L2Book(quantity_exponent);
          },
          nb::arg("quantity_exponent") = 9)
      .def_prop_ro("quantity_exponent", &L2Book::quantity_exponent)
      .def(
          "set",
          [](L2Book& book, int side, std::int64_t price, std::int64_t quantity) {
            if (!book.set(side_of(side), price, quantity)) {
              throw nb::value_error(("price must be above zero and quantity not negative, not " +
                                     std::to_string(price) + " and " + std::to_string(quantity))
                                        .c_str());
            }
          },
          nb::arg("side"), nb::arg("price"), nb::arg("quantity"),
          "The level at `price` now holds `quantity`; 0 removes it, also when it is absent.")
      .def("apply", &apply, nb::arg("side"), nb::arg("levels"),
           nb::sig("def apply(self, side: int, levels: list[tuple[str, str]] | list[list[str]]) -> int"),
           "Set every [price, quantity] of `levels`, given as decimal text, in order; returns how many.\n\n"
           "ValueError naming the string that is not a number of this book (TypeError: not a str, not a "
           "pair);\n"
           "the book is then unchanged.")
      .def("clear", &L2Book::clear)
      .def(
          "best",
          [](const L2Book& book) {
            return nb::make_tuple(level_tuple(book.best_bid()), level_tuple(book.best_ask()));
          },
          nb::sig("def best(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]"),
          "((bid price, quantity), (ask price, quantity)); None for an empty side.")
      .def(
          "depth",
          [](const L2Book& book, std::size_t levels) {
            std::vector<Level> out(std::min(levels, std::max(book.bid_count(), book.ask_count())));
            const std::size_t bid_count = book.top_bids(out.data(), out.size());
            nb::list bids = level_list(out.data(), bid_count);
            const std::size_t ask_count = book.top_asks(out.data(), out.size());
            return nb::make_tuple(std::move(bids), level_list(out.data(), ask_count));
          },
          nb::arg("levels") = kDepthLevels,
          nb::sig("def depth(self, levels: int = 10) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]"),
          "The best `levels` (price, quantity) of bids and of asks, touch first.")
      .def(
          "counts", [](const L2Book& book) { return nb::make_tuple(book.bid_count(), book.ask_count()); },
          nb::sig("def counts(self) -> tuple[int, int]"), "How many levels the bids and the asks hold.")
      .def_prop_ro("crossed", &L2Book::crossed, "True when the best bid is at or above the best ask.")
      .def("__len__", [](const L2Book& book) { return book.bid_count() + book.ask_count(); });
}
