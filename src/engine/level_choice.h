// Which of several levels that hold the same line it is put back from.
#pragma once

#include "engine/line_reader.h"

namespace backstay::engine {

/// Collective. Llama (ExaFLOW D2.4, section 2.6) puts a line back by what it reckons the fastest way. Where several
/// levels hold the newest line as far as names and sizes tell, every rank reads a sample of its part at each of them;
/// the slowest rank decides how long a level is expected to take, twice as long where something has to be rebuilt. The
/// order in `inventory` is changed where a dearer level is expected to need less than a third of the time of a cheaper
/// one: samples are small, and the dearer level is read by others, too. `say` hears which was chosen and why.
Result<void> choose_level(Inventory& inventory, const std::vector<Level>& levels, const Topology& topology,
                          comm::Comm& comm, const Say& say);

}  // namespace backstay::engine
