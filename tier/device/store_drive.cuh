// DriveStore: pages on NVMe drives, by queues that GPU threads write. Page p is
// on drive p % drives; slots of T2 are the payload buffers.
#pragma once

#include "bamio.cuh"
#include "context.cuh"

namespace tritier {
namespace tier {

struct DriveStore {
    const Engine* engine;
    uint32_t user;

    TRITIER_DEVICE static DriveStore open(const Engine* e, uint32_t user) {
        return DriveStore{e, user};
    }
    // layout is loaded only where a page moves: most accesses need none of it.
    TRITIER_DEVICE const DriveLayout* layout() const { return reinterpret_cast<const DriveLayout*>(engine->store); }

    template <class G>
    TRITIER_SLOW uint32_t transfer(const G& g, uint32_t page, uint32_t slot, uint32_t opcode) const {
        const DriveLayout* d = layout();
        const bamio::Engine* e = reinterpret_cast<const bamio::Engine*>(d->bamio);
        uint32_t drive = page % d->drives;
        uint64_t lba = d->base_lba + static_cast<uint64_t>(page / d->drives) * d->blocks;
        bamio::Port port = bamio::open_port(e, bamio::queue_of(e, drive, user));
        if (from_leader(g, g.leads() && hopeless(port) ? 1u : 0u) != 0) {
            return kNotSent;
        }
        return bamio::transfer(g, port, bamio::open_medium(e, drive), opcode, bamio::Span{lba, d->blocks, slot, 0});
    }
    // hopeless says that a command would end without an answer. It is not sent, since
    // that would cost its slot: see lost. Only batches look at the host's word, which
    // is far away.
    TRITIER_DEVICE bool hopeless(const bamio::Port& port) const {
        return load_relaxed_gpu(&port.q->failed) != bamio::kOk || (engine->give_up != 0 && stop_asked(engine));
    }
    template <class G>
    TRITIER_DEVICE uint32_t read(const G& g, uint32_t page, uint32_t slot) const {
        return transfer(g, page, slot, bamio::kRead);
    }
    // begin sends a command that moves the whole page, if the queue takes it at once, and end
    // waits for its result.
    template <class G>
    TRITIER_SLOW bool begin(const G& g, uint32_t page, uint32_t slot, uint32_t opcode, Reading* r) const {
        const DriveLayout* d = layout();
        const bamio::Engine* e = reinterpret_cast<const bamio::Engine*>(d->bamio);
        uint32_t drive = page % d->drives;
        uint64_t lba = d->base_lba + static_cast<uint64_t>(page / d->drives) * d->blocks;
        bamio::Port port = bamio::open_port(e, bamio::queue_of(e, drive, user));
        bamio::Command c;
        bool want = g.leads() && !hopeless(port) && bamio::make_transfer(bamio::open_medium(e, drive), opcode, bamio::Span{lba, d->blocks, slot, 0}, &c) == bamio::kOk;
        bamio::Handle h{0, 0};
        uint32_t sent = bamio::try_submit(g, port, c, want, &h) ? 1 : 0;
        if (from_leader(g, sent) == 0) {
            return false; // or the page takes more than one command
        }
        r->state = kUnderWay;
        r->page = page;
        r->index = h.index;
        r->word = h.word;
        return true;
    }
    template <class G>
    TRITIER_SLOW void end(const G& g, Reading* r) const {
        const bamio::Engine* e = reinterpret_cast<const bamio::Engine*>(layout()->bamio);
        bamio::Port port = bamio::open_port(e, bamio::queue_of(e, r->page % layout()->drives, user));
        // Not another whole deadline for what was sent before something that has timed out.
        bamio::Watch watch = bamio::Watch::start();
        uint64_t since = watch.begun - r->begun, most = port.deadline_ns / 8 * 7;
        watch.begun -= since < most ? since : most;
        r->status = from_leader(g, bamio::wait(g, port, bamio::Handle{r->index, r->word}, g.leads(), watch));
        r->state = kEnded;
    }
    template <class G>
    TRITIER_DEVICE bool begin_read(const G& g, uint32_t page, uint32_t slot, Reading* r) const {
        return begin(g, page, slot, bamio::kRead, r);
    }
    template <class G>
    TRITIER_DEVICE void end_read(const G& g, Reading* r) const {
        end(g, r);
    }
    // write: while r is under way it has a command id. Were every id of a queue such a read's,
    // whose owner waits for one to write, nobody would get on: who does not get one at once
    // takes the result of its read first.
    template <class G>
    TRITIER_DEVICE uint32_t write(const G& g, uint32_t page, uint32_t slot, Reading* r = nullptr) const {
        if (r != nullptr && r->state == kUnderWay) {
            Reading w{};
            w.begun = globaltimer();
            if (begin(g, page, slot, bamio::kWrite, &w)) {
                end(g, &w);
                return w.status;
            }
            end(g, r);
        }
        return transfer(g, page, slot, bamio::kWrite);
    }
    template <class G>
    TRITIER_DEVICE uint32_t flush(const G& g) const {
        const bamio::Engine* e = reinterpret_cast<const bamio::Engine*>(layout()->bamio);
        uint32_t status = bamio::kOk;
        for (uint32_t drive = 0; drive < layout()->drives; drive++) {
            uint32_t one = bamio::flush(g, bamio::open_port(e, bamio::queue_of(e, drive, user)));
            status = status == bamio::kOk ? one : status;
        }
        return status;
    }
    // held_by and settled: a queue of bamio's is settled when all its commands have ended
    // that somebody has given up on.
    TRITIER_DEVICE uint32_t held_by(uint32_t page) const {
        const DriveLayout* d = layout();
        return bamio::queue_of(reinterpret_cast<const bamio::Engine*>(d->bamio), page % d->drives, user);
    }
    TRITIER_SLOW bool settled(uint32_t queue) const {
        bamio::Port port = bamio::open_port(reinterpret_cast<const bamio::Engine*>(layout()->bamio), queue);
        if (load_relaxed_gpu(&port.q->failed) == bamio::kStopped) {
            return false; // bamio.Engine.Retire has given the queue's memory back
        }
        bamio::poll(Solo{}, port);
        for (uint32_t i = 0; i < port.cid_count; i++) {
            if ((load_acquire_gpu(&port.cids[i].word) & 3) == bamio::kAbandoned) {
                return false;
            }
        }
        return true;
    }
    // After these the drive may still read or write the slot, until it was reset.
    TRITIER_DEVICE bool lost(uint32_t status) const {
        return bamio::left_behind(status);
    }
};

} // namespace tier
} // namespace tritier
