// The recorder as a Python extension module: tracegen.live_points._core. record.py is its only caller.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "recorder.hpp"

namespace py = pybind11;

namespace perfvec {
namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

// Appends the rows behind those that there are.
void grow(Recorder& recorder, const Array<std::uint64_t>& pc, const Array<std::uint8_t>& length,
          const Array<std::uint8_t>& latency, const Array<std::uint16_t>& flags, const Array<std::uint8_t>& sources,
          const Array<std::uint8_t>& destinations) {
    const py::ssize_t size = pc.size();
    if (length.size() != size || latency.size() != size || flags.size() != size || sources.ndim() != 2 ||
        sources.shape(0) != size || sources.shape(1) != SOURCES || destinations.ndim() != 2 ||
        destinations.shape(0) != size || destinations.shape(1) != DESTINATIONS)
        throw std::invalid_argument("the columns of static instructions differ in length");
    constexpr int NONE = 255;
    for (py::ssize_t k = static_cast<py::ssize_t>(recorder.statics.size()); k < size; ++k) {
        Static row{};
        row.pc = pc.data()[k];
        row.length = std::max<std::uint8_t>(length.data()[k], 1);
        row.latency = latency.data()[k];
        row.flags = flags.data()[k];
        for (int n = 0; n < SOURCES; ++n)
            if (sources.data()[k * SOURCES + n] != NONE) row.sources[row.source_count++] = sources.data()[k * SOURCES + n];
        for (int n = 0; n < DESTINATIONS; ++n)
            if (destinations.data()[k * DESTINATIONS + n] != NONE)
                row.destinations[row.destination_count++] = destinations.data()[k * DESTINATIONS + n];
        row.kinds = static_cast<std::uint8_t>((row.latency > 2) | (row.latency > 6) << 1 | ((row.flags & BRANCH) != 0) << 2);
        recorder.statics.push_back(row);
    }
}

void observe(Recorder& recorder, const Array<std::uint32_t>& id, const Array<std::uint32_t>& following,
             const Array<std::int64_t>& offset, const Array<std::uint64_t>& address, const Array<std::uint8_t>& size,
             const Array<std::uint8_t>& is_store) {
    const auto n = static_cast<std::size_t>(id.size());
    if (static_cast<std::size_t>(following.size()) != n || static_cast<std::size_t>(offset.size()) != n + 1)
        throw std::invalid_argument("the columns of instructions differ in length");
    const std::int64_t first = offset.data()[0], accesses = offset.data()[n] - first;
    if (address.size() < accesses || size.size() < accesses || is_store.size() < accesses)
        throw std::invalid_argument("there are fewer accesses than access_offset says");
    const ChunkView chunk{n, id.data(), following.data(), offset.data(), address.data() - first, size.data() - first,
                          is_store.data() - first};
    py::gil_scoped_release release;
    const auto statics = static_cast<std::uint32_t>(recorder.statics.size());
    bool wrong = false;
    for (std::size_t k = 0; k < n; ++k) wrong |= (chunk.id[k] >= statics) | (chunk.offset[k] > chunk.offset[k + 1]);
    if (wrong) throw std::invalid_argument("static_id is beyond the program's instructions, or access_offset falls");
    recorder.observe(chunk);
}

template <typename T, typename Get>
Array<T> joined(const std::vector<Piece>& pieces, Get get) {
    std::size_t size = 0;
    for (const Piece& piece : pieces) size += get(piece).size();
    Array<T> all(static_cast<py::ssize_t>(size));
    T* out = all.mutable_data();
    for (const Piece& piece : pieces)
        for (const auto& value : get(piece)) *out++ = value;
    return all;
}

template <typename Get>
Array<std::int64_t> offsets(const std::vector<Piece>& pieces, Get get) {
    Array<std::int64_t> all(static_cast<py::ssize_t>(pieces.size() + 1));
    std::int64_t at = 0, *out = all.mutable_data();
    *out++ = 0;
    for (const Piece& piece : pieces) *out++ = at += static_cast<std::int64_t>(get(piece).size());
    return all;
}

// NAME_offset, NAME, NAME_following: branches of gaps.
template <typename Get>
void branches(py::dict& columns, const std::string& name, const std::vector<Piece>& pieces, Get get) {
    const Array<std::int64_t> offset = offsets(pieces, get);
    const py::ssize_t count = offset.data()[pieces.size()];
    Array<std::uint32_t> branch(count), following(count);
    py::ssize_t at = 0;
    for (const Piece& piece : pieces)
        for (const Branch& one : get(piece)) {
            branch.mutable_data()[at] = one.id;
            following.mutable_data()[at++] = one.following;
        }
    columns[(name + "_offset").c_str()] = offset;
    columns[name.c_str()] = branch;
    columns[(name + "_following").c_str()] = following;
}

// near_offset, near_load, …: what loads had read from near stores.
void near_reads(py::dict& columns, const std::vector<Piece>& pieces) {
    const Array<std::int64_t> offset = offsets(pieces, [](const Piece& p) -> auto& { return p.near_reads; });
    const py::ssize_t count = offset.data()[pieces.size()];
    Array<std::uint32_t> load(count), store(count), times(count), same_bytes(count);
    py::ssize_t at = 0;
    for (const Piece& piece : pieces)
        for (const NearRead& one : piece.near_reads) {
            load.mutable_data()[at] = one.load;
            store.mutable_data()[at] = one.store;
            times.mutable_data()[at] = one.times;
            same_bytes.mutable_data()[at++] = one.same_bytes;
        }
    columns["near_offset"] = offset;
    columns["near_load"] = load;
    columns["near_store"] = store;
    columns["near_times"] = times;
    columns["near_same_bytes"] = same_bytes;
}

py::dict pieces(const Recorder& recorder) {
    const std::vector<Piece>& all = recorder.pieces;
    py::dict columns;
    Array<std::uint64_t> unit(static_cast<py::ssize_t>(all.size()));
    Array<bool> counted(static_cast<py::ssize_t>(all.size()));
    for (std::size_t k = 0; k < all.size(); ++k) {
        unit.mutable_data()[k] = all[k].unit;
        counted.mutable_data()[k] = all[k].counted;
    }
    columns["unit"] = unit;
    columns["counted"] = counted;
    columns["static_id"] = joined<std::uint32_t>(all, [](const Piece& p) -> auto& { return p.executed.id; });
    columns["next_static_id"] = joined<std::uint32_t>(all, [](const Piece& p) -> auto& { return p.executed.following; });
    columns["accesses"] = joined<std::uint32_t>(all, [](const Piece& p) -> auto& { return p.executed.accesses; });
    columns["address"] = joined<std::uint64_t>(all, [](const Piece& p) -> auto& { return p.executed.address; });
    columns["size"] = joined<std::uint8_t>(all, [](const Piece& p) -> auto& { return p.executed.size; });
    columns["is_store"] = joined<std::uint8_t>(all, [](const Piece& p) -> auto& { return p.executed.is_store; });
    columns["line_offset"] = offsets(all, [](const Piece& p) -> auto& { return p.gap.lines; });
    columns["line"] = joined<std::uint64_t>(all, [](const Piece& p) -> auto& { return p.gap.lines; });
    branches(columns, "branch", all, [](const Piece& p) -> auto& { return p.branches; });
    branches(columns, "taken", all, [](const Piece& p) -> auto& { return p.gap.taken; });
    const Array<std::int64_t> miss_offset = offsets(all, [](const Piece& p) -> auto& { return p.gap.misses; });
    columns["miss_offset"] = miss_offset;
    const py::ssize_t misses = miss_offset.data()[all.size()];
    Array<std::uint32_t> miss(misses);
    Array<std::uint64_t> address(misses);
    Array<bool> far(misses);
    Array<std::uint32_t> place(misses);
    py::ssize_t at = 0;
    for (const Piece& piece : all)
        for (const Miss& one : piece.gap.misses) {
            miss.mutable_data()[at] = one.id;
            address.mutable_data()[at] = one.address;
            place.mutable_data()[at] = static_cast<std::uint32_t>(one.place);
            far.mutable_data()[at++] = one.far;
        }
    columns["miss"] = miss;
    columns["miss_address"] = address;
    columns["miss_far"] = far;
    columns["miss_place"] = place;
    near_reads(columns, all);
    return columns;
}

// The numbers of the units that count.
Array<std::uint64_t> held(const Recorder& recorder) {
    std::vector<std::uint64_t> units;
    for (const Piece& piece : recorder.pieces)
        if (piece.counted && piece.unit < recorder.units && recorder.counts(piece.unit))  // the last one may be cut short
            units.push_back(piece.unit);
    return Array<std::uint64_t>(static_cast<py::ssize_t>(units.size()), units.data());
}

// Those of them that count whatever is drawn.
Array<std::uint64_t> take_all(const Recorder& recorder) {
    std::vector<std::uint64_t> units = recorder.take_all.units();
    while (!units.empty() && units.back() >= recorder.units) units.pop_back();
    return Array<std::uint64_t>(static_cast<py::ssize_t>(units.size()), units.data());
}

void see(TakeAll& members, std::uint64_t first, const Array<std::int64_t>& accesses) {
    for (py::ssize_t k = 0; k < accesses.size(); ++k) members.see(first + static_cast<std::uint64_t>(k), accesses.at(k));
}

Array<std::int64_t> members(const TakeAll& members) {
    const std::vector<std::uint64_t> units = members.units();
    Array<std::int64_t> found(static_cast<py::ssize_t>(units.size()));
    std::copy(units.begin(), units.end(), found.mutable_data());
    return found;
}

py::tuple signatures(const Recorder& recorder) {
    const auto count = static_cast<py::ssize_t>(recorder.signatures.size());
    Array<std::uint64_t> units(count);
    Array<float> rows({count, py::ssize_t{Signature::SIZE}});
    std::copy(recorder.signature_units.begin(), recorder.signature_units.end(), units.mutable_data());
    float* out = rows.mutable_data();
    for (const auto& row : recorder.signatures) out = std::copy(row.begin(), row.end(), out);
    return py::make_tuple(units, rows);
}

}  // namespace
}  // namespace perfvec

PYBIND11_MODULE(_core, module) {
    using namespace perfvec;
    module.attr("UNIT") = UNIT;
    module.attr("CODE") = CODE;
    module.attr("DIRTY") = DIRTY;
    module.attr("MISPREDICTED") = MISPREDICTED;
    module.attr("NEAR") = NEAR;
    module.attr("BELOW") = BELOW;
    module.attr("LINE_SHIFT") = LINE_SHIFT;
    py::class_<TakeAll>(module, "TakeAll").def(py::init<>()).def("see", &see).def("units", &members);
    py::class_<Recorder>(module, "Recorder")
        .def(py::init<std::size_t, std::size_t, std::size_t, std::uint64_t, std::vector<std::uint64_t>>(), py::kw_only(),
             py::arg("capacity"), py::arg("signatures"), py::arg("branches"), py::arg("seed"),
             py::arg("listed") = std::vector<std::uint64_t>{})
        .def("grow", &grow)
        .def("observe", &observe)
        .def("keep", &Recorder::keep)
        .def("held", &held)
        .def("take_all", &take_all)
        .def("pieces", &pieces)
        .def("signatures", &signatures)
        .def_property_readonly("statics", [](const Recorder& recorder) { return recorder.statics.size(); })
        .def_readonly("units", &Recorder::units)
        .def_readonly("instructions", &Recorder::instructions);
}
