package devicetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tritier/tritier/internal/devicerig"
)

// mutant is a devicerig.Mutant in short.
type mutant struct {
	name     string
	file     string
	old, new string
	build    build
	args     string
}

const (
	tight    = "deadline=8000 pin_deadline=7000 frames=2 t2=2 spares=2 placer=1 groups=6 rounds=250 interrupts=6 flush=4"
	single   = "deadline=8000 pin_deadline=7000 frames=1 t2=1 spares=1 placer=1 groups=6 rounds=150 interrupts=6 flush=4"
	faults   = tight + " fail_reads=4 fail_writes=4"
	warps    = "deadline=8000 pin_deadline=7000 frames=2 t2=2 spares=2 placer=1 groups=3 lanes=4 rounds=60 flush=4"
	little   = "deadline=8000 pin_deadline=7000 pages=40 frames=2 t2=12 spares=2 placer=1 log=16 groups=6 rounds=300 interrupts=10"
	narrow   = "deadline=8000 pin_deadline=7000 frames=2 t2=1 spares=4 placer=1 log=2 groups=8 rounds=400 interrupts=2 flush=4"
	alone    = "alone=1 deadline=9000 pin_deadline=8000 frames=6 t2=2 spares=3 placer=1 groups=4 rounds=400 interrupts=9"
	late     = "deadline=900 pin_deadline=800 frames=3 t2=3 spares=3 placer=1 groups=6 rounds=150 fail_reads=5 fail_writes=3 lose=1 late=1 interrupts=6 flush=3"
	copies   = "deadline=8000 pin_deadline=7000 pages=12 frames=3 t2=13 spares=2 placer=1 keep=1 groups=6 rounds=400 interrupts=6 flush=4"
	scarce   = "deadline=8000 pin_deadline=7000 frames=2 t2=4 spares=2 placer=1 keep=1 groups=6 rounds=600 interrupts=6 flush=4"
	endless  = "deadline=40 pin_deadline=30 frames=4 t2=4 spares=6 placer=1 groups=4 rounds=120 mover=2 flush=6 interrupts=6"
	recorded = tight + " records=64"
	told     = tight + " events=65536"
	hammer   = "mode=hammer deadline=5000 groups=8 rounds=50000 interrupts=4"
	traps    = "mode=pitfalls"
)

var mutants = []mutant{
	{"a pinned page is evicted", "victim.cuh", "if (pins_of(*e) != 0) {", "if (pins_of(*e) > 100) {", plain, tight},
	{"pin and evict are two decisions", "entry.cuh", "return atomic_cas_acquire_gpu(entry, e, busy_word) == e;",
		"if ((load_acquire_gpu(entry) & kPinMask) != 0) { return false; }\n    relax();\n    atomic_exch_acq_rel_gpu(entry, busy_word);\n    return true;", plain, tight},
	{"a pin counts in any state", "entry.cuh", "if (state_of(*e) == kResidentT1 && pins_of(*e) < kPinLimit) {", "if (state_of(*e) >= kResidentT1 && pins_of(*e) < kPinLimit) {", plain, tight},
	{"a pin that does not count stays", "entry.cuh", "    atomic_add_relaxed_gpu(entry, 0 - kPin);\n    return false;", "    return false;", plain, tight},
	{"a write does not set dirty again", "entry.cuh", "        atomic_or_release_gpu(entry, kDirty);", "        atomic_or_release_gpu(entry, 0);", plain, tight + " flush=1"},
	{"dirty is cleared after the copy", "flush.cuh", "        atomic_and_acq_rel_gpu(entry, ~kDirty);\n    }\n    g.sync();\n    uint32_t status = move_page(g, t, kToHost, frame, *slot);",
		"    }\n    g.sync();\n    uint32_t status = move_page(g, t, kToHost, frame, *slot);\n    relax();\n    if (g.leads()) {\n        atomic_and_acq_rel_gpu(entry, ~kDirty);\n    }", plain, tight + " flush=1"},
	{"a failed flush leaves the page clean", "flush.cuh", "            atomic_or_release_gpu(entry, kDirty);", "            atomic_or_release_gpu(entry, 0);", plain, faults},
	{"a hit's page has moved meanwhile", "hit.cuh", "return (((low ^ now) & static_cast<uint32_t>(kPlace)) | ((high ^ rest) & static_cast<uint32_t>(kPlace >> 32)) |\n            ((now ^ want) & minded)) == 0;",
		"return (((low ^ high ^ rest) & 0u) | ((now ^ want) & minded)) == 0;", plain, traps},
	{"a hit is not looked at again", "hit.cuh", "bool good = unmoved(low, high, second, want, minded);", "bool good = unmoved(low, high, first | (second & 0u), want, minded);", plain, traps},
	{"a hit tells no observer", "hit.cuh", "kStateMask | kSampled) | touched)", "kStateMask) | touched)", plain, traps},
	{"a hit does not touch its page", "hit.cuh", "want = plain(kResidentT1 | touched), minded", "want = plain(kResidentT1 | (touched & 0u)), minded", plain, traps},
	{"an index that is none is a hit", "hit.cuh", "i < a.length ? a.first_page", "i <= a.length ? a.first_page", plain, traps},
	{"a hit of lanes in several pages is one", "hit.cuh", "*pages = count_bits(g.ballot((same & below(g)) == 0));", "*pages = 1 + (same & 0u);", plain, traps},
	{"hits of two engines are one", "hit.cuh", "return all(g, good & one);", "return all(g, good);", plain, traps},
	{"a lane without a hit is left alone", "hit.cuh", "return all(g, good & one);", "return g.ballot(good & one) != 0;", plain, traps},
	{"elements of a hit are mixed up", "each.cuh", "*found |= (good ? 1u : 0u) << k;", "*found |= (good ? 1u : 0u) << (N - 1 - k);", plain, traps},
	{"one element's pages are counted for all", "each.cuh", "sum += good ? pages : 0;", "sum = good ? pages * N : sum;", plain, traps},
	{"one of several elements is not looked at again", "each.cuh", "return unmoved(low, high, second, s.want, s.minded);", "return unmoved(low, high, (static_cast<uint64_t>(high) << 32 | low) | (second & 0u), s.want, s.minded);", plain, traps},
	{"several elements of two engines", "each.cuh", "((held >> k & 1) != 0) & one", "((held >> k & 1) != 0)", plain, traps},
	{"several elements in one page, but for a lane", "each.cuh", "same &= look[k].page == g.from(look[k].page, 0u);", "same &= g.from(look[k].page, 0u) != ~0u;", plain, traps},
	{"two flushes write one page", "flush.cuh", "if ((atomic_or_acquire_gpu(entry, kFlushing) & kFlushing) == 0) {", "if (atomic_or_acquire_gpu(entry, kFlushing) != 0) {", plain, traps},
	{"a flushed page of T2 stays dirty", "flush.cuh", "            to &= ~kDirty;", "            to &= ~0ull;", plain, tight},
	{"a failed write-back loses the page", "writeback.cuh", "            put_back(g, t, v, kWritingBack);\n            return kWriteBack | status;",
		"            if (g.leads()) { publish(entry, word, left(moved(v.word & ~kDirty, kAbsent, 0))); push_frame(t, v.frame); }\n            return kWriteBack | status;", plain, faults + " placer=0"},
	{"a victim is not written back", "writeback.cuh", "    bool dirty = (v.word & kDirty) != 0;\n    uint64_t word = moved", "    bool dirty = (v.word & kDirty) != 0 && v.page % 2 == 0;\n    uint64_t word = moved", plain, tight + " placer=0"},
	{"T2's victim is not written back", "place.cuh", "    bool dirty = (o.word & kDirty) != 0;", "    bool dirty = (o.word & kDirty) != 0 && o.page % 2 == 0;", plain, tight},
	{"a failed read is a page", "fill.cuh", "        f->at = f->page;\n        return status;", "        f->at = f->page;\n        return kTierOk;", plain, faults},
	{"waiters do not get the error", "seek.cuh", "return k.filling != 0 && state_of(e) == kAbsent && next ? location_of(e)", "return k.filling > 7 && state_of(e) == kAbsent && next ? location_of(e)", plain, traps},
	{"waiters compare generations that do not wrap", "seek.cuh", "((generation_of(e) - k.generation) & 0xfff) == 1", "generation_of(e) - k.generation == 1", plain, traps},
	{"a failed fill keeps its frame", "fill.cuh", "            push_frame(t, f->frame);", "            (void)t;", plain, faults},
	{"a promoted page keeps its slot", "fill.cuh", "            push_slot(t, f->slot);", "            (void)f;", plain, tight},
	{"a slot is free twice", "fill.cuh", "        if (f->spare != kNone) {\n            push_slot(t, f->spare);", "        if (f->spare != kNone) {\n            push_slot(t, f->spare);\n            if (f->page % 16 == 7) { push_slot(t, f->spare); }", plain, tight},
	{"a promotion leaves its page in the order", "fill.cuh", "            leave_order(t, f->slot);", "            (void)f;", plain, tight},
	{"a place is not given back", "fill.cuh", "            atomic_add_release_gpu(&t.hot()->t2_used, 0u - 1);", "            (void)t;", plain, tight + " placer=2"},
	{"a slot is popped twice", "pool.cuh", "        if (atomic_cas_acquire_gpu(head, h, ((h >> 32) + 1) << 32 | next) == h) {", "        if (static_cast<uint32_t>(atomic_cas_acquire_gpu(head, h, ((h >> 32) + 1) << 32 | next)) == i) {", plain, hammer + " t2=4 spares=2"},
	{"a lost buffer is used again", "writeback.cuh", "            lose_slot(t, f->spare, v.page);\n        }\n        f->spare = kNone;", "            lose_slot(t, f->spare, v.page);\n        }", plain, "frames=3 t2=3 spares=30 placer=0 groups=4 rounds=60 fail_reads=6 fail_writes=3 lose=2 deadline=2000"},
	{"a group waits for a slot while it holds a page", "place.cuh", "    *slot = need_slot ? find_slot(t) : kNone;\n    if (!need_slot || *slot != kNone) {", "    *slot = kNone;\n    if (!need_slot || take_spare(t, slot) == kTierOk) {", plain, "deadline=1500 pin_deadline=2000 frames=1 t2=2 spares=1 placer=2 groups=8 rounds=400 interrupts=6 flush=4"},
	{"a victim waits for its place", "place.cuh", "for (uint32_t attempt = 0; attempt < 64; attempt++) {", "for (uint64_t begun = globaltimer(); globaltimer() - begun < 4 * fixed(&t.e->deadline_ns);) {", plain, "deadline=1000 pin_deadline=900 frames=1 t2=1 spares=4 placer=1 groups=8 rounds=300 interrupts=6 flush=4"},
	{"entries of the order are not settled", "order.cuh", "if ((word & 3u << 30) != log_lap(t, n)) {", "if (word == 0) {", plain, traps},
	{"the order's bits come after its entry", "order.cuh", "    store_relaxed_gpu(t.slot_order() + slot, order_mark(n));\n    store_release_gpu(log_at(t, n), log_lap(t, n) | slot);", "    store_release_gpu(log_at(t, n), log_lap(t, n) | slot);\n    relax();\n    store_relaxed_gpu(t.slot_order() + slot, order_mark(n));", plain, narrow},
	{"one alone does not get the oldest", "oldest.cuh", "before % g.size(), own, &o)", "(before + 1) % g.size(), own, &o)", plain, traps},
	{"T2's order loses pages that are in it", "oldest.cuh", "uint32_t gone = leading(g, dead);", "uint32_t gone = leading(g, dead | live);", plain, traps},
	{"entries are dropped by two", "order.cuh", "won = atomic_cas_acq_rel_gpu(&t.hot()->log_head, n, n + dead) == n ? 1 : 0;", "won = (atomic_add_acq_rel_gpu(&t.hot()->log_head, dead), 1u);", plain, traps},
	{"what was dropped stays written", "order.cuh", "won) != 0 && g.rank() < dead)", "won) != 0 && g.rank() + 1 < dead)", plain, traps},
	{"who begins elsewhere does not look at the oldest", "oldest.cuh", "            at = head;\n", "            break;\n", plain, traps},
	{"T1's victim goes to the slot that is read into", "place.cuh", "    *to = read ? slot : f->spare;", "    *to = f->spare;", plain, tight + " fail_reads=0"},
	{"T1's victim is written from the slot that is read into", "writeback.cuh", "status = move_page(g, t, kToHost, v.frame, f->spare);", "status = move_page(g, t, kToHost, v.frame, second != kNone ? second : f->spare);", plain, tight + " placer=0 spares=4"},
	{"nobody waits for a read in vain", "fill.cuh", "        settle_read(g, t, f); // nobody", "        // nobody", plain, faults + " spares=4"},
	{"a page of T2 is saved to a slot that is read into", "place.cuh", "begin_beside(g, t, f) : static_cast<uint32_t>(kNone);", "begin_read(g, t, f, f->spare) ? f->spare : static_cast<uint32_t>(kNone) : static_cast<uint32_t>(kNone);", plain, late},
	{"a lost read's slot is used again", "reading.cuh", "        f->spare = kNone;", "        (void)f;", plain, late + " spares=6"},
	{"a second spare slot is kept", "reading.cuh", "            push_slot(t, f->spare);", "            (void)t;", plain, tight + " placer=0 spares=4"},
	{"the slot of T2's victim is kept", "place.cuh", "            push_spare(t, o.slot);", "            end_spare(t);", plain, tight + " spares=4"},
	{"a page that comes before it left was away for ever", "reuse.cuh", "now > r->evicted_at ? now - r->evicted_at : 0;", "now - r->evicted_at;", plain, traps},
	{"others in the log get no room", "order.cuh", "- *head + users <= fixed(&t.e->log_size);", "- *head <= fixed(&t.e->log_size);", plain, little},
	{"slots of other stacks are not found", "pool.cuh", "        s = pop_free(&stacks[k].head, t.slot_owner());", "        s = kNone;", plain, tight},
	{"the log is compacted while others are in it", "compact.cuh", "    while (load_acquire_gpu(gate) != kCompacting) {", "    while (load_acquire_gpu(gate) == 0) {", plain, traps},
	{"compaction turns the order round", "compact.cuh", "behind = bits_below(votes, g.lane());", "behind = count_bits(votes) - 1 - bits_below(votes, g.lane());", plain, "parity-lanes"},
	{"those who wait take T2's free slots", "pool.cuh", "uint32_t most = fixed(&t.e->slots) - fixed(&t.e->t2_frames), s = kNone;", "uint32_t most = fixed(&t.e->slots), s = kNone;", plain, traps},
	{"one look at the stacks finds every slot", "pool.cuh", "looks < 4 &&", "looks < 1 &&", plain, hammer + " t2=6 spares=0 log=16"},
	{"pages that come back take the last spare slot", "fill.cuh", "no_way_back && has_extra(t) ? 1u : 0u", "no_way_back && f->page > 99 ? 1u : 0u", plain, traps},
	{"the only spare slot is risked", "move.cuh", " || fixed(&t.e->slots) - fixed(&t.e->t2_frames) == 1;", ";", plain, traps},
	{"all spare slots are lost at once", "pool.cuh", "        most--;", "        (void)m;", plain, traps},
	{"compaction stays in the lap", "compact.cuh", "s.lap ^ 1u << 30}", "s.lap}", plain, traps},
	{"compaction brings pages back that leave", "compact.cuh", "atomic_cas_relaxed_gpu(order + slot[k], mark[k], order_mark(place));", "relax();\n            store_relaxed_gpu(order + slot[k], order_mark(place));", plain, traps},
	{"compaction reads one entry twice", "compact.cuh", "    m->last = before(last, span, size);", "    m->last = before(last, span - 1, size);", plain, traps},
	{"compaction forgets the places", "compact.cuh", "            atomic_cas_relaxed_gpu(order + slot[k], mark[k], order_mark(place));", "            (void)place;", plain, little},
	{"the hand passes what is behind the victim", "victim.cuh", "hand + p->from, hand + p->to);", "hand + p->from, hand + width);", plain, "parity-lanes"},
	{"who was overtaken begins where it looked", "victim.cuh", "uint32_t later = open & ~((1u << p->from) - 1);", "uint32_t later = open;", plain, traps},
	{"who was overtaken clears nothing", "victim.cuh", "bool passed = g.rank() >= p.from &&", "bool passed = p.from == 0 && g.rank() >= p.from &&", plain, traps},
	{"a group with gaps votes by lane", "victim.cuh", "if (g.mask() == ~0u) {", "if (g.mask() != 0) {", plain, traps},
	{"a hand of a group's own passes what is behind the victim", "victim.cuh", "s->own += own ? p.to : 0;", "s->own += own ? width : 0;", plain, traps},
	{"the reference bit stays", "victim.cuh", "        atomic_and_relaxed_gpu(t.entries + page, ~kRef);", "        (void)page;", plain, "parity"},
	{"a page comes with its reference bit", "fill.cuh", "| (writes ? kDirty : 0);", "| (writes ? kDirty : 0) | kRef;", plain, "parity"},
	{"a victim is kept twice", "evict.cuh", "            again = true;", "            again = false;", plain, "parity"},
	{"a prefetch is an access", "acquire.cuh", "    if (op != kPrefetchOp) {\n        count(&stripe_of(t)->slow);\n    }", "    count(&stripe_of(t)->slow);", plain, "parity"},
	{"history counters wrap", "reuse.cuh", "        if ((h >> shift & 63) == 63) {", "        if ((h >> shift & 63) == 99) {", plain, "parity"},
	{"the wrong row is judged", "reuse.cuh", "uint32_t shift = 18 * last + 6 * c;", "uint32_t shift = 18 * c + 6 * last;", plain, "parity"},
	{"fits take effect late", "reuse.cuh", "    if (n + 1 < load_relaxed_gpu(&h->sample_gate)) {", "    if (n < load_relaxed_gpu(&h->sample_gate)) {", plain, "parity"},
	{"starvation counts its grants", "reuse.cuh", "uint32_t old = t3 ? atomic_or", "t3 = t3 && !grant;\n    uint32_t old = t3 ? atomic_or", plain, "parity"},
	{"a glance is not repeated", "array_ref.cuh", "if (same_place(first, *e)) {", "if (state_of(*e) != kAbsent) {", plain, traps},
	{"a glance does not see generations", "entry.cuh", "(kStateMask | kGenerationMask | kLocationMask)) == 0", "(kStateMask | kLocationMask)) == 0", plain, traps},
	{"an unpin is not a release", "entry.cuh", "atomic_add_release_gpu(entry, 0 - kPin)", "atomic_add_relaxed_gpu(entry, 0 - kPin)", threads, alone},
	{"publishing is not a release", "entry.cuh", "atomic_add_release_gpu(entry, to - from)", "atomic_add_relaxed_gpu(entry, to - from)", threads, alone},
	{"a pin is not an acquire", "entry.cuh", "*e = atomic_add_acquire_gpu(entry, kPin)", "*e = atomic_add_relaxed_gpu(entry, kPin)", threads, alone},
	{"pins in flight are counted", "entry.cuh", "constexpr uint32_t kPinLimit = 1u << 18;", "constexpr uint32_t kPinLimit = 1u << 30;", plain, traps},
	{"a full house waits for ever", "victim.cuh", "if (s->wait.longer_than(fixed(&t.e->pin_deadline_ns))) {", "if (s->wait.longer_than(~0ull)) {", plain, traps},
	{"a lost slot is taken back at once", "pool.cuh", "if (let_go(t, load_relaxed_gpu(t.slot_order() + s))) {", "if (t.slot_order() != nullptr) {", plain, late},
	{"no lost slot is taken back", "pool.cuh", "            s = retake_slot(t);", "            (void)s;", plain, late},
	{"a slot is put aside for another queue", "pool.cuh", "t.store.held_by(page));", "1 - t.store.held_by(page));", plain, late},
	{"a page of T2 stays in a lost slot", "place.cuh", "if (t.store.lost(status) && f->spare != kNone) {", "if (t.store.lost(status) && f->spare == 0x12345) {", plain, late},
	{"a flushed page of T2 stays in a lost slot", "flush.cuh", "at = slot;\n    *lost = status != kTierOk && t.store.lost(status);", "at = slot;\n    *lost = false;", plain, late},
	{"slots that are not taken back are forgotten", "pool.cuh", "        push_free(lost, owner, kept);", "        (void)lost;", plain, late},
	{"a page is written while an older write may come", "fence.cuh", "return from_leader(g, fence) != 0 && !lift(g, t, page);", "return from_leader(g, fence) > 1 && !lift(g, t, page);", plain, traps},
	{"the same, at random", "fence.cuh", "return from_leader(g, fence) != 0 && !lift(g, t, page);", "return from_leader(g, fence) > 1 && !lift(g, t, page);", plain, late},
	{"a lost write raises no fence", "writeback.cuh", "        raise_fence(t, page, slot);", "        (void)slot;", plain, traps},
	{"a fence ends at the next look", "fence.cuh", "bool over = slot == kNone || t.store.settled(static_cast<uint32_t>(word >> 32));", "bool over = true;", plain, traps},
	{"a fence is another queue's", "fence.cuh", "fence_word(t.store.held_by(page), page)", "fence_word(1 - t.store.held_by(page), page)", plain, traps},
	{"a fence never ends", "fence.cuh", "        atomic_and_release_gpu(fenced_word(t, page), ~(1u << page % 32));", "        (void)page;", plain, traps},
	{"a fence is looked for in one slot", "fence.cuh", "first < fixed(&t.e->slots); first += g.size()) {", "first < 1; first += g.size()) {", plain, traps},
	{"a slot that is taken back keeps its fence", "pool.cuh", "        end_fence(t, found, load_acquire_gpu(fence_at(t, found)));", "", plain, traps},
	{"a page with a fence is read", "reading.cuh", "kept_off(g, t, f->page) ? static_cast<uint32_t>(kFenced) : ", "", plain, traps},
	{"a lane's slots are not searched", "fence.cuh", "return g.from(s, lowest_bit(found));", "return g.from(s, 0);", plain, traps},
	{"a frame of a lost move is used at once", "move.cuh", "    push_free(&t.hot()->lost_frames, t.frame_owner(), frame);", "    push_frame(t, frame);", plain, endless},
	{"a slot of a lost move is used at once", "move.cuh", "        put_aside(t, slot, kByMover | (static_cast<uint32_t>(n) & kMoverMask));", "        push_slot(t, slot);", plain, endless},
	{"frames come back before their moves have ended", "pool.cuh", "mover_over(t) <= load_relaxed_gpu(&h->lost_moves)", "mover_over(t) == 0x123456789", plain, endless},
	{"slots come back before their moves have ended", "pool.cuh", "return past != 0 && past < kMoverMask / 2;", "return past < kMoverMask + 1;", plain, endless + " spares=2"},
	{"slots of lost moves never come back", "pool.cuh", "return past != 0 && past < kMoverMask / 2;", "return past > kMoverMask;", plain, endless},
	{"a demotion that was lost keeps its place", "evict.cuh", "    } else if (g.leads()) {\n        atomic_add_relaxed_gpu(&t.hot()->t2_used, 0u - 1);", "    } else if (g.leads()) {", plain, endless + " pages=40"},
	{"a swap that was lost keeps its place", "evict.cuh", "    if (swapped) {\n        f->place = 1;", "    if (swapped) {\n        f->place = 0;", plain, endless + " rounds=800"},
	{"a page whose promotion was lost has no place", "fill.cuh", "                atomic_add_relaxed_gpu(&t.hot()->t2_used, 1);", "                (void)t;", plain, endless + " rounds=800"},
	{"a place beyond T2's size is given back before it is taken", "fill.cuh", "                atomic_add_relaxed_gpu(&t.hot()->t2_used, 1);\n                atomic_add_release_gpu(&t.hot()->t2_extra, 1);",
		"                atomic_add_relaxed_gpu(&t.hot()->t2_extra, 1);\n                for (uint64_t begun = globaltimer(); globaltimer() - begun < 200000000;) { relax(); }\n                atomic_add_relaxed_gpu(&t.hot()->t2_used, 1);", plain, traps},
	{"a refused move is not made", "move.cuh", "if (way != kByCopyEngine && way != kUnanswered) {", "if (way != kByCopyEngine && way != kUnanswered && way != kRefused) {", plain, tight + " mover=1"},
	{"a move goes the other way", "move.cuh", "direction == kToDevice ? in : out, direction == kToDevice ? out : in,", "direction == kToDevice ? out : in, direction == kToDevice ? in : out,", plain, tight + " mover=1"},
	{"a demotion is not timed", "evict.cuh", "        count_move(t, kT1ToT2, begun, v.page);", "        (void)begun;", plain, traps},
	{"a promotion is not timed", "fill.cuh", "            count_move(t, kT2ToT1, begun, f->page);", "            (void)begun;", plain, traps},
	{"a read is a write", "reading.cuh", "count_move(t, kT3ToT2, r->begun, f->page);", "count_move(t, kT2ToT3, r->begun, f->page);", plain, traps},
	{"a write that failed is timed", "writeback.cuh", "    } else if (g.leads() && t.store.lost(status)) {", "    } else if (g.leads() && (count_move(t, kT2ToT3, begun, page), t.store.lost(status))) {", plain, traps},
	{"buckets are half as wide", "context.cuh", "return length < kBuckets ? length : kBuckets - 1;", "return length + 1 < kBuckets ? length + 1 : kBuckets - 1;", plain, traps},
	{"a write leaves the copy", "t2copy.cuh", "    if ((e & kDirty) == 0 && fixed(&t.e->copies) != 0) {", "    if ((e & kDirty) != 0 && fixed(&t.e->copies) != 0) {", plain, copies},
	{"only elements drop the copy", "acquire.cuh", "        will_write(t, p, found != 0 ? e : 0, a.frame);", "", plain, copies},
	{"elements do not drop the copy", "array_ref.cuh", "        will_write(t, static_cast<uint32_t>(page), e, location_of(e));", "", plain, copies},
	{"a late write leaves the copy", "acquire.cuh", "will_write(t, p, found != 0 ? e : 0, a.frame);", "if (found != 0) { will_write(t, p, e, a.frame); }", plain, copies},
	{"two take one copy", "t2copy.cuh", "return atomic_cas_acquire_gpu(t.slot_owner() + slot, page | kCopyMark, owner) == (page | kCopyMark) ? slot : kNone;",
		"relax();\n    store_release_gpu(t.slot_owner() + slot, owner);\n    return slot;", plain, scarce},
	{"T2 takes a copy that another has", "oldest.cuh", "if (slot != own && atomic_cas_acq_rel_gpu(t.slot_owner() + slot, owner, kNone) != owner) {\n            return false;\n        }",
		"relax();\n        store_release_gpu(t.slot_owner() + slot, kNone);", plain, scarce},
	{"a copy of another page is the page", "t2copy.cuh", "    if (slot >= fixed(&t.e->slots) || load_relaxed_gpu(t.slot_owner() + slot) != (page | kCopyMark)) {",
		"    if (slot < fixed(&t.e->slots) && (load_relaxed_gpu(t.slot_owner() + slot) >> 30) == 1) { page = load_relaxed_gpu(t.slot_owner() + slot) & ~kCopyMark; }\n    if (slot >= fixed(&t.e->slots)) {", plain, scarce},
	{"T2 may take a copy before it was read", "fill.cuh", "        if (f->slot != kNone && f->copy == 0) {\n            leave_order(t, f->slot);\n        }",
		"        if (f->slot != kNone && f->copy == 0) {\n            leave_order(t, f->slot);\n        } else if (f->copy != 0) {\n            store_release_gpu(t.slot_owner() + f->slot, f->page | kCopyMark);\n        }", plain, scarce},
	{"a copy leaves the order", "fill.cuh", "        if (f->slot != kNone && f->copy == 0) {\n            leave_order", "        if (f->slot != kNone) {\n            leave_order", plain, copies},
	{"a dropped copy keeps its place", "t2copy.cuh", "        atomic_add_release_gpu(&t.hot()->t2_used, 0u - 1);", "        (void)t;", plain, copies},
	{"a dropped copy stays in the order", "t2copy.cuh", "        leave_order(t, slot);", "        (void)slot;", plain, traps},
	{"a dirty page leaves a copy", "acquire.cuh", "fixed(&t.e->copies) != 0 && (k.word & kDirty) == 0 &&", "fixed(&t.e->copies) != 0 &&", plain, copies},
	{"a page that is written leaves a copy", "acquire.cuh", " && (op == kReadOp || op == kPrefetchOp);", ";", plain, copies},
	{"a page never takes its own copy's slot", "place.cuh", "f->copy != 0 ? f->slot : kNone, &slot, &o);", "static_cast<uint32_t>(kNone), &slot, &o);", plain, "parity"},
	{"a page's own slot is free twice", "place.cuh", "        f->copy = 0;\n        *slot = kNone;", "        f->copy = 0;", plain, scarce},
	{"copies are not T2's victims' kind", "place.cuh", "    if (o.copy != 0) {\n        if (g.leads()) {\n            count(&t.counts()->t2_evictions);\n        }", "    if (o.copy != 0) {", plain, "parity"},
	{"a saved copy is another generation's", "evict.cuh", "publish(t.entries + v.page, moved(v.word, kDemoting, v.frame), left(moved(v.word, kResidentT2, slot)));", "publish(t.entries + v.page, moved(v.word, kDemoting, v.frame), moved(v.word, kResidentT2, slot));", plain, traps},
	{"records of a lap ago count", "record.cuh", "(n + 1) << 32 | page << 2 | op", "(n % 16 + 1) << 32 | page << 2 | op", plain, recorded},
	{"a full ring is written over", "record.cuh", "        if (load_relaxed_gpu(&h->record_stuck) == taken + 1) {\n            return false;", "        if (load_relaxed_gpu(&h->record_stuck) == taken + 1) {\n            return true;", plain, traps},
	{"lost records are not counted", "record.cuh", "        count(&t.counts()->lost_records);", "        (void)t;", plain, traps},
	{"every access waits for a dead recorder", "record.cuh", "            store_relaxed_gpu(&h->record_stuck, taken + 1);", "            (void)h;", plain, traps},
	{"a recorder that takes again is not seen", "record.cuh", "if (load_relaxed_gpu(&h->record_stuck) == taken + 1) {", "if (load_relaxed_gpu(&h->record_stuck) != 0) {", plain, traps},
	{"two records get one place", "record.cuh", "uint64_t n = atomic_add_relaxed_gpu(&t.hot()->record_tail, 1);", "uint64_t n = load_relaxed_gpu(&t.hot()->record_tail);\n    relax();\n    store_relaxed_gpu(&t.hot()->record_tail, n + 1);", plain, recorded},
	{"hits are recorded as reads", "acquire.cuh", "        notice(t, page, op, 0);", "        notice(t, page, kReadOp, 0);", plain, traps},
	{"misses are not recorded", "acquire.cuh", "        notice(t, page, op, now);", "        (void)now;", plain, recorded},
	{"the placer sees prefetches", "record.cuh", "op != kPrefetchOp && in_bitmap(fixed(&t.e->observed), page)", "in_bitmap(fixed(&t.e->observed), page)", plain, "parity"},
	{"events of a lap ago count", "events.cuh", "static_cast<uint32_t>(n) + 1);", "static_cast<uint32_t>(n % 64) + 1);", plain, tight + " events=64"},
	{"a full ring of events is written over", "events.cuh", "    if (!event_room(l, l->room)) {", "    if (l == nullptr) {", plain, traps},
	{"a listener to events that takes again is not seen", "events.cuh", "    store_relaxed_gpu(&l->taken, taken);\n    return load_relaxed_gpu(&l->tail) - taken < room;", "    return taken > ~room;", plain, traps},
	{"misses left out of events are not counted", "events.cuh", "        count(&l->left_out);", "", plain, traps},
	{"events cut off are not counted", "events.cuh", "        count(&l->cut);", "", plain, traps},
	{"a miss left out of events tells of its moves", "events.cuh", "        count(&l->left_out);\n        return 0;", "        count(&l->left_out);\n        return 1;", plain, traps},
	{"events of a miss have no room kept", "events.cuh", "event_room(l, l->room / 2)", "event_room(l, l->room)", plain, traps},
	{"two events get one place", "events.cuh", "uint64_t n = atomic_add_relaxed_gpu(&l->tail, 1);", "uint64_t n = load_relaxed_gpu(&l->tail);\n    relax();\n    store_relaxed_gpu(&l->tail, n + 1);", plain, told},
	{"events of one miss in two", "events.cuh", "    if (n % l->every != 0) {", "    if (n % 2 != 0) {", plain, told},
	{"events are of all misses", "events.cuh", "    if (n % l->every != 0) {", "    if (l->every == 0) {", plain, told + " every=3"},
	{"events of misses that fail say that they did not", "events.cuh", "status != kTierOk ? 1u << kEventFailed : 0;", "status > ~0u >> 1 ? 1u << kEventFailed : 0;", plain, told + " fail_reads=3"},
	{"no events of misses", "acquire.cuh", "            begin_events(&t);", "", plain, told},
	{"events of a miss begin late", "acquire.cuh", "tell_event(t, kMissEvent, k.wait.begun, page, status, op);", "tell_event(t, kMissEvent, globaltimer(), page, status, op);", plain, told},
	{"no events of flushes", "flush.cuh", "            begin_events(&t);", "", plain, told},
	{"events of a flush do not end", "flush.cuh", "    tell_event(t, kFlushEvent, k.wait.begun, page, status);\n", "", plain, told},
	{"no event of a read that fails", "reading.cuh", "        tell_event(t, kT3ToT2, r->begun, f->page, r->status);", "        tell_event(t, kT3ToT2, r->begun, f->page, kTierOk);", plain, told + " fail_reads=3"},
	{"events of moves all fail", "events.cuh", "    tell_event(t, edge, begun, page, kTierOk);", "    tell_event(t, edge, begun, page, kTierOk + 1);", plain, told},
	{"a lane skips a vote", "array_ref.cuh", "    uint32_t pages = count_bits(g.ballot(chief));", "    uint32_t pages = chief ? count_bits(g.ballot(chief)) : 0;", plain, warps},
}

// TestMutants: the rig notices each mistake within a few seeds.
func TestMutants(t *testing.T) {
	m := devicerig.Mutants{Rig: rig, Attempt: attempt, Control: func(t *testing.T, bin, args string) error {
		return attempt(t, bin, strings.ReplaceAll(args, "deadline=", "deadline=1"), 1)
	}}
	for _, x := range mutants {
		m.List = append(m.List, devicerig.Mutant{Name: x.name, File: x.file, Old: x.old, New: x.new, Build: x.build, Args: x.args})
	}
	m.Run(t)
}

// attempt runs one trial: the rig's own, or a comparison with tier.Machine.
func attempt(t *testing.T, bin, args string, seed uint64) error {
	t.Helper()
	if strings.HasPrefix(args, "parity") {
		return parityTrial(t, bin, args == "parity-lanes", seed)
	}
	_, err := trial(t, bin, 40*time.Second, append(strings.Fields(args), "quick=1", fmt.Sprint("seed=", seed)))
	return err
}
