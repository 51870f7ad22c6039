// Types, placements and segments as JSON values.
#include "format/json_types.h"

#include "format/data_file.h"
#include "samples.h"
#include "target.h"

namespace backstay::fuzz {

namespace {
using format::Json;

/// What `from` reads, `to` writes as text that is read as the same again.
template <class From, class To>
void there_and_back(const Json& json, From from, To to) {
  try {
    const auto value = from(json);
    try {
      expect(from(Json::parse(to(value))) == value, "a value comes back as it was");
    } catch (const format::BadJson&) {
      expect(false, "what was written is read");
    }
  } catch (const format::BadJson&) {  // the one way to refuse
  }
}
}  // namespace

void try_input(ByteView input) {
  const Json json = Json::parse(as_text(input), nullptr, false);
  if (json.is_discarded()) return;
  there_and_back(
      json, [](const Json& j) { return format::type_from_json(j); },
      [](const Type& type) { return format::dump(format::type_to_json(type)); });
  there_and_back(json, format::placement_from_json,
                 [](const Placement& placement) { return format::dump(format::placement_to_json(placement)); });
  there_and_back(json, format::segment_from_json, format::segment_to_text);
}

Bytes repaired(Bytes input) { return input; }

std::vector<Bytes> seeds() {
  std::vector<Bytes> out;
  for (const auto& table : sample_tables())
    for (const auto& s : table.segments)
      for (const std::string& text : {format::dump(format::type_to_json(s.type)),
                                      format::dump(format::placement_to_json(s.placement)), format::segment_to_text(s)})
        out.push_back(bytes_of(text));
  return out;
}

}  // namespace backstay::fuzz
