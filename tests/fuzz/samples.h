// Values with all that the formats allow, for seeds.
#pragma once

#include "format/manifest.h"

namespace backstay::fuzz {

/// Of each layout one: one file of all ranks; one a rank, on nodes, with copies; with parity.
std::vector<format::Manifest> sample_manifests();
/// Rows of all types and placements, of several ranks; none; one.
std::vector<format::Table> sample_tables();

/// The first line of a manifest with the length and checksum of what follows; unchanged where there is no first line.
std::string with_right_first_line(const std::string& manifest);

}  // namespace backstay::fuzz
