// The timing model as a Python extension module: uarch.timing._core. uarch/timing/simulation.py is its only caller.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "branch/timeless_branches.hpp"
#include "parts.hpp"
#include "simulation.hpp"

namespace py = pybind11;

namespace perfvec {
namespace {

template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

template <typename T>
T field(const py::handle& object, const char* name) {
    return object.attr(name).cast<T>();
}

CacheConfiguration cache_from(const py::handle& cache) {
    return {field<int>(cache, "size_kib"), field<int>(cache, "associativity"), field<int>(cache, "latency"),
            field<int>(cache, "mshrs"), field<std::string>(cache, "prefetcher"),
            field<std::string>(cache, "replacement"), field<int>(cache, "fill_cycles"),
            field<int>(cache, "set_fill_cycles")};
}

// `dram` is the named DRAM's mapping, or None for a memory of fixed latency and bandwidth.
MemoryConfiguration memory_from(const py::handle& memory, const py::handle& dram) {
    MemoryConfiguration configuration;
    if (dram.is_none()) {
        configuration.latency_ns = field<double>(memory, "latency_ns");
        configuration.bandwidth_gbs = field<double>(memory, "bandwidth_gbs");
        return configuration;
    }
    const auto time = [&](const char* name) { return dram[name].cast<double>(); };
    const auto other = [&](const char* name, const char* usual) { return time(dram.contains(name) ? name : usual); };
    const auto count = [&](const char* name) { return static_cast<int>(dram[name].cast<double>()); };
    configuration.dram = DramModel{
        time("t_cl"),         time("t_cwl"),        time("t_rcd"),         time("t_rp"),        time("t_ras"),
        time("t_rtp"),        time("t_wr"),         time("t_rtw"),         time("t_wtr"),       time("t_ccd_long"),
        time("t_rrd"),        time("t_xaw"),        time("t_cs"),          time("t_refi"),      time("t_rfc"),
        time("t_burst"),      other("t_burst_min", "t_burst"),
        other("t_burst_max", "t_burst"),            other("t_wtr_long", "t_wtr"),
        other("t_rcd_write", "t_rcd"),
        count("burst_bytes"), count("banks"),       count("ranks"),        count("bank_groups"),
        count("row_bytes"),   count("write_queue"), count("closed") != 0};
    return configuration;
}

Machine machine_from(const py::handle& machine, const py::handle& dram, int int_registers, int fp_registers,
                     bool total_store_order, const Ideal& ideal, bool taken_path_only) {
    Machine result;
    const py::object pipeline = machine.attr("pipeline"), units = machine.attr("functional_units");
    if (field<std::string>(machine, "core") == "in-order") {
        result.in_order = InOrderPipeline{field<int>(pipeline, "width"), field<int>(pipeline, "frontend_delay"),
                                          field<int>(pipeline, "memory_width"), field<int>(pipeline, "store_buffer"),
                                          field<int>(pipeline, "memory_in_flight")};
    } else {
        result.out_of_order =
            OutOfOrderPipeline{field<int>(pipeline, "fetch_width"),        field<int>(pipeline, "decode_width"),
                               field<int>(pipeline, "rename_width"),       field<int>(pipeline, "issue_width"),
                               field<int>(pipeline, "commit_width"),       field<int>(pipeline, "frontend_delay"),
                               field<int>(pipeline, "dispatch_delay"),     field<int>(pipeline, "rob_entries"),
                               field<int>(pipeline, "issue_queue_entries"), field<int>(pipeline, "load_queue_entries"),
                               field<int>(pipeline, "store_queue_entries"), int_registers,
                               fp_registers};
    }
    result.units = {field<int>(units, "int_alu"), field<int>(units, "int_mul"),    field<int>(units, "fp_add"),
                    field<int>(units, "fp_mul"),  field<int>(units, "simd"),       field<int>(units, "load_ports"),
                    field<int>(units, "store_ports")};
    const py::object predictor = machine.attr("branch_predictor");
    result.branch_predictor = {field<std::string>(predictor, "kind"), field<int>(predictor, "entries"),
                               field<int>(predictor, "btb_entries"), field<int>(predictor, "ras_entries"),
                               field<std::string>(predictor, "indirect")};
    result.l1i = cache_from(machine.attr("l1i"));
    result.l1d = cache_from(machine.attr("l1d"));
    result.l2 = cache_from(machine.attr("l2"));
    if (!machine.attr("l3").is_none()) result.l3 = cache_from(machine.attr("l3"));
    result.memory = memory_from(machine.attr("memory"), dram);
    if (const py::object tlb = machine.attr("tlb"); !tlb.is_none())
        result.tlb = {field<int>(tlb, "entries"), field<int>(tlb, "l2_entries"), field<int>(tlb, "l2_latency"),
                      field<int>(tlb, "walk_latency"), field<int>(tlb, "page_kib"),
                      field<std::string>(tlb, "walk") == "caches"};
    const auto frames = field<std::string>(machine, "frames");
    result.frames = frames == "drawn"      ? FrameOrder::Drawn
                    : frames == "in-order" ? FrameOrder::InOrder
                                           : FrameOrder::Virtual;
    result.zeroed_pages = field<std::string>(machine, "first_touch") == "cache";
    if (const py::object cycles = machine.attr("forward_latency"); !cycles.is_none())
        result.forward_latency = cycles.cast<int>();
    if (const py::object stores = machine.attr("memory_renaming"); !stores.is_none())
        result.memory_renaming = stores.cast<int>();
    if (const py::object cycles = machine.attr("call_delay"); !cycles.is_none()) result.call_delay = cycles.cast<int>();
    if (const py::object branches = machine.attr("taken_branches"); !branches.is_none())
        result.taken_branches = branches.cast<int>();
    if (const py::object lines = machine.attr("store_lines"); !lines.is_none()) result.store_lines = lines.cast<int>();
    if (const py::object cycles = machine.attr("store_refetch"); !cycles.is_none())
        result.store_refetch = cycles.cast<int>();
    if (const py::object cycles = machine.attr("indirect_delay"); !cycles.is_none())
        result.indirect_delay = cycles.cast<int>();
    result.frequency_ghz = field<double>(machine, "frequency_ghz");
    result.total_store_order = total_store_order;
    result.ideal = ideal;
    result.taken_path_only = taken_path_only;
    return result;
}

// A chunk's arrays, held while C++ reads them; simulations of one program share it. Throws std::invalid_argument where
// they do not fit together or the program.
class HeldChunk {
  public:
    HeldChunk(const py::handle& chunk, std::size_t program_size)
        : instructions(program_size),
          static_id_(chunk.attr("static_id")),
          following_(chunk.attr("next_static_id")),
          offset_(chunk.attr("access_offset")),
          address_(chunk.attr("address")),
          size_(chunk.attr("size")),
          is_store_(chunk.attr("is_store")),
          call_instruction_(chunk.attr("call_instruction")),
          call_number_(chunk.attr("call_number")),
          division_instruction_(chunk.attr("division_instruction")),
          division_steps_(chunk.attr("division_steps")) {
        const auto n = static_cast<std::size_t>(static_id_.size());
        const auto fits = [](bool good, const char* what) {
            if (!good) throw std::invalid_argument(what);
        };
        fits(static_cast<std::size_t>(following_.size()) == n, "next_static_id is not as long as static_id");
        fits(static_cast<std::size_t>(offset_.size()) == n + 1, "access_offset must be one longer than static_id");
        const std::int64_t* offset = offset_.data();
        const std::int64_t accesses = offset[n] - offset[0];
        fits(address_.size() >= accesses && size_.size() >= accesses && is_store_.size() >= accesses,
             "there are fewer accesses than access_offset says");
        // Each check is one pass without a branch, of which the host does several instructions at a time.
        bool known = true, followed = true, ascending = true;
        const std::uint32_t *id = static_id_.data(), *next = following_.data();
        const auto size = static_cast<std::uint32_t>(instructions);
        for (std::size_t k = 0; k < n; ++k) known &= id[k] < size;
        for (std::size_t k = 0; k < n; ++k) followed &= (next[k] < size) | (next[k] == LAST);
        for (std::size_t k = 0; k < n; ++k) ascending &= offset[k] <= offset[k + 1];
        fits(known, "static_id is beyond the program's instructions");
        fits(followed, "next_static_id is beyond the program's instructions");
        fits(ascending, "access_offset falls");
        fits(call_instruction_.size() == call_number_.size(), "call_number is not as long as call_instruction");
        fits(division_instruction_.size() == division_steps_.size(), "division_steps is not as long as division_instruction");
        // The offsets may count from before the chunk (Chunk.part).
        view = {n,
                static_id_.data(),
                following_.data(),
                offset,
                addresses(accesses) - offset[0],
                size_.data() - offset[0],
                is_store_.data() - offset[0],
                field<std::uint64_t>(chunk, "start"),
                static_cast<std::size_t>(call_instruction_.size()),
                call_instruction_.data(),
                call_number_.data(),
                static_cast<std::size_t>(division_instruction_.size()),
                division_instruction_.data(),
                division_steps_.data()};
    }

    // The chunk as a core with vectors of whole width sees it: accesses of an instruction that continue one another are
    // one, up to `WHOLE` bytes (a trace has them by eight bytes, as QEMU makes them).
    const Chunk& whole() {
        if (merged_) return *merged_;
        const std::int64_t accesses = view.access_offset[view.size] - view.access_offset[0];
        merged_offset_.reserve(view.size + 1);
        merged_address_.reserve(static_cast<std::size_t>(accesses));
        for (auto* column : {&merged_size_, &merged_store_}) column->reserve(static_cast<std::size_t>(accesses));
        merged_offset_.push_back(0);
        for (std::size_t k = 0; k < view.size; ++k) {
            std::int64_t last[2] = {-1, -1};  // of its loads, of its stores
            for (std::int64_t m = view.access_offset[k]; m < view.access_offset[k + 1]; ++m) {
                const bool store = view.is_store[m] != 0;
                const std::int64_t before = last[store];
                if (before >= 0 && merged_address_[before] + merged_size_[before] == view.address[m] &&
                    merged_size_[before] + view.bytes(m) <= WHOLE) {
                    merged_size_[before] = static_cast<std::uint8_t>(merged_size_[before] + view.bytes(m));
                    continue;
                }
                last[store] = static_cast<std::int64_t>(merged_address_.size());
                merged_address_.push_back(view.address[m]);
                merged_size_.push_back(static_cast<std::uint8_t>(view.bytes(m)));
                merged_store_.push_back(store);
            }
            merged_offset_.push_back(static_cast<std::int64_t>(merged_address_.size()));
        }
        merged_ = view;
        merged_->access_offset = merged_offset_.data();
        merged_->address = merged_address_.data();
        merged_->access_size = merged_size_.data();
        merged_->is_store = merged_store_.data();
        return *merged_;
    }

    static constexpr std::int64_t WHOLE = 32;
    std::size_t instructions;  // static ones, of its program
    Chunk view;

  private:
    // The first of so many addresses: the array's own where all are in the lower half.
    const Address* addresses(std::int64_t count) {
        const std::uint64_t* given = address_.data();
        std::uint64_t any = 0;
        for (std::int64_t m = 0; m < count; ++m) any |= given[m];
        if (within_half(any) == static_cast<Address>(any)) return reinterpret_cast<const Address*>(given);
        low_address_.resize(static_cast<std::size_t>(count));
        std::transform(given, given + count, low_address_.begin(), within_half);
        return low_address_.data();
    }

    Array<std::uint32_t> static_id_, following_;
    Array<std::int64_t> offset_;
    Array<std::uint64_t> address_;
    Array<std::uint8_t> size_, is_store_;
    Array<std::uint64_t> call_instruction_;
    Array<std::uint16_t> call_number_;
    Array<std::uint64_t> division_instruction_;
    Array<std::uint8_t> division_steps_;
    std::optional<Chunk> merged_;
    std::vector<std::int64_t> merged_offset_;
    std::vector<Address> merged_address_, low_address_;
    std::vector<std::uint8_t> merged_size_, merged_store_;
};

struct StaticColumns {
    std::vector<StaticInstruction> rows;
    std::vector<Address> pc;
};

StaticColumns static_columns(const Array<std::int16_t>& rows, const Array<std::int64_t>& pc) {
    if (rows.ndim() != 2 || rows.shape(1) * 2 != static_cast<py::ssize_t>(sizeof(StaticInstruction)) ||
        pc.ndim() != 1 || pc.shape(0) != rows.shape(0))
        throw std::invalid_argument("rows must be [S, 32] and pc [S]");
    StaticColumns columns{std::vector<StaticInstruction>(rows.shape(0)), std::vector<Address>(pc.shape(0))};
    std::transform(pc.data(), pc.data() + pc.shape(0), columns.pc.begin(),
                   [](std::int64_t address) { return within_half(static_cast<std::uint64_t>(address)); });
    std::memcpy(static_cast<void*>(columns.rows.data()), rows.data(), columns.rows.size() * sizeof(StaticInstruction));
    return columns;
}

std::unique_ptr<Simulation> make_simulation(const py::object& machine, const py::object& dram, int int_registers,
                                            int fp_registers, bool total_store_order, const Array<std::int16_t>& rows,
                                            const Array<std::int64_t>& pc, bool ideal_branches,
                                            bool ideal_instructions, bool ideal_data, bool native,
                                            double vector_load, double vector_store,
                                            const std::vector<std::int32_t>& system_calls, bool taken_path_only,
                                            int division_step, bool division_at_most) {
    if (system_calls.empty()) throw std::invalid_argument("system_calls must end with the cycles of all others");
    StaticColumns columns = static_columns(rows, pc);
    const Ideal ideal{ideal_branches, ideal_instructions, ideal_data};
    Machine made = machine_from(machine, dram, int_registers, fp_registers, total_store_order, ideal, taken_path_only);
    made.native = native;
    made.vector_load = vector_load;
    made.vector_store = vector_store;
    made.system_calls = {system_calls};
    made.division_step = division_step;
    made.division_at_most = division_at_most;
    return std::make_unique<Simulation>(made, std::move(columns.rows), std::move(columns.pc));
}

void grow(Simulation& simulation, const Array<std::int16_t>& rows, const Array<std::int64_t>& pc) {
    StaticColumns columns = static_columns(rows, pc);
    const Program& program = simulation.program();
    if (columns.pc.size() < program.size || !std::equal(program.pc, program.pc + program.size, columns.pc.begin()))
        throw std::invalid_argument("the instructions so far are not the first of these");
    simulation.grow(std::move(columns.rows), std::move(columns.pc));
}

void require_program(const Simulation& simulation, const HeldChunk& chunk) {
    if (chunk.instructions != simulation.program().size)
        throw std::invalid_argument("the chunk is of another program");
}

using Outcomes = std::optional<Array<std::uint8_t>>;

// While it lives, branches have these outcomes, found beforehand.
class Following {
  public:
    Following(BranchUnit& branches, const Outcomes& outcomes) : branches_(branches) {
        if (outcomes) branches_.follow(outcomes->data(), static_cast<std::size_t>(outcomes->size()));
    }
    ~Following() { branches_.follow(nullptr, 0); }

  private:
    BranchUnit& branches_;
};

const Chunk& seen_by(const Simulation& simulation, HeldChunk& chunk) {
    return simulation.native() ? chunk.whole() : chunk.view;
}

Array<Latency> run(Simulation& simulation, HeldChunk& chunk, const Outcomes& outcomes) {
    require_program(simulation, chunk);
    const Following following(simulation.branches, outcomes);
    Array<Latency> latency(static_cast<py::ssize_t>(chunk.view.size));
    Latency* cycles = latency.mutable_data();
    const Chunk& view = seen_by(simulation, chunk);
    py::gil_scoped_release release;
    simulation.core->run(view, cycles);
    return latency;
}

using Stack = py::array_t<std::int64_t, py::array::c_style>;
using Groups = Array<std::uint32_t>;

// Each pair of `stacks` takes all cycles: a stack [groups, CAUSES], and of each instruction [n] its row.
Array<Latency> run_with_stacks(Simulation& simulation, HeldChunk& chunk,
                                     const std::vector<std::pair<py::array, Groups>>& stacks, const Outcomes& outcomes) {
    require_program(simulation, chunk);
    const Following following(simulation.branches, outcomes);
    std::vector<StackTable> tables;
    for (const auto& [given, groups] : stacks) {
        if (!py::isinstance<Stack>(given)) throw std::invalid_argument("a stack must be of int64 in C order: it is added to");
        auto stack = py::reinterpret_borrow<Stack>(given);
        if (stack.ndim() != 2 || stack.shape(1) != CAUSES || groups.ndim() != 1 ||
            static_cast<std::size_t>(groups.shape(0)) != chunk.view.size)
            throw std::invalid_argument("a stack must be [groups, causes] and its groups as long as the chunk");
        const std::uint32_t* group = groups.data();
        for (std::size_t k = 0; k < chunk.view.size; ++k)
            if (group[k] >= stack.shape(0)) throw std::invalid_argument("a group is beyond the stack's rows");
        tables.push_back({stack.mutable_data(), group});
    }
    Array<Latency> latency(static_cast<py::ssize_t>(chunk.view.size));
    Latency* cycles = latency.mutable_data();
    const Chunk& view = seen_by(simulation, chunk);
    py::gil_scoped_release release;
    simulation.core->run(view, cycles, tables);
    return latency;
}

void warm(Simulation& simulation, const HeldChunk& chunk) {
    require_program(simulation, chunk);
    py::gil_scoped_release release;
    simulation.warm(chunk.view);
}

// What was touched, and accesses that missed, each of an instruction.
void touch(Simulation& simulation, const Array<std::uint64_t>& touches, const Array<std::uint32_t>& id,
           const Array<std::uint64_t>& address, const Array<bool>& far, const Array<std::uint32_t>& place) {
    const auto misses = static_cast<std::size_t>(id.size()), count = static_cast<std::size_t>(touches.size());
    for (const py::ssize_t size : {address.size(), far.size(), place.size()})
        if (static_cast<std::size_t>(size) != misses) throw std::invalid_argument("columns differ in length");
    const std::size_t size = simulation.program().size;
    if (std::any_of(id.data(), id.data() + misses, [&](std::uint32_t one) { return one >= size; }))
        throw std::invalid_argument("an access is of an instruction beyond the program's");
    const Simulation::Misses learnt{simulation.caches.learns_misses() ? misses : 0, id.data(), place.data(), address.data(),
                                    far.data()};
    const std::uint64_t* data = touches.data();
    py::gil_scoped_release release;
    simulation.touch(data, count, learnt);
}

// How many branches, each with the instruction after it, there are. Throws std::invalid_argument for what is none.
std::size_t require_branches(const Simulation& simulation, const Array<std::uint32_t>& branch,
                             const Array<std::uint32_t>& following) {
    const auto count = static_cast<std::size_t>(branch.size());
    if (static_cast<std::size_t>(following.size()) != count) throw std::invalid_argument("columns differ in length");
    const std::size_t size = simulation.program().size;
    for (std::size_t k = 0; k < count; ++k)
        if (branch.data()[k] >= size || (following.data()[k] >= size && following.data()[k] != LAST))
            throw std::invalid_argument("a branch is beyond the program's instructions");
    return count;
}

// Branches, each with the instruction after it, in no time: `told` of `Simulation`.
void tell(Simulation& simulation, const Array<std::uint32_t>& branch, const Array<std::uint32_t>& following,
          void (Simulation::*told)(const std::uint32_t*, const std::uint32_t*, std::size_t)) {
    const std::size_t count = require_branches(simulation, branch, following);
    const std::uint32_t *id = branch.data(), *next = following.data();
    py::gil_scoped_release release;
    (simulation.*told)(id, next, count);
}

void learn(Simulation& simulation, const Array<std::uint32_t>& branch, const Array<std::uint32_t>& following) {
    tell(simulation, branch, following, &Simulation::learn);
}

void take(Simulation& simulation, const Array<std::uint32_t>& branch, const Array<std::uint32_t>& following) {
    tell(simulation, branch, following, &Simulation::take);
}

// Branches that followed one another, with their outcomes (`Core::pass`).
void pass(Simulation& simulation, const Array<std::uint32_t>& branch, const Array<std::uint32_t>& following,
          const Array<std::uint8_t>& outcome) {
    if (outcome.size() != branch.size()) throw std::invalid_argument("columns differ in length");
    const PassedBranches passed{require_branches(simulation, branch, following), branch.data(), following.data(), outcome.data()};
    py::gil_scoped_release release;
    simulation.core->pass(passed);
}

void begin_unit(Simulation& simulation, const Array<std::uint32_t>& load, const Array<std::uint32_t>& store,
                const Array<std::uint32_t>& times, const Array<std::uint32_t>& same_bytes) {
    const auto count = static_cast<std::size_t>(load.size());
    const std::size_t size = simulation.program().size;
    if (store.size() != load.size() || times.size() != load.size() || same_bytes.size() != load.size())
        throw std::invalid_argument("the columns of near reads differ in length");
    for (const auto* ids : {&load, &store})
        if (std::any_of(ids->data(), ids->data() + count, [&](std::uint32_t one) { return one >= size; }))
            throw std::invalid_argument("a load or store is beyond the program's instructions");
    const auto* reads = simulation.native() ? &same_bytes : &times;
    simulation.core->begin_unit({count, load.data(), store.data(), reads->data()});
}

void set_refresh(Simulation& simulation, double passed) {
    if (!(passed >= 0 && passed < 1)) throw std::invalid_argument("what has passed of an interval is not in [0, 1)");
    simulation.caches.memory->set_refresh(simulation.core->retired, passed);
}

// The outcomes of branches (`BranchUnit::follow`) of a program whose instructions are at `pc`. One after 0 `steps` is a
// direct branch that was taken, of which nothing else is known: it has no outcome.
Array<std::uint8_t> outcomes(TimelessBranches& branches, const Array<std::uint64_t>& pc, const Array<std::uint8_t>& length,
                             const Array<std::uint16_t>& flags, const Array<std::uint32_t>& ids,
                             const Array<std::uint32_t>& following, const Array<std::uint16_t>& steps) {
    const auto size = static_cast<std::size_t>(pc.size()), count = static_cast<std::size_t>(ids.size());
    if (static_cast<std::size_t>(length.size()) != size || static_cast<std::size_t>(flags.size()) != size ||
        static_cast<std::size_t>(following.size()) != count || static_cast<std::size_t>(steps.size()) != count)
        throw std::invalid_argument("columns differ in length");
    const std::uint32_t *branch = ids.data(), *next = following.data();
    for (std::size_t k = 0; k < count; ++k)
        if (branch[k] >= size || (next[k] >= size && next[k] != LAST))
            throw std::invalid_argument("a branch is beyond the program's instructions");
    Array<std::uint8_t> result(static_cast<py::ssize_t>(count));
    std::uint8_t* out = result.mutable_data();
    py::gil_scoped_release release;
    for (std::size_t k = 0; k < count; ++k) {
        const Address here = within_half(pc.data()[branch[k]]), fall_through = here + length.data()[branch[k]];
        const Address target = next[k] == LAST ? fall_through : within_half(pc.data()[next[k]]);
        if (steps.data()[k] == 0)
            branches.take(here, target), out[k] = 0;
        else
            out[k] = branches.next(here, fall_through, target, flags.data()[branch[k]], steps.data()[k]);
    }
    return result;
}

// Tells `put` every counter's name and value, in an order that is always the same.
template <typename Put>
void each_counter(const Simulation& simulation, const Put& put) {
    put("retired", simulation.core->retired);
    put("branches", simulation.branches.branches);
    put("mispredictions", simulation.branches.mispredictions);
    put("mispredicted_direction", simulation.branches.by_kind.direction);
    put("mispredicted_target", simulation.branches.by_kind.target);
    put("mispredicted_indirect", simulation.branches.by_kind.indirect);
    put("mispredicted_return", simulation.branches.by_kind.returns);
    put("redirected_at_decode", simulation.branches.redirected_at_decode);
    put("itlb_misses", simulation.caches.instruction_tlb.misses);
    put("dtlb_misses", simulation.caches.data_tlb.misses);
    const char* names[] = {"l1i", "l1d", "l2", "l3"};
    for (int level = 0; level < LEVELS; ++level) {
        const CacheCounters& counters = simulation.caches.levels[level].counters;
        const std::string prefix = std::string(names[level]) + "_";
        put(prefix + "accesses", counters.accesses);
        put(prefix + "misses", counters.misses);
        put(prefix + "write_backs", counters.write_backs);
        put(prefix + "prefetches", counters.prefetches);
        put(prefix + "merged", counters.merged);
        put(prefix + "useful_prefetches", counters.useful);
        put(prefix + "covered_misses", counters.covered);
        put(prefix + "late_prefetches", counters.late);
        put(prefix + "accesses_by_prefetchers", counters.from_prefetchers);
        put(prefix + "misses_by_prefetchers", counters.from_prefetchers_missed);
    }
    const MemoryCounters& memory = simulation.caches.memory->counters;
    put("memory_reads", memory.reads);
    put("memory_writes", memory.writes);
    put("dram_row_hits", memory.row_hits);
    put("dram_row_misses", memory.row_misses);
    const Occupancy& occupancy = simulation.core->occupancy;
    put("reorder_buffer_occupied", occupancy.reorder_buffer);
    put("issue_queue_occupied", occupancy.issue_queue);
    put("load_queue_occupied", occupancy.load_queue);
    put("store_queue_occupied", occupancy.store_queue);
}

py::dict counters(const Simulation& simulation) {
    py::dict totals;
    each_counter(simulation, [&](const std::string& name, std::int64_t value) { totals[py::str(name)] = value; });
    return totals;
}

// The values of `counters` in their order.
Array<std::int64_t> counts(const Simulation& simulation) {
    std::vector<std::int64_t> values;
    each_counter(simulation, [&](const auto&, std::int64_t value) { values.push_back(value); });
    return Array<std::int64_t>(static_cast<py::ssize_t>(values.size()), values.data());
}

}  // namespace
}  // namespace perfvec

PYBIND11_MODULE(_core, module) {
    using namespace perfvec;
    module.attr("CAUSES") = static_cast<int>(CAUSES);
    py::class_<HeldChunk>(module, "Chunk")
        .def(py::init<const py::handle&, std::size_t>(), py::arg("chunk"), py::arg("instructions"));
    module.attr("TOUCHED_DIRTY") = Simulation::TOUCHED_DIRTY;
    module.attr("TOUCHED_CODE") = Simulation::TOUCHED_CODE;
    module.attr("TOUCHED_SHIFT") = Simulation::TOUCHED_SHIFT;
    py::class_<TimelessBranches>(module, "TimelessBranches")
        .def(py::init<const std::string&, int, int, int, const std::string&, int>(), py::kw_only(), py::arg("kind"), py::arg("entries"),
             py::arg("btb_entries"), py::arg("ras_entries"), py::arg("indirect"), py::arg("window"))
        .def("outcomes", &outcomes)
        .def_property_readonly("in_flight_before", &TimelessBranches::in_flight_before);
    py::class_<Simulation>(module, "Simulation")
        .def(py::init(&make_simulation), py::kw_only(), py::arg("machine"), py::arg("dram"), py::arg("int_registers"),
             py::arg("fp_registers"), py::arg("total_store_order"), py::arg("rows"), py::arg("pc"),
             py::arg("ideal_branches") = false, py::arg("ideal_instructions") = false, py::arg("ideal_data") = false,
             py::arg("native") = false, py::arg("vector_load") = 0.0, py::arg("vector_store") = 0.0,
             py::arg("system_calls") = std::vector<std::int32_t>{0}, py::arg("taken_path_only") = false,
             py::arg("division_step") = 0, py::arg("division_at_most") = false)
        .def("grow", &grow, py::arg("rows"), py::arg("pc"))
        .def("run", &run, py::arg("chunk"), py::arg("outcomes") = py::none())
        .def("run_with_stacks", &run_with_stacks, py::arg("chunk"), py::arg("stacks"), py::arg("outcomes") = py::none())
        .def("warm", &warm)
        .def("touch", &touch)
        .def("learn", &learn, py::arg("branch"), py::arg("following"))
        .def("pass_branches", &pass, py::arg("branch"), py::arg("following"), py::arg("outcome"))
        .def("take", &take, py::arg("branch"), py::arg("following"))
        .def("begin_unit", &begin_unit, py::arg("load"), py::arg("store"), py::arg("times"), py::arg("same_bytes"))
        .def("set_refresh", &set_refresh, py::arg("passed"))
        .def_property_readonly("refresh_surplus",
                               [](const Simulation& simulation) { return simulation.caches.memory->refresh_surplus(); })
        .def_property_readonly("in_flight_before", [](const Simulation& simulation) { return simulation.branches.in_flight_before; })
        .def_property_readonly("counters", &counters)
        .def_property_readonly("counts", &counts);
#ifdef PERFVEC_PARTS
    bind_parts(module);
#endif
}
