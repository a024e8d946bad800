// The device's own idea of engine.cuh, for a test that compares it with Go's.
#include <stddef.h>

#include "engine.cuh"

using namespace tritier::tier;

#define FIELD(TYPE, NAME, FIELD) TRITIER_EXPORT_CONST(offset_##NAME, offsetof(TYPE, FIELD))

TRITIER_EXPORT_CONST(const_tier_version, kTierVersion);
TRITIER_EXPORT_CONST(const_t1_clock, kT1Clock);
TRITIER_EXPORT_CONST(const_t1_fifo, kT1Fifo);
TRITIER_EXPORT_CONST(const_bypass, kBypass);
TRITIER_EXPORT_CONST(const_tier_order, kTierOrder);
TRITIER_EXPORT_CONST(const_random, kRandom);
TRITIER_EXPORT_CONST(const_gmt_reuse, kGmtReuse);
TRITIER_EXPORT_CONST(const_read_op, kReadOp);
TRITIER_EXPORT_CONST(const_write_op, kWriteOp);
TRITIER_EXPORT_CONST(const_overwrite_op, kOverwriteOp);
TRITIER_EXPORT_CONST(const_prefetch_op, kPrefetchOp);
TRITIER_EXPORT_CONST(const_tier_ok, kTierOk);
TRITIER_EXPORT_CONST(const_wait_timeout, kWaitTimeout);
TRITIER_EXPORT_CONST(const_wait_stopped, kWaitStopped);
TRITIER_EXPORT_CONST(const_all_pinned, kAllPinned);
TRITIER_EXPORT_CONST(const_no_slot, kNoSlot);
TRITIER_EXPORT_CONST(const_too_many_pins, kTooManyPins);
TRITIER_EXPORT_CONST(const_out_of_range, kOutOfRange);
TRITIER_EXPORT_CONST(const_bad_call, kBadCall);
TRITIER_EXPORT_CONST(const_broken, kBroken);
TRITIER_EXPORT_CONST(const_not_sent, kNotSent);
TRITIER_EXPORT_CONST(const_fenced, kFenced);
TRITIER_EXPORT_CONST(const_move_lost, kMoveLost);
TRITIER_EXPORT_CONST(const_write_back, kWriteBack);
TRITIER_EXPORT_CONST(const_none, kNone);
TRITIER_EXPORT_CONST(const_free_mark, kFreeMark);
TRITIER_EXPORT_CONST(const_copy_mark, kCopyMark);
TRITIER_EXPORT_CONST(const_max_page, kMaxPage);
TRITIER_EXPORT_CONST(const_max_location, kMaxLocation);
TRITIER_EXPORT_CONST(const_stripes, kStripes);

TRITIER_EXPORT_CONST(size_stripe, sizeof(Stripe));
FIELD(Stripe, stripe_hits, hits);
FIELD(Stripe, stripe_slow, slow);

TRITIER_EXPORT_CONST(size_counts, sizeof(Counts));
FIELD(Counts, counts_late_hits, late_hits);
FIELD(Counts, counts_delayed, delayed);
FIELD(Counts, counts_t2_hits, t2_hits);
FIELD(Counts, counts_t3_fetches, t3_fetches);
FIELD(Counts, counts_overwrites, overwrites);
FIELD(Counts, counts_errors, errors);
FIELD(Counts, counts_evictions, evictions);
FIELD(Counts, counts_keeps, keeps);
FIELD(Counts, counts_demotions, demotions);
FIELD(Counts, counts_bypasses, bypasses);
FIELD(Counts, counts_t2_evictions, t2_evictions);
FIELD(Counts, counts_writebacks, writebacks);
FIELD(Counts, counts_prefetches, prefetches);
FIELD(Counts, counts_prefetch_reads, prefetch_reads);
FIELD(Counts, counts_prefetch_errors, prefetch_errors);
FIELD(Counts, counts_flushed, flushed);
FIELD(Counts, counts_crowded, crowded);
FIELD(Counts, counts_lost_slots, lost_slots);
FIELD(Counts, counts_dropped_samples, dropped_samples);
FIELD(Counts, counts_bytes_t3_read, bytes_t3_read);
FIELD(Counts, counts_bytes_t3_write, bytes_t3_write);
FIELD(Counts, counts_bytes_promoted, bytes_promoted);
FIELD(Counts, counts_bytes_demoted, bytes_demoted);
FIELD(Counts, counts_copies_saved, copies_saved);
FIELD(Counts, counts_retaken_slots, retaken_slots);
FIELD(Counts, counts_lost_records, lost_records);
FIELD(Counts, counts_compactions, compactions);
FIELD(Counts, counts_compaction_ns, compaction_ns);
FIELD(Counts, counts_granted, granted);
FIELD(Counts, counts_predicted, predicted);
FIELD(Counts, counts_judged, judged);

TRITIER_EXPORT_CONST(const_edges, kEdges);
TRITIER_EXPORT_CONST(const_buckets, kBuckets);
TRITIER_EXPORT_CONST(const_move_stripes, kMoveStripes);
TRITIER_EXPORT_CONST(size_moves, sizeof(Moves));
FIELD(Moves, moves_pages, pages);

TRITIER_EXPORT_CONST(const_to_device, kToDevice);
TRITIER_EXPORT_CONST(const_to_host, kToHost);
TRITIER_EXPORT_CONST(const_by_kernel, kByKernel);
TRITIER_EXPORT_CONST(const_by_copy_engine, kByCopyEngine);
TRITIER_EXPORT_CONST(const_ring_full, kRingFull);
TRITIER_EXPORT_CONST(const_not_taken, kNotTaken);
TRITIER_EXPORT_CONST(const_refused, kRefused);
TRITIER_EXPORT_CONST(const_unanswered, kUnanswered);
TRITIER_EXPORT_CONST(const_ways, kWays);
TRITIER_EXPORT_CONST(const_move_request, kMoveRequest);
TRITIER_EXPORT_CONST(size_mover, sizeof(Mover));
FIELD(Mover, mover_bamio, bamio);
FIELD(Mover, mover_patience_ns, patience_ns);
FIELD(Mover, mover_over, over);
FIELD(Mover, mover_by_request, by_request);
FIELD(Mover, mover_pages, pages);

TRITIER_EXPORT_CONST(size_hot, sizeof(Hot));
FIELD(Hot, hot_hand, hand);
FIELD(Hot, hot_free_frames, free_frames);
FIELD(Hot, hot_used_frames, used_frames);
FIELD(Hot, hot_starved, starved);
FIELD(Hot, hot_frames_needed, frames_needed);
FIELD(Hot, hot_lost_frames, lost_frames);
FIELD(Hot, hot_lost_moves, lost_moves);
FIELD(Hot, hot_free_slots, free_slots);
FIELD(Hot, hot_slot_hint, slot_hint);
FIELD(Hot, hot_spares_taken, spares_taken);
FIELD(Hot, hot_lost_slots, lost_slots);
FIELD(Hot, hot_t2_used, t2_used);
FIELD(Hot, hot_t2_extra, t2_extra);
FIELD(Hot, hot_log_head, log_head);
FIELD(Hot, hot_log_tail, log_tail);
FIELD(Hot, hot_log_gate, log_gate);
FIELD(Hot, hot_first_error, first_error);
FIELD(Hot, hot_sample_tail, sample_tail);
FIELD(Hot, hot_sample_taken, sample_taken);
FIELD(Hot, hot_sample_gate, sample_gate);
FIELD(Hot, hot_params_version, params_version);
FIELD(Hot, hot_params_lock, params_lock);
FIELD(Hot, hot_starve_at, starve_at);
FIELD(Hot, hot_starve_t3, starve_t3);
FIELD(Hot, hot_starve_second, starve_second);
FIELD(Hot, hot_record_tail, record_tail);
FIELD(Hot, hot_record_taken, record_taken);
FIELD(Hot, hot_record_stuck, record_stuck);

TRITIER_EXPORT_CONST(size_reuse_params, sizeof(ReuseParams));
FIELD(ReuseParams, reuse_params_version, version);
FIELD(ReuseParams, reuse_params_slope, slope);
FIELD(ReuseParams, reuse_params_offset, offset);
FIELD(ReuseParams, reuse_params_direct, direct);
FIELD(ReuseParams, reuse_params_t1, t1);
FIELD(ReuseParams, reuse_params_t1_t2, t1_t2);
FIELD(ReuseParams, reuse_params_short_below, short_below);
FIELD(ReuseParams, reuse_params_medium_below, medium_below);
FIELD(ReuseParams, reuse_params_seed, seed);
FIELD(ReuseParams, reuse_params_first_below, first_below);
FIELD(ReuseParams, reuse_params_window, window);
FIELD(ReuseParams, reuse_params_starve_above, starve_above);

TRITIER_EXPORT_CONST(size_reuse_page, sizeof(ReusePage));
FIELD(ReusePage, reuse_page_evicted_at, evicted_at);
FIELD(ReusePage, reuse_page_history, history);

TRITIER_EXPORT_CONST(size_sample, sizeof(Sample));
FIELD(Sample, sample_now, now);
FIELD(Sample, sample_page, page);
FIELD(Sample, sample_mark, mark);

TRITIER_EXPORT_CONST(size_mailbox, sizeof(Mailbox));
FIELD(Mailbox, mailbox_taken, taken);
FIELD(Mailbox, mailbox_gate, gate);
FIELD(Mailbox, mailbox_version, version);
FIELD(Mailbox, mailbox_params, params);

TRITIER_EXPORT_CONST(size_record_box, sizeof(RecordBox));
FIELD(RecordBox, record_box_taken, taken);

TRITIER_EXPORT_CONST(const_miss_event, kMissEvent);
TRITIER_EXPORT_CONST(const_flush_event, kFlushEvent);
TRITIER_EXPORT_CONST(const_event_op, kEventOp);
TRITIER_EXPORT_CONST(const_event_failed, kEventFailed);
TRITIER_EXPORT_CONST(const_event_stripe, kEventStripe);
TRITIER_EXPORT_CONST(const_event_sm, kEventSM);

TRITIER_EXPORT_CONST(size_event, sizeof(Event));
FIELD(Event, event_begun, begun);
FIELD(Event, event_ended, ended);
FIELD(Event, event_page, page);
FIELD(Event, event_number, number);
FIELD(Event, event_what, what);
FIELD(Event, event_mark, mark);

TRITIER_EXPORT_CONST(size_event_box, sizeof(EventBox));
FIELD(EventBox, event_box_taken, taken);
FIELD(EventBox, event_box_clock, clock);

TRITIER_EXPORT_CONST(size_event_log, sizeof(EventLog));
FIELD(EventLog, event_log_tail, tail);
FIELD(EventLog, event_log_taken, taken);
FIELD(EventLog, event_log_begun, begun);
FIELD(EventLog, event_log_left_out, left_out);
FIELD(EventLog, event_log_cut, cut);
FIELD(EventLog, event_log_events, events);
FIELD(EventLog, event_log_box, box);
FIELD(EventLog, event_log_count, count);
FIELD(EventLog, event_log_room, room);
FIELD(EventLog, event_log_every, every);

TRITIER_EXPORT_CONST(size_engine, sizeof(Engine));
FIELD(Engine, engine_version, version);
FIELD(Engine, engine_page_shift, page_shift);
FIELD(Engine, engine_t1_policy, t1_policy);
FIELD(Engine, engine_placer, placer);
FIELD(Engine, engine_pages, pages);
FIELD(Engine, engine_frames, frames);
FIELD(Engine, engine_t2_frames, t2_frames);
FIELD(Engine, engine_slots, slots);
FIELD(Engine, engine_log_size, log_size);
FIELD(Engine, engine_entries, entries);
FIELD(Engine, engine_reuse, reuse);
FIELD(Engine, engine_frame_owner, frame_owner);
FIELD(Engine, engine_frame_memory, frame_memory);
FIELD(Engine, engine_slot_owner, slot_owner);
FIELD(Engine, engine_slot_order, slot_order);
FIELD(Engine, engine_slot_memory, slot_memory);
FIELD(Engine, engine_log, log);
FIELD(Engine, engine_stripes, stripes);
FIELD(Engine, engine_counts, counts);
FIELD(Engine, engine_hot, hot);
FIELD(Engine, engine_reuse_state, reuse_state);
FIELD(Engine, engine_starve_bits, starve_bits);
FIELD(Engine, engine_samples, samples);
FIELD(Engine, engine_mailbox, mailbox);
FIELD(Engine, engine_sample_count, sample_count);
FIELD(Engine, engine_parity, parity);
FIELD(Engine, engine_seed, seed);
FIELD(Engine, engine_random_below, random_below);
FIELD(Engine, engine_deadline_ns, deadline_ns);
FIELD(Engine, engine_pin_deadline_ns, pin_deadline_ns);
FIELD(Engine, engine_stop, stop);
FIELD(Engine, engine_store, store);
FIELD(Engine, engine_give_up, give_up);
FIELD(Engine, engine_records, records);
FIELD(Engine, engine_record_box, record_box);
FIELD(Engine, engine_record_count, record_count);
FIELD(Engine, engine_record_room, record_room);
FIELD(Engine, engine_record_wait_ns, record_wait_ns);
FIELD(Engine, engine_recorded, recorded);
FIELD(Engine, engine_observed, observed);
FIELD(Engine, engine_copies, copies);
FIELD(Engine, engine_fenced, fenced);
FIELD(Engine, engine_fences, fences);
FIELD(Engine, engine_moves, moves);
FIELD(Engine, engine_events, events);
FIELD(Engine, engine_mover, mover);

TRITIER_EXPORT_CONST(size_array_ref, sizeof(ArrayRef));
FIELD(ArrayRef, array_ref_version, version);
FIELD(ArrayRef, array_ref_element_shift, element_shift);
FIELD(ArrayRef, array_ref_page_shift, page_shift);
FIELD(ArrayRef, array_ref_flags, flags);
FIELD(ArrayRef, array_ref_engine, engine);
FIELD(ArrayRef, array_ref_entries, entries);
FIELD(ArrayRef, array_ref_frame_memory, frame_memory);
FIELD(ArrayRef, array_ref_first_page, first_page);
FIELD(ArrayRef, array_ref_nowhere, nowhere);
FIELD(ArrayRef, array_ref_length, length);
FIELD(ArrayRef, array_ref_name, name);
FIELD(ArrayRef, array_ref_stripes, stripes);
TRITIER_EXPORT_CONST(const_touches, kTouches);

TRITIER_EXPORT_CONST(size_drive_layout, sizeof(DriveLayout));
FIELD(DriveLayout, drive_layout_bamio, bamio);
FIELD(DriveLayout, drive_layout_base_lba, base_lba);
FIELD(DriveLayout, drive_layout_drives, drives);
FIELD(DriveLayout, drive_layout_blocks, blocks);

// layout_probe says what a kernel finds behind the address that it was given. A
// test on a GPU compares it with what the host has set up.
extern "C" __global__ void layout_probe(const Engine* engine, uint32_t* out) {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    out[0] = engine->version;
    out[1] = engine->page_shift;
    out[2] = static_cast<uint32_t>(engine->pages);
    out[3] = engine->frames;
    out[4] = engine->slots;
    out[5] = static_cast<uint32_t>(reinterpret_cast<const Hot*>(engine->hot)->free_slots[0].head);
    out[6] = reinterpret_cast<const uint32_t*>(engine->slot_owner)[engine->slots - 1];
}
