// One channel of a DRAM behind gem5's memory controller: banks with open rows, one command after the other.
//
// The controller decides on the next burst when the one before is about to move, and its commands never overtake one
// another: a burst that waits for its bank holds up all that are decided on later. Rows stay open until another row of
// the bank is wanted, or (`closed`) only if a request for the row was already waiting when the controller decided on the
// last burst to it. Writes wait in a queue; when it is nearly full, or half full and nothing is to be read, MIN_WRITES or
// more are written, and the bus turns around twice. Of the writes that wait the first goes whose row is open, or whose bank
// can be made ready without holding up the bus, or is ready first (DRAMInterface::chooseNextFRFCFS). A row is closed after
// MOST_OF_ROW bursts (max_accesses_per_row).
//
// Where bursts interleave (LPDDR5), another bank group's may follow after `t_burst_min`, every second time.
//
// Times are picoseconds, as in gem5. Requests come in program order: one that arrives before the latest so far finds a
// free slot of the data bus and changes no bank.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "bus.hpp"
#include "main_memory.hpp"

namespace perfvec {

// Nanoseconds and counts, as in uarch/dram.yaml.
struct DramModel {
    double t_cl, t_cwl, t_rcd, t_rp, t_ras, t_rtp, t_wr, t_rtw, t_wtr, t_ccd_long, t_rrd, t_xaw, t_cs, t_refi, t_rfc,
        t_burst, t_burst_min, t_burst_max, t_wtr_long, t_rcd_write;
    int burst_bytes, banks, ranks, bank_groups, row_bytes, write_queue;
    bool closed;
};

class Dram : public MainMemory {
  public:
    using Picoseconds = std::int64_t;

    Dram(const DramModel& model, double frequency_ghz)
        : period_(std::llrint(std::floor(1000 / frequency_ghz + 0.5))),  // gem5's clocks are whole picoseconds, halves up
          cl_(picoseconds(model.t_cl)),
          cwl_(picoseconds(model.t_cwl)),
          rcd_(picoseconds(model.t_rcd)),
          rcd_write_(picoseconds(model.t_rcd_write)),
          rp_(picoseconds(model.t_rp)),
          ras_(picoseconds(model.t_ras)),
          rtp_(picoseconds(model.t_rtp)),
          wr_(picoseconds(model.t_wr)),
          rtw_(picoseconds(model.t_rtw)),
          wtr_(picoseconds(model.t_wtr)),
          wtr_long_(picoseconds(model.t_wtr_long)),
          ccd_long_(picoseconds(model.t_ccd_long)),
          rrd_(picoseconds(model.t_rrd)),
          xaw_(picoseconds(model.t_xaw)),
          cs_(picoseconds(model.t_cs)),
          refi_(picoseconds(model.t_refi)),
          rfc_(picoseconds(model.t_rfc)),
          burst_(picoseconds(model.t_burst)),
          burst_min_(picoseconds(model.t_burst_min)),
          burst_max_(picoseconds(model.t_burst_max)),
          between_(burst_),
          bursts_(64 / model.burst_bytes),
          banks_of_rank_(model.banks),
          groups_(model.bank_groups),
          row_lines_(model.row_bytes / 64),
          writes_high_(static_cast<std::int64_t>(HIGH * model.write_queue)),
          writes_low_(static_cast<std::int64_t>(LOW * model.write_queue)),
          write_queue_(model.write_queue),
          closed_(model.closed),
          banks_(model.banks * model.ranks),
          ranks_(model.ranks),
          written_(model.ranks * model.bank_groups, PAST) {
        writes_.reserve(write_queue_);
    }

    Cycle read(Line line, Cycle cycle, bool awaited) override {
        ++counters.reads;
        if (awaited) count_wait(cycle * period_);
        return (read_at(line, cycle * period_) + 2 * CONTROLLER + period_ - 1) / period_;
    }

    void write(Line line, Cycle cycle) override {
        ++counters.writes;
        write_at(line, cycle * period_);
    }

    void set_refresh(Cycle cycle, double passed) override {
        const Picoseconds now = cycle * period_;
        refresh_from_ = now - std::llrint(passed * static_cast<double>(refi_));
        refreshed_ = floor_divided(now - refresh_from_ - rfc_, refi_);  // one that is under way is still to be seen
        waited_ = -1;
        last_awaited_ = PAST;
    }

    double refresh_surplus() const override { return surplus_ / static_cast<double>(period_); }

    // When the line's last data have left the DRAM.
    Picoseconds read_at(Line line, Picoseconds arrival) {
        if (arrival < latest_) return read_late(line, arrival);
        latest_ = arrival;
        refresh(arrival);
        const auto waiting = static_cast<std::int64_t>(writes_.size());
        if (waiting > writes_low_ && arrival > next_burst_)  // nothing was to be read meanwhile
            write_some(next_burst_, writes_low_ - MIN_WRITES, arrival);
        else if (waiting > writes_high_)
            write_some(arrival, writes_high_, arrival);
        Picoseconds ready = arrival;
        for (std::int64_t k = 0; k < bursts_; ++k) ready = burst(line, arrival, false, k == 0);
        bus_.mark(ready / (burst_ * bursts_));
        return ready;
    }

    void write_at(Line line, Picoseconds arrival) {
        if (std::any_of(writes_.begin(), writes_.end(), [line](const Write& write) { return write.line == line; })) return;
        if (writes_.size() == write_queue_) write_some(arrival, writes_high_, arrival);
        Write write{line, 0, 0};
        bank_of(line, write.bank, write.row);
        writes_.push_back(write);
    }

    std::size_t writes_waiting() const { return writes_.size(); }

    static constexpr int MIN_WRITES = 16;            // gem5's min_writes_per_switch
    static constexpr double HIGH = 0.85, LOW = 0.5;  // of the write queue (write_high_thresh_perc, write_low_…)

  private:
    static constexpr int MOST_OF_ROW = 16;              // bursts, then it is closed (max_accesses_per_row)
    static constexpr int LEFT = 8;                      // rows remembered of each bank
    static constexpr int ACTIVATIONS = 4;               // at most so many in t_xaw
    static constexpr Picoseconds CONTROLLER = 10'000;   // gem5's static frontend latency, and its backend's
    static constexpr Picoseconds PAST = -(std::int64_t{1} << 60);

    struct Write {
        Line line;
        std::int64_t bank, row;
    };
    struct Left {  // a row, and when another one was decided on for a read
        std::int64_t row = -1;
        Picoseconds at = PAST;
        int bursts = 0;
    };
    struct Bank {
        std::int64_t row = -1;                               // the open one
        int bursts = 0;                                      // of it so far
        Picoseconds column = 0, precharge = 0, activate = 0;  // from when on these commands are allowed
        Picoseconds decided = PAST;                          // when a burst was last decided on
        std::array<Left, LEFT> left{};                       // rows that were open before, the oldest at `oldest`
        int oldest = 0;
        std::int64_t last_row = -1;                          // the row last opened
    };

    struct Rank {
        std::array<Picoseconds, ACTIVATIONS> activations;  // the latest ones, circular
        int oldest = 0;
        Picoseconds written = PAST;  // when the last write was sent
        Rank() { activations.fill(PAST); }
    };

    static Picoseconds picoseconds(double nanoseconds) { return std::llrint(std::nearbyint(1000 * nanoseconds)); }

    // gem5's RoRaBaCoCh.
    Bank& bank_of(Line line, std::int64_t& number, std::int64_t& row) {
        const auto banks = static_cast<std::int64_t>(banks_.size());
        const std::int64_t whole = floor_divided(line, row_lines_);
        row = floor_divided(whole, banks);
        number = whole - row * banks;
        return banks_[number];
    }

    // Writes from `begin` on until no more than `until` wait; after MIN_WRITES a read that is here goes first.
    void write_some(Picoseconds begin, std::int64_t until, Picoseconds arrival) {
        std::int64_t done = 0;
        until = std::max<std::int64_t>(until, 0);
        while (static_cast<std::int64_t>(writes_.size()) > until || done < MIN_WRITES) {
            if (writes_.empty() || (done >= MIN_WRITES && next_burst_ - rp_ - rcd_ >= arrival)) break;
            const auto chosen = writes_.begin() + choose_write(decision(begin));
            const Write write = *chosen;
            for (std::int64_t k = 0; k < bursts_; ++k) burst(write.line, begin, true, k == 0);
            writes_.erase(chosen);
            close_after(write);
            ++done;
        }
    }

    // When what comes next is decided on, not before `arrival`: when the bus will be free as soon as a row can be opened.
    Picoseconds decision(Picoseconds arrival) const { return std::max(arrival, next_burst_ - rp_ - rcd_); }

    // From when on a bank's column command is allowed, as far as the bank and what was sent last are concerned.
    Picoseconds column_from(std::int64_t bank) const {
        return std::max(banks_[bank].column, command_ + gap(bank, true));
    }

    // Picks the write that goes next.
    std::ptrdiff_t choose_write(Picoseconds now) const {
        const Picoseconds seamless = std::max(writing_ ? next_burst_ : command_ + burst_ + rtw_, now);
        std::ptrdiff_t open = -1;
        for (std::size_t k = 0; k < writes_.size(); ++k) {
            if (banks_[writes_[k].bank].row != writes_[k].row) continue;
            if (column_from(writes_[k].bank) <= seamless) return static_cast<std::ptrdiff_t>(k);
            if (open < 0) open = static_cast<std::ptrdiff_t>(k);
        }
        // None to an open row can go at once: the bank that is ready first.
        std::uint64_t waiting = 0, first = 0;
        for (const Write& write : writes_) waiting |= std::uint64_t{1} << write.bank;
        Picoseconds earliest = std::numeric_limits<Picoseconds>::max();
        bool any_seamless = false, hidden = false;
        for (std::size_t number = 0; number < banks_.size(); ++number) {
            if (!(waiting >> number & 1)) continue;
            const Bank& bank = banks_[number];
            const Picoseconds activate =
                bank.row < 0 ? std::max(bank.activate, now) : std::max(bank.precharge, now) + rp_;
            const bool at_once =
                std::max(column_from(static_cast<std::int64_t>(number)), activate + rcd_write_) <= seamless;
            if (!at_once && (any_seamless || activate > earliest)) continue;
            if (!any_seamless && (at_once || activate < earliest)) first = 0;
            any_seamless |= at_once;
            hidden = activate <= std::max(seamless - rcd_write_, now);
            first |= std::uint64_t{1} << number;
            earliest = activate;
        }
        if (open >= 0 && !hidden) return open;
        for (std::size_t k = 0; k < writes_.size(); ++k)
            if (banks_[writes_[k].bank].row != writes_[k].row && (first >> writes_[k].bank & 1))
                return static_cast<std::ptrdiff_t>(k);
        return std::max<std::ptrdiff_t>(open, 0);
    }

    // After a write its row is closed where no other one waits for it and, unless rows are closed anyway, one for another
    // row of the bank does.
    void close_after(const Write& write) {
        Bank& bank = banks_[write.bank];
        bool conflict = closed_;
        for (const Write& other : writes_) {
            if (other.bank != write.bank) continue;
            if (other.row == write.row) return;
            conflict = true;
        }
        if (conflict && bank.row == write.row) close(bank);
    }

    void close(Bank& bank) {
        bank.activate = std::max(bank.activate, bank.precharge + rp_);
        bank.row = -1;
    }

    // At every multiple of REFI all rows are closed and nothing is activated for RFC.
    void refresh(Picoseconds now) {
        const std::int64_t due = floor_divided(now - refresh_from_, refi_);
        if (due <= refreshed_) return;
        refreshed_ = due;
        for (Bank& bank : banks_) {
            bank.row = -1;
            bank.activate = std::max(bank.activate, refresh_from_ + due * refi_ + rfc_);
        }
    }

    // The first read after a refresh began waits for the rest of RFC. Its expectation: the refresh may have begun at any
    // time since the read before it, within RFC, alike.
    void count_wait(Picoseconds arrival) {
        if (arrival < last_awaited_) return;
        const auto since = static_cast<double>(std::min(arrival - last_awaited_, rfc_));
        surplus_ -= since * (static_cast<double>(rfc_) - since / 2) / static_cast<double>(refi_);
        last_awaited_ = arrival;
        const std::int64_t due = floor_divided(arrival - refresh_from_, refi_);
        if (due == waited_) return;
        waited_ = due;
        surplus_ += static_cast<double>(std::max<Picoseconds>(refresh_from_ + due * refi_ + rfc_ - arrival, 0));
    }

    // One burst, decided on as soon as the bus is about to be free; returns when it is over. The first of a line counts.
    Picoseconds burst(Line line, Picoseconds arrival, bool writing, bool first) {
        std::int64_t number, row;
        Bank& bank = bank_of(line, number, row);
        const Picoseconds now = decision(arrival);
        if (bank.row != row && !writing) {
            for (int k = 0; k < LEFT; ++k) {
                Left& left = bank.left[(bank.oldest + k) & (LEFT - 1)];
                if (left.row != row || arrival > left.at || left.bursts >= MOST_OF_ROW) continue;
                // It was waiting when the row was still open, so it went before what closed the row: row hits come first.
                next_burst_ += burst_;
                ++left.bursts;
                counters.row_hits += first;
                bank.precharge += burst_;
                return left.at + cl_ + burst_;
            }
        }
        if (closed_ && bank.row >= 0 && (arrival > bank.decided || bank.row != row))
            close(bank);  // after the last burst
        (bank.row == row ? counters.row_hits : counters.row_misses) += first;
        if (bank.row != row) {
            bank.left[bank.oldest] = {bank.last_row, writing ? PAST : now, bank.bursts};
            bank.oldest = (bank.oldest + 1) & (LEFT - 1);
            if (bank.row >= 0) bank.activate = std::max(bank.activate, std::max(bank.precharge, now) + rp_);
            const Picoseconds activated = activate(number, std::max(bank.activate, now));
            bank.last_row = bank.row = row;
            bank.bursts = 0;
            bank.column = activated + (writing ? rcd_write_ : rcd_);
            bank.precharge = activated + ras_;
        }
        Picoseconds command = std::max({bank.column, next_burst_, now, command_ + gap(number, writing)});
        Rank& rank = ranks_[number / banks_of_rank_];
        if (!writing) command = std::max(command, rank.written + cwl_ + burst_ + wtr_);
        if (groups_ > 0 && !writing) command = std::max(command, written_[group_of(number)] + cwl_ + burst_max_ + wtr_long_);
        Picoseconds between = burst_min_;
        if (burst_min_ < burst_) {
            if (command == command_ + burst_min_)
                between = burst_;
            else
                command = std::max(command, command_ + burst_);
        }
        const Picoseconds over = command + (writing ? cwl_ : cl_) + burst_;
        bank.precharge = std::max(bank.precharge, writing ? over + wr_ : command + rtp_);
        bank.decided = now;
        command_ = command;
        if (writing) rank.written = command;
        if (groups_ > 0 && writing) written_[group_of(number)] = command;
        writing_ = writing;
        last_bank_ = number;
        between_ = between;
        next_burst_ = command + between;
        if (++bank.bursts == MOST_OF_ROW) close(bank);
        return over;
    }

    // Activates a bank at `earliest` or, if others of its rank were just activated, later.
    Picoseconds activate(std::int64_t number, Picoseconds earliest) {
        Rank& rank = ranks_[number / banks_of_rank_];
        const Picoseconds last = rank.activations[(rank.oldest + ACTIVATIONS - 1) & (ACTIVATIONS - 1)];
        const Picoseconds activated = std::max({earliest, last + rrd_, rank.activations[rank.oldest] + xaw_});
        rank.activations[rank.oldest] = activated;
        rank.oldest = (rank.oldest + 1) & (ACTIVATIONS - 1);
        return activated;
    }

    std::int64_t group_of(std::int64_t bank) const { return bank / banks_of_rank_ * groups_ + bank % groups_; }

    // Least time from the last column command to one for `bank`.
    Picoseconds gap(std::int64_t bank, bool writing) const {
        if (last_bank_ / banks_of_rank_ != bank / banks_of_rank_) return burst_ + cs_;
        const bool same = groups_ > 0 && last_bank_ % groups_ == bank % groups_;
        if (!writing_ && writing) return same ? std::max(ccd_long_, burst_max_ + rtw_) : burst_ + rtw_;
        return same ? ccd_long_ : between_;
    }

    // A read that should have come before others that are done.
    Picoseconds read_late(Line line, Picoseconds arrival) {
        std::int64_t number, row;
        const Bank& bank = bank_of(line, number, row);
        ++(bank.row == row ? counters.row_hits : counters.row_misses);
        Picoseconds wait = 0;
        if (bank.row != row) wait = closed_ || bank.row < 0 ? rcd_ : rp_ + rcd_;
        const Picoseconds length = burst_ * bursts_;
        const Picoseconds over = arrival + wait + cl_ + length;
        return std::max(over, bus_.take(over / length) * length);
    }

    Picoseconds period_;
    Picoseconds cl_, cwl_, rcd_, rcd_write_, rp_, ras_, rtp_, wr_, rtw_, wtr_, wtr_long_, ccd_long_, rrd_, xaw_, cs_,
        refi_, rfc_, burst_, burst_min_, burst_max_;
    Picoseconds between_;  // from the last burst to one of another bank group
    std::int64_t bursts_, banks_of_rank_, groups_, row_lines_, writes_high_, writes_low_;
    std::size_t write_queue_;
    bool closed_;
    std::vector<Bank> banks_;
    std::vector<Rank> ranks_;
    std::vector<Picoseconds> written_;  // when each bank group's last write was sent
    std::vector<Write> writes_;  // those that wait
    Bus bus_;
    Picoseconds next_burst_ = 0, latest_ = PAST, command_ = PAST;
    Picoseconds refresh_from_ = 0;  // when an interval began
    std::int64_t last_bank_ = 0, refreshed_ = 0;  // intervals since then
    std::int64_t waited_ = 0;                     // of these, the last one in which a read was awaited
    Picoseconds last_awaited_ = PAST;
    double surplus_ = 0;  // picoseconds
    bool writing_ = false;
};

}  // namespace perfvec
