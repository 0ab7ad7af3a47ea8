// One channel of a DRAM behind gem5's memory controller: banks with open rows, one command after the other.
//
// The controller decides on the next burst when the one before is about to move, and its commands never overtake one
// another: a burst that waits for its bank holds up all that are decided on later. Rows stay open until another row of
// the bank is wanted, or (`closed`) only if a request for the row was already waiting when the controller decided on the
// last burst to it. Writes wait in a queue; when it is nearly full, or half full and nothing is to be read, MIN_WRITES or
// more are written, those to open rows first, and the bus turns around twice.
//
// Times are picoseconds, as in gem5. Requests come in program order: one that arrives before the latest so far finds a
// free slot of the data bus and changes no bank.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "bus.hpp"
#include "main_memory.hpp"

namespace perfvec {

// Nanoseconds and counts, as in uarch/dram.yaml.
struct DramModel {
    double t_cl, t_cwl, t_rcd, t_rp, t_ras, t_rtp, t_wr, t_rtw, t_wtr, t_ccd_long, t_rrd, t_xaw, t_cs, t_refi, t_rfc,
        t_burst;
    int burst_bytes, banks, ranks, bank_groups, row_bytes, write_queue;
    bool closed;
};

class Dram : public MainMemory {
  public:
    using Picoseconds = std::int64_t;

    Dram(const DramModel& model, double frequency_ghz)
        : period_(std::llrint(std::nearbyint(1000 / frequency_ghz))),  // gem5's clocks are whole picoseconds
          cl_(picoseconds(model.t_cl)),
          cwl_(picoseconds(model.t_cwl)),
          rcd_(picoseconds(model.t_rcd)),
          rp_(picoseconds(model.t_rp)),
          ras_(picoseconds(model.t_ras)),
          rtp_(picoseconds(model.t_rtp)),
          wr_(picoseconds(model.t_wr)),
          rtw_(picoseconds(model.t_rtw)),
          wtr_(picoseconds(model.t_wtr)),
          ccd_long_(picoseconds(model.t_ccd_long)),
          rrd_(picoseconds(model.t_rrd)),
          xaw_(picoseconds(model.t_xaw)),
          cs_(picoseconds(model.t_cs)),
          refi_(picoseconds(model.t_refi)),
          rfc_(picoseconds(model.t_rfc)),
          burst_(picoseconds(model.t_burst)),
          bursts_(64 / model.burst_bytes),
          banks_of_rank_(model.banks),
          groups_(model.bank_groups),
          row_lines_(model.row_bytes / 64),
          writes_high_(static_cast<std::int64_t>(HIGH * model.write_queue)),
          writes_low_(static_cast<std::int64_t>(LOW * model.write_queue)),
          write_queue_(model.write_queue),
          closed_(model.closed),
          banks_(model.banks * model.ranks) {
        activations_.fill(PAST);
        writes_.reserve(write_queue_);
    }

    Cycle read(Line line, Cycle cycle) override {
        ++counters.reads;
        return (read_at(line, cycle * period_) + 2 * CONTROLLER + period_ - 1) / period_;
    }

    void write(Line line, Cycle cycle) override {
        ++counters.writes;
        write_at(line, cycle * period_);
    }

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
        for (std::int64_t k = 0; k < bursts_; ++k) ready = burst(line, arrival, false);
        bus_.mark(ready / (burst_ * bursts_));
        return ready;
    }

    void write_at(Line line, Picoseconds arrival) {
        if (std::find(writes_.begin(), writes_.end(), line) != writes_.end()) return;
        if (writes_.size() == write_queue_) write_some(arrival, writes_high_, arrival);
        writes_.push_back(line);
    }

    std::size_t writes_waiting() const { return writes_.size(); }

    static constexpr int MIN_WRITES = 16;            // gem5's min_writes_per_switch
    static constexpr double HIGH = 0.85, LOW = 0.5;  // of the write queue (write_high_thresh_perc, write_low_…)

  private:
    static constexpr int ACTIVATIONS = 4;               // at most so many in t_xaw
    static constexpr Picoseconds CONTROLLER = 10'000;   // gem5's static frontend latency, and its backend's
    static constexpr Picoseconds PAST = -(std::int64_t{1} << 60);

    struct Bank {
        std::int64_t row = -1;                               // the open one
        Picoseconds column = 0, precharge = 0, activate = 0;  // from when on these commands are allowed
        Picoseconds decided = PAST;                          // when a burst was last decided on
        std::int64_t former = -1;                            // the row before,
        Picoseconds changed = PAST;                          // and when another one was decided on
        std::int64_t last_row = -1;                          // the row last opened
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
        std::int64_t done = 0, number, row;
        until = std::max<std::int64_t>(until, 0);
        while (static_cast<std::int64_t>(writes_.size()) > until || done < MIN_WRITES) {
            if (writes_.empty() || (done >= MIN_WRITES && next_burst_ > arrival)) break;
            auto chosen = std::find_if(writes_.begin(), writes_.end(), [&](Line line) {
                return bank_of(line, number, row).row == row;
            });
            if (chosen == writes_.end()) chosen = writes_.begin();
            for (std::int64_t k = 0; k < bursts_; ++k) burst(*chosen, begin, true);
            writes_.erase(chosen);
            ++done;
        }
    }

    // At every multiple of REFI all rows are closed and nothing is activated for RFC.
    void refresh(Picoseconds now) {
        const std::int64_t due = now / refi_;
        if (due <= refreshed_) return;
        refreshed_ = due;
        for (Bank& bank : banks_) {
            bank.row = -1;
            bank.activate = std::max(bank.activate, due * refi_ + rfc_);
        }
    }

    // One burst, decided on as soon as the bus is about to be free; returns when it is over.
    Picoseconds burst(Line line, Picoseconds arrival, bool writing) {
        std::int64_t number, row;
        Bank& bank = bank_of(line, number, row);
        const Picoseconds now = std::max(arrival, next_burst_ - rp_ - rcd_);
        if (bank.row != row && bank.former == row && arrival <= bank.changed) {
            // It was waiting when the row was still open, so it went before what closed the row: row hits come first.
            next_burst_ += burst_;
            ++counters.row_hits;
            return bank.changed + cl_ + burst_;
        }
        if (closed_ && bank.row >= 0 && (arrival > bank.decided || bank.row != row)) {  // closed after the last burst
            bank.activate = std::max(bank.activate, bank.precharge + rp_);
            bank.row = -1;
        }
        ++(bank.row == row ? counters.row_hits : counters.row_misses);
        if (bank.row != row) {
            bank.former = bank.last_row;
            bank.changed = writing ? PAST : now;
            if (bank.row >= 0) bank.activate = std::max(bank.activate, std::max(bank.precharge, now) + rp_);
            const Picoseconds activated =
                std::max({bank.activate, now, activated_ + rrd_, activations_[oldest_] + xaw_});
            activations_[oldest_] = activated;
            oldest_ = (oldest_ + 1) & (ACTIVATIONS - 1);
            activated_ = activated;
            bank.last_row = bank.row = row;
            bank.column = activated + rcd_;
            bank.precharge = activated + ras_;
        }
        const Picoseconds command = std::max({bank.column, next_burst_, now, command_ + gap(number, writing)});
        const Picoseconds over = command + (writing ? cwl_ : cl_) + burst_;
        bank.precharge = std::max(bank.precharge, writing ? over + wr_ : command + rtp_);
        bank.decided = now;
        command_ = command;
        writing_ = writing;
        last_bank_ = number;
        next_burst_ = command + burst_;
        return over;
    }

    // Least time from the last column command to one for `bank`.
    Picoseconds gap(std::int64_t bank, bool writing) const {
        if (writing_ != writing) return writing ? burst_ + rtw_ : burst_ + wtr_ + cwl_;
        if (last_bank_ / banks_of_rank_ != bank / banks_of_rank_) return burst_ + cs_;
        if (groups_ > 0 && last_bank_ % groups_ == bank % groups_) return ccd_long_;
        return burst_;
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
    Picoseconds cl_, cwl_, rcd_, rp_, ras_, rtp_, wr_, rtw_, wtr_, ccd_long_, rrd_, xaw_, cs_, refi_, rfc_, burst_;
    std::int64_t bursts_, banks_of_rank_, groups_, row_lines_, writes_high_, writes_low_;
    std::size_t write_queue_;
    bool closed_;
    std::vector<Bank> banks_;
    std::vector<Line> writes_;  // those that wait
    Bus bus_;
    std::array<Picoseconds, ACTIVATIONS> activations_;  // the latest ones, circular
    int oldest_ = 0;
    Picoseconds next_burst_ = 0, latest_ = PAST, command_ = PAST, activated_ = PAST;
    std::int64_t last_bank_ = 0, refreshed_ = 0;
    bool writing_ = false;
};

}  // namespace perfvec
