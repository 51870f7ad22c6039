#include "engine/staging.h"

#include <sys/mman.h>

#include <cstring>
#include <map>
#include <utility>

#include "base/crc32c.h"
#include "base/text.h"
#include "region/pack.h"

namespace backstay::engine {

namespace {
constexpr std::uint64_t huge_page = std::uint64_t{2} << 20;

/// Gives every page memory now; a later first touch would cost ten times the copy.
void touch(std::byte* data, std::uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(data, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (std::uint64_t at = 0; at < bytes; at += format::page) data[at] = std::byte{0};
}

/// A region at the moment of capture: a view of memory, or bytes that a callback made.
struct Source {
  View view;
  std::string saved;
};

Result<Source> source_of(const RegionSpec& spec) {
  Source source;
  try {
    if (spec.save)
      source.saved = spec.save();
    else
      source.view = spec.view();
  } catch (const std::exception& e) {
    return fail(Code::user, "region '", spec.name, "': its save callback failed: ", e.what());
  } catch (...) {
    return fail(Code::user, "region '", spec.name, "': its save callback failed");
  }
  if (!spec.save) BACKSTAY_TRY(region::check_view(spec, source.view));
  return source;
}

/// What is the same on every rank is to be the same bytes: a restart on other ranks compares their CRCs.
void clear_padding(const RegionSpec& spec, std::byte* place, format::Segment& segment) {
  if (spec.padding.empty() || spec.save) return;
  const std::span elements(place, static_cast<std::size_t>(segment.bytes));
  region::clear_padding(spec, elements);
  segment.crc = crc32c(elements);
}

format::Segment segment_of(const RegionSpec& spec, const Source& source, int rank) {
  format::Segment s;
  s.rank = rank;
  s.region = spec.name;
  s.type = spec.type;
  s.units = spec.units;
  s.placement = spec.placement;
  if (!spec.save) {
    s.shape = source.view.shape;
    s.bytes = region::packed_size(source.view, spec.type.size);
    return s;
  }
  s.bytes = source.saved.size();
  if (spec.type.kind == Type::Kind::text && s.bytes > 0)
    s.type.size = source.saved.size();  // one text of that length
  else
    s.shape = {static_cast<std::int64_t>(s.bytes)};
  return s;
}
}  // namespace

StagingBuffer::Mapping::~Mapping() {
  if (data != nullptr) munmap(data, size);
}

/// Without a copy: the pages move to where there is room for more of them. Not if somebody may still read there.
bool StagingBuffer::grow(std::uint64_t wanted) {
  if (!memory_ || memory_.use_count() > 1) return false;
  void* grown = mremap(memory_->data, memory_->size, wanted, MREMAP_MAYMOVE);
  if (grown == MAP_FAILED) return false;
  const auto size = std::exchange(memory_->size, wanted);
  memory_->data = static_cast<std::byte*>(grown);
  madvise(grown, wanted, MADV_HUGEPAGE);  // advice only
  touch(memory_->data + size, wanted - size);
  return true;
}

Result<void> StagingBuffer::reserve(std::uint64_t bytes, std::uint64_t used) {
  if (bytes <= capacity()) return {};
  const std::uint64_t wanted = round_up(bytes, bytes >= huge_page ? huge_page : format::page);
  if (grow(wanted)) return {};
  if (used == 0) memory_.reset();
  auto fresh = std::make_shared<Mapping>();
  void* made = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    return fail(Code::limit, "no memory for a staging copy of ", human_bytes(static_cast<double>(wanted)), ": ",
                std::strerror(errno));
  fresh->data = static_cast<std::byte*>(made);
  fresh->size = wanted;
  madvise(made, wanted, MADV_HUGEPAGE);  // advice only
  touch(fresh->data, wanted);
  if (used > 0) std::memcpy(fresh->data, data(), used);
  memory_ = std::move(fresh);
  return {};
}

Result<void> check_storable(const RegionSpec& spec) {
  Source nothing;
  if (!spec.save) nothing.view = spec.view();
  return format::check_storable(segment_of(spec, nothing, 0));
}

Result<void> capture_regions(const region::RegionSet& regions, const CaptureOptions& options, Capture& target) {
  target.clear();
  std::vector<Wanted> all;
  for (const auto& spec : regions.specs()) all.push_back({&spec});
  return capture_more(all, options, target);
}

Result<void> capture_more(const std::vector<Wanted>& some, const CaptureOptions& options, Capture& target) {
  std::vector<Source> sources;
  std::vector<format::Segment> fresh;
  std::vector<std::uint64_t> sizes;
  std::uint64_t end = 0;  // of what is there
  for (const auto& segment : target.segments) {
    sizes.push_back(segment.bytes);
    end = segment.offset + segment.bytes;
  }
  for (const auto& [spec, part] : some) {
    auto source = source_of(*spec);
    if (!source) return source.failure();
    std::optional<format::Part> about;
    if (part) {
      about = {source->view.shape, part->lower};
      source->view = region::part_of(source->view, *part);
    }
    fresh.push_back(segment_of(*spec, *source, options.rank));
    fresh.back().part = std::move(about);
    sizes.push_back(fresh.back().bytes);
    sources.push_back(std::move(*source));
  }
  const auto layout = format::layout_area(sizes);
  if (options.limit > 0 && layout.size > options.limit)
    return fail(Code::limit, "the regions take ", human_bytes(static_cast<double>(layout.size)),
                " and staging_limit is ", human_bytes(static_cast<double>(options.limit)),
                ": raise it or protect less");
  BACKSTAY_TRY(target.buffer.reserve(layout.size, end));
  std::byte* base = target.buffer.data();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const RegionSpec& spec = *some[i].spec;
    auto& segment = fresh[i];
    segment.offset = layout.offsets[target.segments.size()];
    if (segment.offset > end) std::memset(base + end, 0, segment.offset - end);
    std::byte* place = base + segment.offset;
    segment.crc = spec.save ? copy_crc32c(place, as_bytes(sources[i].saved))
                            : region::capture(sources[i].view, spec.type.size, place, options.threads);
    if (segment.placement.kind == Placement::Kind::replicated) clear_padding(spec, place, segment);
    end = segment.offset + segment.bytes;
    target.segments.push_back(std::move(segment));
  }
  if (layout.size > end) std::memset(base + end, 0, layout.size - end);
  target.size = layout.size;
  return {};
}

region::Box box_in_region(const format::Segment& segment) {
  region::Box box{segment.part ? segment.part->at : Extents(segment.shape.size(), 0), segment.shape};
  for (std::size_t d = 0; d < segment.shape.size(); ++d) box.upper[d] += box.lower[d];
  return box;
}

Result<void> put_back_regions(const region::RegionSet& regions, Capture& source) {
  std::map<std::string, View> memories;  // each is made ready once, whatever its parts
  for (const auto& segment : source.segments) {
    const RegionSpec* spec = regions.find(segment.region);
    if (spec == nullptr) continue;
    if (!spec->save && !(spec->type == segment.type))
      return fail(Code::mismatch, "region '", segment.region, "' was of ", region::describe_type(segment.type),
                  ", and is of ", region::describe_type(spec->type), " now");
    const ByteView bytes = source.bytes().subspan(segment.offset, segment.bytes);
    if (!spec->save) {
      auto ready = memories.find(segment.region);
      if (ready == memories.end()) {
        auto memory = region::memory_for(*spec, segment.part ? segment.part->of : segment.shape);
        if (!memory) return memory.failure();
        ready = memories.insert_or_assign(segment.region, std::move(*memory)).first;
      }
      const View memory = segment.part ? region::part_of(ready->second, box_in_region(segment)) : ready->second;
      (void)region::put_back(bytes, memory, spec->type.size);
      continue;
    }
    BACKSTAY_TRY(region::load(*spec, std::span(&bytes, 1), true, 0, 1));
  }
  for (const auto& [name, memory] : memories) BACKSTAY_TRY(region::hand_over(*regions.find(name)));
  return {};
}

}  // namespace backstay::engine
