#include "recorder.hpp"

namespace perfvec {

namespace {

// Whether a branch is direct and goes elsewhere than on; at the run's end nothing is known of it.
bool takes_directly(const std::vector<Static>& statics, std::uint32_t id, std::uint32_t following) {
    const Static& row = statics[id];
    return row.flags & BRANCH && !(row.flags & INDIRECT) && following < statics.size() &&
           statics[following].pc != row.pc + row.length;
}

// A gap that grows at its end.
class Joined {
  public:
    explicit Joined(const std::vector<Static>& statics) : statics_(statics) {}

    void add(const Gap& gap) {
        add(gap.misses);
        taken_.insert(taken_.end(), gap.taken.begin(), gap.taken.end());
        lines_.insert(lines_.end(), gap.lines.begin(), gap.lines.end());
    }

    // Misses among the lines that come next.
    void add(const std::vector<Miss>& misses) {
        for (Miss miss : misses) {
            miss.place += lines_.size();
            misses_.push_back(miss);
        }
    }

    void add(const Executed& executed) {
        std::size_t access = 0, touched = 0;
        const auto add = [&](std::uint64_t line, Touch flags) {
            lines_.push_back(line << LINE_SHIFT | flags | (executed.missed[touched++] ? 0 : NEAR));
        };
        for (std::size_t k = 0; k < executed.id.size(); ++k) {
            const Static& row = statics_[executed.id[k]];
            if (takes_directly(statics_, executed.id[k], executed.following[k]))
                taken_.push_back({executed.id[k], executed.following[k]});
            const std::uint64_t last = (row.pc + row.length - 1) >> 6;
            for (std::uint64_t line = row.pc >> 6; line <= last; ++line)
                add(line, CODE | (executed.mispredicted[k] && line == last ? MISPREDICTED : 0));
            for (std::uint32_t n = 0; n < executed.accesses[k]; ++n, ++access) {
                const std::uint64_t address = executed.address[access];
                const std::uint64_t end = (address + std::max<int>(executed.size[access], 1) - 1) >> 6;
                for (std::uint64_t line = address >> 6; line <= end; ++line) add(line, executed.is_store[access] ? DIRTY : 0);
            }
        }
    }

    bool empty() const { return lines_.empty(); }

    // The whole, each line once where it was touched last, dirty where it was stored to at all, and once where levels below
    // the first saw it last; code once more, where fetch went astray last.
    Gap take() {
        Gap gap;
        std::size_t size = 64;
        while (size < 2 * lines_.size()) size *= 2;
        seen_.assign(size, {});
        std::size_t miss = misses_.size();
        const std::size_t first = miss - std::min(miss, MISSES);
        for (std::size_t k = lines_.size(); k-- > 0;) {
            const auto behind = static_cast<std::uint32_t>(gap.lines.size());
            for (; miss > first && misses_[miss - 1].place > k; --miss) misses_[miss - 1].place = behind;
            const Touch line = lines_[k] & ~(DIRTY | NEAR | BELOW);
            std::size_t at = (line * 0x9E3779B97F4A7C15u) >> 20 & (size - 1);
            while (seen_[at].place != NOWHERE && (gap.lines[seen_[at].place] & ~(DIRTY | NEAR | BELOW)) != line)
                at = (at + 1) & (size - 1);
            Seen& seen = seen_[at];
            const bool below = !(lines_[k] & NEAR) && !seen.below;
            const bool astray = line & CODE && lines_[k] & MISPREDICTED && !seen.astray;
            if (seen.place == NOWHERE) {
                seen.place = behind;
                gap.lines.push_back(lines_[k]);
            } else {
                const bool together = behind - seen.place < TOGETHER;
                if (together || !(line & CODE)) gap.lines[seen.place] |= lines_[k] & DIRTY;
                if (below && together)
                    gap.lines[seen.place] &= ~NEAR;
                else if (below)
                    gap.lines.push_back(line | BELOW);
                if (astray && !together) gap.lines.push_back(line | MISPREDICTED | NEAR);
            }
            seen.below |= below;
            seen.astray |= astray;
        }
        std::reverse(gap.lines.begin(), gap.lines.end());
        gap.misses.assign(misses_.begin() + static_cast<std::ptrdiff_t>(first), misses_.end());
        for (std::size_t k = 0; k < gap.misses.size(); ++k)
            gap.misses[k].place = k + first < miss ? 0 : gap.lines.size() - gap.misses[k].place;
        gap.taken = last_of_each(taken_, statics_.size());
        lines_.clear();
        misses_.clear();
        taken_.clear();
        return gap;
    }

  private:
    static constexpr std::uint32_t NOWHERE = ~std::uint32_t{0};
    static constexpr std::uint32_t TOGETHER = 128;  // lines between the two touches of a line that are one

    struct Seen {  // of a line, hashed
        std::uint32_t place = NOWHERE;
        bool below = false, astray = false;
    };
    const std::vector<Static>& statics_;
    std::vector<Seen> seen_;
    std::vector<Touch> lines_;
    std::vector<Miss> misses_;
    std::vector<Branch> taken_;
};

}  // namespace

// SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t Recorder::key(std::uint64_t unit) const {
    std::uint64_t state = seed_ + (unit + 1) * 0x9E3779B97F4A7C15u;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
    return state ^ (state >> 31);
}

void Recorder::observe(const ChunkView& chunk) {
    if (listed_.empty()) look_ahead(chunk);
    for (std::size_t begin = 0; begin < chunk.size;) {
        if (in_unit_ == 0) begin_unit();
        const std::size_t end = std::min(chunk.size, begin + UNIT - in_unit_);
        if (recording_) append(chunk, begin, end);
        execute(chunk, begin, end);
        in_unit_ += end - begin;
        begin = end;
        if (in_unit_ == UNIT) end_unit();
    }
    instructions += chunk.size;
}

// Finds which whole units of the chunk make the most accesses, before they begin. Chunks hold whole units but for a run's
// last one, as a rule; one that is in two chunks is not found.
void Recorder::look_ahead(const ChunkView& chunk) {
    std::uint64_t unit = units + (in_unit_ > 0);
    for (std::size_t begin = in_unit_ > 0 ? UNIT - in_unit_ : 0; begin + UNIT <= chunk.size; begin += UNIT)
        take_all.see(unit++, chunk.offset[begin + UNIT] - chunk.offset[begin]);
}

void Recorder::begin_unit() {
    timed_ = signed_(units) || signed_(units + 1);  // a unit that has a signature, and its warm-up
    recording_ = detailed(units);
    if (!recording_) return;
    Piece piece;
    piece.unit = units;
    piece.counted = counts(units);
    piece.first_branch = history_.size();
    if (!after_piece_) {
        Joined gap(statics);
        gap.add(open_);
        gap.add(end_gap());
        piece.gap = gap.take();
        open_ = {};
    }
    pieces.push_back(std::move(piece));
}

void Recorder::end_unit() {
    in_unit_ = 0;
    if (signed_(units)) {
        signature_units.push_back(units);
        signatures.push_back(signature_.take());
        if (signatures.size() > 2 * most_signatures_) thin_signatures();
    } else {
        signature_.take();
    }
    ++units;
    if (recording_) {
        lines_.begin_gap();
        taken_.begin_gap();
        miss_count_ = 0;
        Piece& piece = pieces.back();
        piece.end_branch = history_.size();
        std::sort(piece.near_reads.begin(), piece.near_reads.end());
        if (piece.counted) {
            const std::size_t before = pieces.size() - 2;
            const bool warmed = pieces.size() > 1 && pieces[before].unit + 1 == piece.unit;
            piece.history = history_.of_use(warmed ? pieces[before].first_branch : piece.first_branch);
            drawn_ += drawn(piece.unit);
        }
        if (drawn_ > 2 * capacity_)
            thin();
        else if (take_all.left > TakeAll::MOST)
            recount();
    }
    after_piece_ = recording_ && !pieces.empty() && pieces.back().unit == units - 1;
}

void Recorder::execute(const ChunkView& chunk, std::size_t begin, std::size_t end) {
    constexpr std::size_t NEAR = 12;  // instructions ahead whose rows the host fetches
    constexpr int MISS = 2, FAR_MISS = 3;  // classes of reuse (Signature::data): beyond a first level, and a second
    constexpr std::uint64_t AGO = 4096;    // touches, after which a first level misses a line that it does not hold longer
    std::vector<bool>* const missed = recording_ ? &pieces.back().executed.missed : nullptr;
    std::vector<NearRead>* const near_reads = recording_ ? &pieces.back().near_reads : nullptr;
    const std::uint64_t now = units * UNIT + in_unit_ - begin;  // the number of the chunk's first instruction
    std::int64_t stores = 0;
    const auto touched = [&](std::uint64_t line, bool code, bool misses) {
        if (misses) lines_.miss(line, code);
        if (missed) missed->push_back(misses);
    };
    for (std::size_t k = begin; k < end; ++k) {
        if (k + NEAR < end) {
            __builtin_prefetch(&statics[chunk.id[k + NEAR]]);
            const std::int64_t which = chunk.offset[k + NEAR];
            if (which < chunk.offset[k + NEAR + 1]) lines_.prefetch(chunk.address[which] >> 6);
        }
        const Static& row = statics[chunk.id[k]];
        int code_class = 0, data_class = 0;
        const std::uint64_t last = (row.pc + row.length - 1) >> 6;
        for (std::uint64_t line = row.pc >> 6; line <= last; ++line) {
            if (lines_.touch_same_code(line)) {
                if (missed) missed->push_back(false);
                continue;
            }
            const std::uint64_t distance = lines_.touch_code(line);
            const int reuse = signature_.code(line, distance);
            code_class = std::max(code_class, reuse);
            touched(line, true, reuse > 0 && distance >= AGO);
        }
        for (std::int64_t which = chunk.offset[k]; which < chunk.offset[k + 1]; ++which) {
            const std::uint64_t address = chunk.address[which];
            const bool store = chunk.is_store[which] != 0;
            if (const std::uint64_t size = std::max<int>(chunk.access_size[which], 1); store)
                near_stores_.store(chunk.id[k], address, size, now + k);
            else
                near_stores_.load(chunk.id[k], address, size, now + k, units * UNIT, near_reads);
            const std::uint64_t end_line = (address + std::max<int>(chunk.access_size[which], 1) - 1) >> 6;
            for (std::uint64_t line = address >> 6; line <= end_line; ++line) {
                const int reuse = signature_.data(line, lines_.touch(line, false, store));
                if (!store) data_class = std::max(data_class, reuse);
                touched(line, false, reuse > 0);
                if (reuse >= MISS) {
                    const std::uint64_t place = recording_ ? missed->size() : lines_.now();
                    const Miss miss{line == address >> 6 ? address : line << 6, chunk.id[k], reuse >= FAR_MISS, place};
                    if (recording_)
                        pieces.back().misses.push_back(miss);
                    else
                        miss_ring_[miss_count_++ % MISSES] = miss;
                }
            }
            stores += store;
        }
        bool wrong = false;
        if (row.flags & BRANCH) {
            const std::uint32_t next = chunk.following[k];
            const std::uint64_t target = next < statics.size() ? statics[next].pc : row.pc + row.length;
            const bool taken = target != row.pc + row.length;
            wrong = signature_.branch(row, chunk.id[k], target);
            history_.add({chunk.id[k], next}, taken);
            if (taken && !(row.flags & INDIRECT)) taken_.add({chunk.id[k], next});
            if (wrong) lines_.mispredict();
        }
        if (recording_) pieces.back().executed.mispredicted.push_back(wrong);
        signature_.follow();
        if (timed_) signature_.execute(row, data_class, code_class, wrong);
    }
    signature_.accesses(chunk.offset[end] - chunk.offset[begin], stores);
}

void Recorder::append(const ChunkView& chunk, std::size_t begin, std::size_t end) {
    Executed& into = pieces.back().executed;
    if (into.id.empty()) {
        into.id.reserve(UNIT);
        into.following.reserve(UNIT);
        into.accesses.reserve(UNIT);
    }
    into.id.insert(into.id.end(), chunk.id + begin, chunk.id + end);
    into.following.insert(into.following.end(), chunk.following + begin, chunk.following + end);
    for (std::size_t k = begin; k < end; ++k)
        into.accesses.push_back(static_cast<std::uint32_t>(chunk.offset[k + 1] - chunk.offset[k]));
    const std::int64_t from = chunk.offset[begin], to = chunk.offset[end];
    into.address.insert(into.address.end(), chunk.address + from, chunk.address + to);
    into.size.insert(into.size.end(), chunk.access_size + from, chunk.access_size + to);
    into.is_store.insert(into.is_store.end(), chunk.is_store + from, chunk.is_store + to);
}

// What was touched since the last piece, and the last misses, each behind the touch that it is.
Gap Recorder::end_gap() {
    const auto touched = lines_.end_gap();
    Gap gap;
    gap.taken = taken_.end_gap();
    gap.lines.reserve(touched.size());
    for (const auto& [time, touch] : touched) gap.lines.push_back(touch);
    std::size_t place = 0;
    for (std::uint64_t k = miss_count_ - std::min<std::uint64_t>(miss_count_, MISSES); k < miss_count_; ++k) {
        Miss miss = miss_ring_[k % MISSES];
        while (place < touched.size() && touched[place].first <= miss.place) ++place;
        miss.place = place;
        gap.misses.push_back(miss);
    }
    return gap;
}

// Lets the pieces marked so count; those that neither count nor warm one that does become part of gaps. `next_counts`:
// whether the unit after the last piece does.
void Recorder::dissolve(const std::vector<bool>& counted, bool next_counts) {
    std::vector<Piece> kept;
    Joined gap(statics);
    for (std::size_t k = 0; k < pieces.size(); ++k) {
        Piece& piece = pieces[k];
        const bool last = k + 1 == pieces.size();
        const bool warms = last ? next_counts : counted[k + 1] && pieces[k + 1].unit == piece.unit + 1;
        if (counted[k] || warms) {
            if (!gap.empty()) {
                gap.add(piece.gap);
                piece.gap = gap.take();
            }
            piece.counted = counted[k];
            if (!piece.counted) piece.history = {};
            kept.push_back(std::move(piece));
        } else {
            gap.add(piece.gap);
            gap.add(piece.misses);
            gap.add(piece.executed);
        }
    }
    pieces = std::move(kept);
    open_ = gap.take();
}

void Recorder::thin() {
    std::vector<std::uint64_t> keys;
    for (const Piece& piece : pieces)
        if (drawn(piece.unit)) keys.push_back(key(piece.unit));
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(capacity_), keys.end());
    bound_ = keys[capacity_] - 1;
    recount();
}

// Dissolves pieces whose units count no longer, right behind one.
void Recorder::recount() {
    take_all.left = 0;
    std::vector<bool> counted;
    drawn_ = 0;
    for (const Piece& piece : pieces) {
        counted.push_back(counts(piece.unit));
        drawn_ += drawn(piece.unit);
    }
    dissolve(counted, counts(units));
}

void Recorder::keep(const std::vector<std::uint64_t>& units) {
    std::vector<bool> counted;
    for (const Piece& piece : pieces) counted.push_back(std::binary_search(units.begin(), units.end(), piece.unit));
    dissolve(counted, false);
    std::vector<History> histories;
    for (Piece& piece : pieces) histories.push_back(std::move(piece.history));
    UsefulBranches useful(histories);
    std::uint64_t from = 0;
    for (Piece& piece : pieces) {
        piece.branches = useful.between(from, piece.first_branch);
        from = piece.end_branch;
    }
}

void Recorder::thin_signatures() {
    std::vector<std::uint64_t> keys;
    for (const std::uint64_t unit : signature_units) keys.push_back(key(unit));
    std::nth_element(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(most_signatures_), keys.end());
    signature_bound_ = keys[most_signatures_] - 1;
    std::size_t kept = 0;
    for (std::size_t k = 0; k < signature_units.size(); ++k) {
        if (key(signature_units[k]) > signature_bound_) continue;
        signature_units[kept] = signature_units[k];
        signatures[kept++] = signatures[k];
    }
    signature_units.resize(kept);
    signatures.resize(kept);
}

}  // namespace perfvec
