// What the host sets up for the GPU-orchestrated engine and device code uses:
// plain structs without pointers, of the same layout under nvcc, clang, g++ and
// in Go (tier/layout), which is checked against the exported constants.
//
// Addresses are 64-bit numbers as the GPU uses them. Everything is in GPU memory
// except what says pinned: host memory that both sides reach.
//
// Tiers: T1 is frames of GPU memory, T2 slots of pinned memory, T3 a store. The
// logical size of T2 (t2_frames) is what the policy sees. There are more slots
// than that: the spare ones are the buffers through which pages travel between
// T1 and T3, and what a victim is put into while the page that takes its frame
// still lies in its own slot.
#pragma once

#include "tritier.cuh"

namespace tritier {
namespace tier {

constexpr uint32_t kTierVersion = 5;

// How T1's victim is found. Both go round the frames by one hand.
enum : uint32_t { kT1Clock = 0, kT1Fifo = 1 };

// Who decides a victim's fate.
enum : uint32_t { kBypass = 0, kTierOrder = 1, kRandom = 2, kGmtReuse = 3 };

// What an access does to its page: the numbers of tier.Op.
enum : uint32_t { kReadOp = 0, kWriteOp = 1, kOverwriteOp = 2, kPrefetchOp = 3 };

// What an operation ends with, beside a store's own status (bamio's numbers:
// 15 bits of a completion, kTimeout, kStopped ...). All are below 2^26.
enum : uint32_t {
    kTierOk = 0,
    kWaitTimeout = 0x10000,   // a wait took longer than deadline_ns; the same number as bamio's kTimeout
    kNoPlace = 0x80000,       // no place in a drive's queue within deadline_ns; the same number as bamio's kBusy
    kWaitStopped = 0x50000,   // the host asked kernels to end; the same number as bamio's kStopped
    kAllPinned = 0x100000,    // every frame of T1 is pinned: Hot.frames_needed says how many would do
    kNoSlot = 0x110000,       // no spare slot became free within deadline_ns
    kTooManyPins = 0x120000,  // more pins on one page than its entry can count
    kOutOfRange = 0x130000,   // an index outside of the array
    kBadCall = 0x140000,      // arguments that no call may have
    kBroken = 0x150000,       // an invariant does not hold: a defect of this code, or memory overwritten
    kNotSent = 0x160000,      // the drive was not asked: its queue has failed before, or the batch was given up
    kFenced = 0x170000,       // a write of the page that nobody waited for may still be carried out: see fence.cuh
    kMoveLost = 0x180000,     // a copy that the CPU began for the page was not answered: see move.cuh
    kWriteBack = 0x200000,    // added to a store's status: a victim could not be written back and is where it was
};

constexpr uint32_t kNone = 0xffffffffu;    // no frame, slot or page
constexpr uint32_t kFreeMark = 1u << 31;   // in an owner word: free, the rest is the next free one
constexpr uint32_t kCopyMark = 1u << 30;   // in a slot's owner word that is not free: the page is in T1, this is its clean copy
constexpr uint32_t kMaxPage = (1u << 30) - 1;
constexpr uint32_t kMaxLocation = (1u << 26) - 1;
constexpr uint32_t kStripes = 128; // of the virtual time, about as many as a GPU has multiprocessors

// Stripe is one share of the virtual time, on a line of its own: the L2 cache adds to
// one line some 200 million times a second, which hits of several multiprocessors exceed.
// An access adds 1 to one of the two: virtual time is the sum of all.
struct alignas(128) Stripe {
    uint64_t hits; // found in T1 at once
    uint64_t slow; // all others: each ends in one of Counts
    uint64_t reserved[14];
};

// Counts are what tier.Counters has, and the bytes that each edge moved.
struct alignas(128) Counts {
    uint64_t late_hits; // found in T1 after a look at the slow path; T1 hits are these and Stripe.hits
    uint64_t delayed;   // of these, those that waited for a fill
    uint64_t t2_hits;
    uint64_t t3_fetches;
    uint64_t overwrites;
    uint64_t errors;
    uint64_t evictions;
    uint64_t keeps;
    uint64_t demotions;
    uint64_t bypasses;
    uint64_t t2_evictions;
    uint64_t writebacks;
    uint64_t prefetches;
    uint64_t prefetch_reads;
    uint64_t prefetch_errors;
    uint64_t flushed; // pages that flush wrote: not in writebacks
    uint64_t crowded; // demotions that became bypasses because T2 or its spare slots were all in motion
    uint64_t lost_slots;      // times that a slot was put aside, since after a time-out a drive may still use it
    uint64_t dropped_samples; // sampled accesses that the CPU was too slow for
    uint64_t bytes_t3_read;   // T3 -> T1
    uint64_t bytes_t3_write;  // T1 or T2 -> T3
    uint64_t bytes_promoted;  // T2 -> T1
    uint64_t bytes_demoted;   // T1 -> T2
    uint64_t copies_saved;    // of the demotions, those of pages whose clean copy was still in T2: no bytes moved
    uint64_t retaken_slots;   // of these, slots that were taken back, since the drive is done with them
    uint64_t lost_records;    // accesses that should have been recorded, and the CPU was too slow for
    uint64_t compactions;     // of T2's order: everybody who puts a page into it waits
    uint64_t compaction_ns;   // that these took, waiting for the others included
    uint64_t granted;         // evictions that gmt-reuse sent to T2 though bound for T3, against starvation
    uint64_t predicted[4];    // evictions by the class that gmt-reuse predicted, unknown last
    uint64_t judged[4][3];    // evictions whose page missed again, by predicted and by right class
};

// The edges between tiers: the places of tier/host's EdgeNames.
enum : uint32_t { kT3ToT2 = 0, kT2ToT3 = 1, kT1ToT2 = 2, kT2ToT1 = 3 };
constexpr uint32_t kEdges = 4;
constexpr uint32_t kBuckets = 40;
constexpr uint32_t kMoveStripes = 16;

// Moves counts pages that have crossed an edge by how long each took: bucket i those of
// 2^(i-1) to 2^i ns, the last all longer. There are several: a count is the sum of all.
struct alignas(128) Moves {
    uint64_t pages[kEdges][kBuckets];
};

// SlotStack is one stack of free slots, on a line of its own. There are as many as
// stripes of the virtual time, each for its share of the groups: a compare-and-swap on
// one word serves some hundred thousand of them a second, whoever asks.
struct alignas(128) SlotStack {
    uint64_t head; // tag in the high half, first free slot in the low one
};

// Moves between a frame and a slot: which way, and by whom or why not by request.
enum : uint32_t { kToDevice = 0, kToHost = 1 };
enum : uint32_t {
    kByKernel = 0,     // by the warp, as the host has chosen
    kByCopyEngine = 1, // by request
    kRingFull = 2,     // by the warp: there was no place in the ring
    kNotTaken = 3,     // by the warp: the CPU had not begun in time
    kRefused = 4,      // by the warp: the CPU could not
    kUnanswered = 5,   // begun by the CPU, which did not answer: kMoveLost
};
constexpr uint32_t kWays = 6;
constexpr uint32_t kMoveRequest = 1; // kind of a request to device; + 1 to host. Arguments: frame, slot, bytes

// Mover says how pages move between frames and slots, and counts it.
struct alignas(128) Mover {
    uint64_t bamio;          // bamio::Engine whose requests the CPU serves
    uint64_t patience_ns;    // for the CPU to begin
    uint64_t over;           // pinned uint64_t: no copy of requests below this number is in flight any more
    uint32_t by_request[2];  // by direction: 0 if warps move pages
    alignas(128) uint64_t pages[2][kWays];
};

// Hot is the words that many warps change, on lines of their own.
struct alignas(128) Hot {
    alignas(128) uint64_t hand;        // of T1: frames looked at so far; the next is hand % frames
    alignas(128) uint64_t free_frames; // stack: tag in the high half, first free frame in the low one
    uint32_t used_frames;              // frames that were ever used
    uint32_t starved;                  // groups that have found all frames pinned and try on
    uint32_t frames_needed;            // most frames that were pinned or wanted when kAllPinned came up
    uint64_t lost_frames;              // stack, as free_frames: copies that nobody waits for may still write them
    uint64_t lost_moves;               // the latest of their requests
    alignas(128) uint32_t slot_hint;   // a stack that had a free slot when its finder's own had none
    alignas(128) uint32_t spares_taken; // by groups that bring a page or flush one, at most slots - t2_frames
    alignas(128) uint64_t lost_slots;  // stack, as free_frames, of slots put aside: their slot_order says which queue may still use them
    alignas(128) uint32_t t2_used;     // places of T2's logical size that are taken
    uint32_t t2_extra;                 // of these, those beyond that size: pages whose move to T1 was lost
    alignas(128) uint64_t log_head;    // of T2's order
    alignas(128) uint64_t log_tail;
    alignas(128) uint32_t log_gate;    // users of the log; bit 31: it is being compacted
    alignas(128) uint64_t first_error; // status << 32 | page of the first error; 0: none
    alignas(128) uint64_t sample_tail; // samples sent
    uint64_t sample_taken;             // of these, taken by the CPU, as last seen
    uint64_t sample_gate;              // parity: who sends this many waits for the CPU
    uint64_t params_version;           // trusted fits taken over; ReuseState.params[version % 2]
    uint32_t params_lock;
    alignas(128) uint64_t starve_at;   // evictions that the anti-starvation rule has seen
    uint32_t starve_t3;                // of its window, bound for T3
    uint32_t starve_second;            // T3-bound victims while it was in force
    alignas(128) uint64_t record_tail; // accesses recorded
    uint64_t record_taken;             // of these, taken by the CPU, as last seen
    uint64_t record_stuck;             // 1 + record_taken where somebody has waited for the CPU in vain
    SlotStack free_slots[kStripes];
};

// ReuseParams is placement.ReuseParams.
struct ReuseParams {
    uint64_t version;
    double slope;
    double offset;
    uint64_t direct;
    uint64_t t1;
    uint64_t t1_t2;
    uint64_t short_below;
    uint64_t medium_below;
    uint64_t seed;
    uint64_t first_below;
    uint32_t window;
    uint32_t starve_above;
};

// ReusePage is placement's record of a page.
struct ReusePage {
    uint64_t evicted_at;
    uint64_t history;
};

// ReuseState is gmt-reuse's parameters as the GPU has taken them over.
struct alignas(128) ReuseState {
    ReuseParams params[2];
};

// Sample is an access to a sampled page, in pinned memory. mark, written last,
// is the low half of the sample's number + 1.
struct Sample {
    uint64_t now;
    uint32_t page;
    uint32_t mark;
};

// Mailbox is what the CPU tells the GPU, in pinned memory.
struct alignas(128) Mailbox {
    uint64_t taken;   // samples taken, in order
    uint64_t gate;    // parity: whoever sends sample number gate waits until it was taken; all ones: nobody
    uint64_t version; // trusted fits: params[version % 2] is in force
    uint64_t reserved;
    ReuseParams params[2];
};

// RecordBox is what the CPU tells the GPU of its ring of records, in pinned memory.
struct alignas(128) RecordBox {
    uint64_t taken; // records taken, in order
};

// What an Event tells of: a move over an edge, by the edge's number, or what moves belong to.
enum : uint32_t { kMissEvent = 4, kFlushEvent = 5 };

// Event is a move that has ended, in pinned memory; mark, written last, is the low half of
// its place + 1. what is the kind, in 4 bits, and from these bits on:
enum : uint32_t { kEventOp = 4, kEventFailed = 6, kEventStripe = 7, kEventSM = 16 };
struct Event {
    uint64_t begun; // globaltimer
    uint64_t ended;
    uint32_t page;
    uint32_t number; // of the miss or flushed page that it belongs to
    uint32_t what;
    uint32_t mark;
};

// EventBox is what the CPU tells the GPU of its ring of events, in pinned memory.
struct alignas(128) EventBox {
    uint64_t taken; // events taken, in order
    uint64_t clock; // globaltimer, for the host
};

// EventLog is the ring of events: what changes, then what the host sets up.
struct alignas(128) EventLog {
    uint64_t tail;     // events put into the ring
    uint64_t taken;    // of these, taken by the CPU, as last seen
    uint64_t begun;    // misses and flushed pages, told of or not
    uint64_t left_out; // of those to be told of, the ones that there was no room for
    uint64_t cut;      // events of the others that there was no room for
    alignas(128) uint64_t events; // pinned: Event[count]
    uint64_t box;   // pinned: EventBox
    uint32_t count; // a power of two
    uint32_t room;  // count less as many as there are threads
    uint32_t every; // one in so many misses is told of
};

// Engine is what kernels get, by address. The host fills it and does not change
// it while kernels run.
struct alignas(64) Engine {
    uint32_t version; // kTierVersion
    uint32_t page_shift;
    uint32_t t1_policy;
    uint32_t placer;

    uint64_t pages;
    uint32_t frames;    // of T1
    uint32_t t2_frames; // logical size of T2; 0: no T2
    uint32_t slots;     // t2_frames and the spare ones, at least one
    uint32_t log_size;  // of T2's order: at least 2, and 2 * t2_frames

    uint64_t entries;      // uint64_t[pages + 1]: the last is no page, see ArrayRef.nowhere
    uint64_t reuse;        // ReusePage[pages], gmt-reuse only
    uint64_t frame_owner;  // uint32_t[frames]: page, or kFreeMark and the next free one
    uint64_t frame_memory; // frames << page_shift bytes, aligned to a page
    uint64_t slot_owner;   // uint32_t[slots]
    uint64_t slot_order;   // uint32_t[slots]: place in the log, 0: in none
    uint64_t slot_memory;  // pinned: slots << page_shift bytes
    uint64_t log;          // uint32_t[log_size]
    uint64_t stripes;      // Stripe[kStripes]
    uint64_t counts;       // Counts
    uint64_t hot;          // Hot
    uint64_t reuse_state;  // ReuseState, gmt-reuse only
    uint64_t starve_bits;  // uint32_t[(window + 31) / 32], gmt-reuse only
    uint64_t samples;      // pinned: Sample[sample_count], gmt-reuse only
    uint64_t mailbox;      // pinned: Mailbox, gmt-reuse only
    uint32_t sample_count; // a power of two
    uint32_t parity;       // 1: refreshed parameters take effect at fixed virtual times

    uint64_t seed;           // of the placer's draws
    uint64_t random_below;   // random: a draw of 53 bits below it is T2
    uint64_t deadline_ns;    // of one wait
    uint64_t pin_deadline_ns; // for a frame while all are pinned; below deadline_ns
    uint64_t stop;           // pinned uint32_t: not 0 asks kernels to end; or 0
    uint64_t store;          // the store's own block, by its type
    uint64_t give_up;        // 1: the first wait in vain sets stop, so that the rest of a batch fails at once

    uint64_t records;        // pinned: uint64_t[record_count]; 0: nothing is recorded
    uint64_t record_box;     // pinned: RecordBox
    uint32_t record_count;   // a power of two
    uint32_t record_room;    // record_count less as many as there are threads
    uint64_t record_wait_ns; // of one wait for the CPU
    uint64_t recorded;       // bitmap of the pages whose accesses are recorded; 0: of those that are marked as sampled, all
    uint64_t observed;       // of those that the placer observes, likewise

    uint64_t copies; // uint32_t[frames]: slot with the clean copy of the frame's page; 0: no page leaves one

    uint64_t fenced; // uint32_t[pages / 32 + 1]: bitmap of the pages that have a fence
    uint64_t fences; // uint64_t[slots]: queue << 32 | page + 1 of a write from the slot that was lost; 0: none
    uint64_t moves;  // Moves[kMoveStripes]
    uint64_t events; // EventLog; 0: nobody is told of moves
    uint64_t mover;  // Mover; 0: warps move pages, and nobody counts how
};

// ArrayRef is an array as kernels get it, by value: a C ABI. The host fills it. Not
// aligned to more than 16: parameters of sm_90 start at no multiple of 32, so that a
// packed block of parameters would have a gap that no rule of C explains.
struct alignas(16) ArrayRef {
    uint32_t version; // kTierVersion
    uint8_t element_shift;
    uint8_t page_shift;
    uint16_t flags; // kTouches; bit 15 is never set
    uint64_t engine;
    uint64_t entries;      // Engine.entries, frame_memory and stripes, to save loads
    uint64_t frame_memory;
    uint32_t first_page;
    uint32_t nowhere; // a page that has an entry, never in T1: where indices that are none are looked for
    uint64_t length;  // elements
    uint64_t name;   // hash of the array's name
    uint64_t stripes;
};

constexpr uint16_t kTouches = 1; // in ArrayRef.flags: T1's order is told of hits

// DriveLayout is the block of DriveStore: pages striped over bamio's drives,
// whose payload buffers are the slots of T2.
struct alignas(64) DriveLayout {
    uint64_t bamio;    // bamio::Engine
    uint64_t base_lba; // of page 0, on each drive
    uint32_t drives;
    uint32_t blocks; // of a page
};

} // namespace tier
} // namespace tritier
