// Parts of the timing model by themselves, for tests and to try them: the submodule uarch.timing._core.parts.
//
// Most stand alone; what needs a whole machine (caches, DRAM, wrong path) is taken from a Simulation, and keeps it alive.
#include "parts.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "branch/folded_history.hpp"
#include "branch/multiperspective_perceptron.hpp"
#include "simulation.hpp"

namespace py = pybind11;

namespace perfvec {
namespace {

using py::arg;

void require(bool good, const char* what) {
    if (!good) throw std::invalid_argument(what);
}

bool power_of_two(int value) { return value > 0 && (value & (value - 1)) == 0; }

py::tuple pair(Span span) { return py::make_tuple(span.first, span.last); }

void bind_branches(py::module_& module) {
    py::enum_<Redirect>(module, "Redirect")
        .value("NONE", Redirect::None)
        .value("DECODE", Redirect::Decode)
        .value("EXECUTE", Redirect::Execute)
        .value("RETARGET", Redirect::Retarget);
    py::class_<BranchUnit>(module, "BranchUnit")
        .def(py::init([](const std::string& kind, int entries, int btb_entries, int ras_entries,
                         const std::string& indirect) {
                 require(kind == "none" || (power_of_two(entries) && entries >= 16), "entries: a power of two from 16 on");
                 require(kind == "none" || power_of_two(btb_entries), "btb_entries: a power of two");
                 return std::make_unique<BranchUnit>(kind, entries, btb_entries, ras_entries, indirect);
             }),
             arg("kind"), arg("entries") = 1024, arg("btb_entries") = 1024, arg("ras_entries") = 16,
             arg("indirect") = "target-table")
        .def("fetch", &BranchUnit::fetch, arg("pc"), arg("fall_through"), arg("target"), arg("flags"),
             arg("fetched") = 0, arg("retired") = -1)
        .def("on_wrong_path", &BranchUnit::on_wrong_path, arg("pc"))
        .def_property_readonly("in_flight", &BranchUnit::in_flight)
        .def_readonly("branches", &BranchUnit::branches)
        .def_readonly("mispredictions", &BranchUnit::mispredictions)
        .def_readonly("redirected_at_decode", &BranchUnit::redirected_at_decode)
        .def_property_readonly("by_kind", [](const BranchUnit& unit) {
            py::dict counts;
            counts["direction"] = unit.by_kind.direction;
            counts["target"] = unit.by_kind.target;
            counts["indirect"] = unit.by_kind.indirect;
            counts["returns"] = unit.by_kind.returns;
            return counts;
        });
    module.attr("IN_FLIGHT") = IN_FLIGHT;
    module.def(
        "branch_unit_of", [](Simulation& simulation) { return &simulation.branches; },
        py::return_value_policy::reference, py::keep_alive<0, 1>());

    module.def("geometric", &geometric, arg("shortest"), arg("longest"), arg("count"));
    constexpr int LENGTHS = 7;  // of a TAGE predictor; nothing in the class depends on their number
    using History = FoldedHistory<LENGTHS>;
    py::class_<History>(module, "FoldedHistory")
        .def(py::init([](const std::vector<int>& lengths, const std::vector<FoldedWidths>& widths) {
                 require(lengths.size() == LENGTHS && widths.size() == LENGTHS, "seven lengths and widths are needed");
                 for (int length : lengths) require(length > 0 && length < 4096, "a length: from 1 to 4095");
                 for (const FoldedWidths& three : widths)
                     for (int width : three) require(width > 0 && width < 31, "a width: from 1 to 30");
                 return std::make_unique<History>(lengths, widths);
             }),
             arg("lengths"), arg("widths"))
        .def("shift_in", &History::shift_in, arg("outcome"))
        .def("registers", [](const History& history) {  // [lengths] of those for the index and the two for the tag
            std::vector<std::vector<int>> registers;
            for (FoldedRegister which : {INDEX, FIRST_TAG, SECOND_TAG})
                registers.emplace_back(history.registers(which), history.registers(which) + LENGTHS);
            return registers;
        });
    // The bits that a perceptron's tables and all else of it take, and its budget.
    module.def(
        "perceptron_bits",
        [](bool large) {
            if (large)
                return std::pair{MultiperspectivePerceptron<LARGE_PERCEPTRON>().bits_used(), LARGE_PERCEPTRON.bits};
            return std::pair{MultiperspectivePerceptron<SMALL_PERCEPTRON>().bits_used(), SMALL_PERCEPTRON.bits};
        },
        arg("large"));
}

// A prefetcher with the queue and the random numbers that a cache hierarchy has for it.
struct CachePrefetcher {
    explicit CachePrefetcher(const std::string& kind) : prefetcher(make_prefetcher(kind, random)) {
        require(prefetcher != nullptr, "none is no prefetcher");
    }

    Random random{0x2545F491};
    std::unique_ptr<Prefetcher> prefetcher;
    PrefetchQueue queue;
};

void bind_caches(py::module_& module) {
    py::class_<MshrFile> mshrs(module, "MshrFile");
    mshrs
        .def(py::init([](int entries) {
                 require(entries > 0, "an MSHR at least is needed");
                 return std::make_unique<MshrFile>(entries);
             }),
             arg("mshrs"))
        .def("occupied", &MshrFile::occupied, arg("cycle"))
        .def(
            "free_from",
            [](const MshrFile& file, Cycle cycle, std::optional<int> most) {
                require(!most || *most > 0, "most: at least 1");
                return file.free_from(most.value_or(file.size()), cycle);
            },
            arg("cycle"), arg("most") = py::none())
        .def("book", &MshrFile::book, arg("begin"), arg("end"));
    mshrs.attr("EARLIER") = int{MshrFile::EARLIER};

    module.attr("DATA_REQUEST") = static_cast<int>(DATA_REQUEST);
    module.attr("CODE_REQUEST") = static_cast<int>(CODE_REQUEST);
    module.attr("PREFETCH_OF_LEVEL") = static_cast<int>(PREFETCH_OF_LEVEL);
    py::class_<PrefetchQueue> queue(module, "PrefetchQueue");
    queue.def("__len__", &PrefetchQueue::waiting)
        .def("drop_first",
             [](PrefetchQueue& waiting) {
                 require(!waiting.empty(), "the queue is empty");
                 waiting.drop_first();
             })
        .def_property_readonly("lines", [](const PrefetchQueue& waiting) {  // those that wait, the oldest first
            std::vector<Line> lines;
            for (int k = 0; k < waiting.waiting(); ++k)
                if (waiting[k].line >= 0) lines.push_back(waiting[k].line);
            return lines;
        });
    queue.attr("ENTRIES") = int{PrefetchQueue::ENTRIES};
    py::class_<CachePrefetcher>(module, "Prefetcher")
        .def(py::init<const std::string&>(), arg("kind"))
        .def(
            "train",
            [](CachePrefetcher& cache, Address address, Address pc, int requester, Cycle cycle, bool missed) {
                require(requester >= 0 && requester < REQUESTERS, "there is no such requester");
                cache.prefetcher->train({address, pc, requester, cycle, missed}, cache.queue);
            },
            arg("address"), arg("pc"), arg("requester") = static_cast<int>(DATA_REQUEST), arg("cycle") = 0,
            arg("missed") = true)
        .def_readonly("queue", &CachePrefetcher::queue);

    py::class_<Hierarchy>(module, "Hierarchy")
        .def("access_code", &Hierarchy::access_code, arg("line"), arg("cycle"), arg("pc"), arg("timed") = true)
        .def("access_data", &Hierarchy::access_data, arg("address"), arg("size"), arg("cycle"), arg("write"), arg("pc"),
             arg("timed") = true);
    module.def(
        "hierarchy_of", [](Simulation& simulation) { return &simulation.caches; }, py::return_value_policy::reference,
        py::keep_alive<0, 1>());

    py::class_<Dram> dram(module, "Dram");
    dram.def("read", &Dram::read, arg("line"), arg("cycle"), arg("awaited") = true)
        .def("write", &Dram::write, arg("line"), arg("cycle"))
        .def("set_refresh", &Dram::set_refresh, arg("cycle"), arg("passed"))
        .def_property_readonly("refresh_surplus", &Dram::refresh_surplus)
        .def("read_at", &Dram::read_at, arg("line"), arg("picoseconds"))
        .def("write_at", &Dram::write_at, arg("line"), arg("picoseconds"))
        .def_property_readonly("writes_waiting", &Dram::writes_waiting);
    dram.attr("MIN_WRITES") = int{Dram::MIN_WRITES};
    dram.attr("HIGH") = double{Dram::HIGH};
    dram.attr("LOW") = double{Dram::LOW};
    module.def(
        "dram_of",
        [](Simulation& simulation) {
            Dram* memory = dynamic_cast<Dram*>(simulation.caches.memory.get());
            require(memory != nullptr, "the machine has no DRAM");
            return memory;
        },
        py::return_value_policy::reference, py::keep_alive<0, 1>());
}

void bind_pipeline(py::module_& module) {
    py::class_<BoundPorts>(module, "BoundPorts")
        .def(py::init([](int ports) {
                 require(ports > 0 && ports <= BoundPorts::MOST, "ports: 1 to 16");
                 return std::make_unique<BoundPorts>(ports);
             }),
             arg("ports"))
        .def(
            "reserve",
            [](BoundPorts& ports, int among, Cycle dispatched, Cycle cycle) {
                require(among >= 0 && dispatched <= cycle, "among: at least 0; cycle: not before dispatched");
                return ports.reserve(among, dispatched, cycle);
            },
            arg("among"), arg("dispatched"), arg("cycle"));
    py::class_<OutOfOrderDivider>(module, "OutOfOrderDivider")
        .def(py::init<>())
        .def(
            "reserve",
            [](OutOfOrderDivider& divider, Cycle cycle, Cycle duration) {
                require(cycle >= 0 && duration > 0, "cycle: at least 0; duration: at least 1");
                return divider.reserve(cycle, duration);
            },
            arg("cycle"), arg("duration"));
    py::class_<ReleaseRing>(module, "ReleaseRing")
        .def(py::init([](std::int64_t entries, Cycle free_at) {
                 require(entries > 0, "an entry at least is needed");
                 return std::make_unique<ReleaseRing>(entries, free_at);
             }),
             arg("entries"), arg("free_at"))
        .def_property_readonly("handed_out", &ReleaseRing::handed_out)
        .def(
            "released",
            [](const ReleaseRing& ring, std::int64_t wanted) {
                require(wanted > 0, "wanted: at least 1");
                return ring.released(std::min(wanted, ring.entries()));
            },
            arg("wanted"))
        .def(
            "book",
            [](ReleaseRing& ring, std::int64_t count, Cycle cycle) {
                require(count >= 0, "count: at least 0");
                ring.book(count, cycle);
            },
            arg("count"), arg("cycle"))
        .def("free_at", &ReleaseRing::free_at, arg("cycle"));

    py::class_<ReorderBuffer, ReleaseRing>(module, "ReorderBuffer")
        .def(py::init([](std::int64_t entries, std::int64_t commit_width) {
                 require(entries > 0 && commit_width > 0, "an entry and a micro-operation a cycle at least are needed");
                 return std::make_unique<ReorderBuffer>(entries, commit_width, 0);
             }),
             arg("entries"), arg("commit_width"))
        .def("retire", &ReorderBuffer::retire, arg("complete"), arg("operations"))
        .def("trap", &ReorderBuffer::trap, arg("cycle"))
        .def_property_readonly("retired", &ReorderBuffer::retired);

    py::class_<ResponsePort>(module, "ResponsePort")
        .def(py::init<bool>(), arg("several"))
        .def("answered", &ResponsePort::answered, arg("cycle"))
        .def("taken", &ResponsePort::taken, arg("cycle"));

    py::class_<StoreSets> sets(module, "StoreSets");
    sets.def(py::init<bool>(), arg("exact") = false)
        .def("waits_for", &StoreSets::waits_for, arg("pc"))
        .def("note_issue", &StoreSets::note_issue, arg("pc"), arg("address"), arg("size"), arg("cycle"))
        .def("violated", &StoreSets::violated, arg("pc"), arg("address"), arg("size"), arg("cycle"))
        .def("set_of", &StoreSets::set_of, arg("pc"))
        .def_property_readonly("violations", &StoreSets::violations);
    sets.attr("CLEAR_AFTER") = int{StoreSets::CLEAR_AFTER};
    sets.attr("BLOCKS") = int{StoreSets::BLOCKS};

    py::class_<FrontEnd>(module, "FrontEnd")
        .def(py::init<std::int64_t, std::int64_t, std::int64_t>(), arg("fetch_width"), arg("decode_width"), arg("delay"))
        .def(
            "fetch",
            [](FrontEnd& front, Hierarchy& caches, Address pc, std::int64_t length, std::int64_t operations) {
                Waits waits;
                return pair(front.fetch<false>(caches, pc, length, operations, waits));
            },
            arg("caches"), arg("pc"), arg("length"), arg("operations"))
        .def(
            "decode",
            [](FrontEnd& front, Cycle first, Cycle last, std::int64_t operations, Cycle renamed) {
                Waits waits;
                return pair(front.decode<false>({first, last}, operations, renamed, waits));
            },
            arg("first"), arg("last"), arg("operations"), arg("renamed"))
        .def("stall", [](FrontEnd& front, Cycle cycle) { front.stall(cycle, FullReorderBuffer); }, arg("cycle"))
        .def("squashed", &FrontEnd::squashed, arg("resolved"), arg("steps"));

    const auto known = [](std::int64_t which, const Program& program) {
        require(which >= 0 && which < static_cast<std::int64_t>(program.size), "there is no such instruction");
        return static_cast<std::uint32_t>(which);
    };
    struct Path {
        explicit Path(const Program& of) : program(of), instructions(decoded(of)) {}

        Program program;
        DecodedProgram instructions;
        WrongPath path{instructions};
        SquashedLoads squashed{};
    };
    py::class_<Path> path(module, "WrongPath");
    path.def(py::init([](const Simulation& simulation) {
                 return std::make_unique<Path>(simulation.program());
             }),
             arg("simulation"), py::keep_alive<1, 2>())
        .def(
            "note_branch",
            [known](Path& walked, std::int64_t here, std::int64_t following, bool taken) {
                walked.path.note_branch(known(here, walked.program), known(following, walked.program), taken);
            },
            arg("here"), arg("following"), arg("taken"))
        .def(
            "walk",  // (micro-operations fetched by the cycle `by`, the line then at hand)
            [known](Path& walked, BranchUnit& branches, Hierarchy& caches, std::int64_t branch, bool taken, Line line,
                    std::int64_t width, Cycle begin, Cycle until, Cycle by, std::int64_t most) {
                WrongPath::Start start;
                start.place = walked.path.expected(known(branch, walked.program), taken);
                start.line = line;
                start.width = width;
                start.from = begin;
                start.until = until;
                start.by = by;
                start.most = start.entries = start.loads = start.stores = most;
                const auto [count, last] = walked.path.walk(start, branches, caches, walked.squashed);
                return py::make_tuple(count, last);
            },
            arg("branches"), arg("caches"), py::kw_only(), arg("branch"), arg("taken"), arg("line"), arg("width"),
            arg("begin"), arg("until"), arg("by"), arg("most"));
    path.attr("UNKNOWN") = std::int64_t{WrongPath::UNKNOWN};
}

}  // namespace

void bind_parts(py::module_& module) {
    py::module_ parts = module.def_submodule("parts", "Parts of the timing model by themselves.");
    bind_branches(parts);
    bind_caches(parts);
    bind_pipeline(parts);
}

}  // namespace perfvec
