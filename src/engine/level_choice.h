// Which of several levels that hold the same line it is put back from.
#pragma once

#include "engine/line_reader.h"

namespace backstay::engine {

/// Collective. Llama (ExaFLOW D2.4, section 2.6) puts a line back by what it reckons the fastest way. Where several
/// levels hold the newest line as far as names and sizes tell, every rank reads samples of its part at each of them, as
/// all others do at that time; the slowest rank decides how long a level is expected to take, three times as long where
/// something has to be rebuilt. The fastest one is put first in `inventory`; a dearer level only where it is expected
/// to gain 0.1 s and a quarter of the time: others read it, too. `say` hears which was chosen and why.
Result<void> choose_level(Inventory& inventory, const std::vector<Level>& levels, const Topology& topology,
                          comm::Comm& comm, const Say& say);

}  // namespace backstay::engine
