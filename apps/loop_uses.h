// What the loops of a solver do to its arrays.
#pragma once

#include <string>
#include <vector>

namespace program {

enum class Mode {
  read,
  write,   ///< every element, whatever it held
  update,  ///< every element, after reading it
};

template <class Field>
struct Use {
  Field field;
  Mode mode;
};
template <class Field>
Use<Field> reads(Field field) {
  return {field, Mode::read};
}
template <class Field>
Use<Field> writes(Field field) {
  return {field, Mode::write};
}
template <class Field>
Use<Field> updates(Field field) {
  return {field, Mode::update};
}

/// Of the elements that a rank owns, without halos.
template <class Loop, class Field>
struct LoopUses {
  Loop loop;
  std::string name;
  std::vector<Use<Field>> uses;
};

}  // namespace program
