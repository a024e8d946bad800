// The device's own idea of layout.cuh, for a test that compares it with Go's.
#include <stddef.h>

#include "layout.cuh"

using namespace tritier::bamio;

#define FIELD(TYPE, NAME, FIELD) TRITIER_EXPORT_CONST(offset_##NAME, offsetof(TYPE, FIELD))

TRITIER_EXPORT_CONST(layout_version, kLayoutVersion);
TRITIER_EXPORT_CONST(state_free, kFree);
TRITIER_EXPORT_CONST(state_in_flight, kInFlight);
TRITIER_EXPORT_CONST(state_done, kDone);
TRITIER_EXPORT_CONST(state_abandoned, kAbandoned);

TRITIER_EXPORT_CONST(size_cid, sizeof(Cid));
FIELD(Cid, cid_word, word);
FIELD(Cid, cid_dword0, dword0);

TRITIER_EXPORT_CONST(size_queue, sizeof(Queue));
FIELD(Queue, queue_sq, sq);
FIELD(Queue, queue_cq, cq);
FIELD(Queue, queue_sq_doorbell, sq_doorbell);
FIELD(Queue, queue_cq_doorbell, cq_doorbell);
FIELD(Queue, queue_ready, ready);
FIELD(Queue, queue_cids, cids);
FIELD(Queue, queue_depth, depth);
FIELD(Queue, queue_cq_depth, cq_depth);
FIELD(Queue, queue_cid_count, cid_count);
FIELD(Queue, queue_id, id);
FIELD(Queue, queue_nsid, nsid);
FIELD(Queue, queue_drive, drive);
FIELD(Queue, queue_tickets, tickets);
FIELD(Queue, queue_next_cid, next_cid);
FIELD(Queue, queue_rung, rung);
FIELD(Queue, queue_ring_lock, ring_lock);
FIELD(Queue, queue_failed, failed);
FIELD(Queue, queue_freed, freed);
FIELD(Queue, queue_cq_head, cq_head);
FIELD(Queue, queue_cq_lock, cq_lock);
FIELD(Queue, queue_spurious, spurious);
FIELD(Queue, queue_doorbells, doorbells);
FIELD(Queue, queue_completions, completions);

TRITIER_EXPORT_CONST(size_drive, sizeof(Drive));
FIELD(Drive, drive_blocks, blocks);
FIELD(Drive, drive_block_size, block_size);
FIELD(Drive, drive_max_blocks, max_blocks);
FIELD(Drive, drive_first_queue, first_queue);
FIELD(Drive, drive_queue_count, queue_count);
FIELD(Drive, drive_id, id);
FIELD(Drive, drive_iova, iova);
FIELD(Drive, drive_lists, lists);

TRITIER_EXPORT_CONST(size_payload, sizeof(Payload));
FIELD(Payload, payload_base, base);
FIELD(Payload, payload_iova, iova);
FIELD(Payload, payload_lists, lists);
FIELD(Payload, payload_bytes, bytes);
FIELD(Payload, payload_list_bytes, list_bytes);
FIELD(Payload, payload_count, count);

TRITIER_EXPORT_CONST(size_engine, sizeof(Engine));
FIELD(Engine, engine_version, version);
FIELD(Engine, engine_drive_count, drive_count);
FIELD(Engine, engine_queue_count, queue_count);
FIELD(Engine, engine_drives, drives);
FIELD(Engine, engine_queues, queues);
FIELD(Engine, engine_requests, requests);
FIELD(Engine, engine_deadline_ns, deadline_ns);
FIELD(Engine, engine_stop, stop);
FIELD(Engine, engine_payload, payload);

TRITIER_EXPORT_CONST(size_request, sizeof(Request));
FIELD(Request, request_sequence, sequence);
FIELD(Request, request_kind, kind);
FIELD(Request, request_argument, argument);
FIELD(Request, request_done, done);
FIELD(Request, request_result, result);
FIELD(Request, request_abandoned, abandoned);
FIELD(Request, request_withdrawn, withdrawn);

TRITIER_EXPORT_CONST(size_ring, sizeof(RequestRing));
FIELD(RequestRing, ring_slots, slots);
FIELD(RequestRing, ring_count, count);
FIELD(RequestRing, ring_tail, tail);
FIELD(RequestRing, ring_head, head);

TRITIER_EXPORT_CONST(status_ok, kOk);
TRITIER_EXPORT_CONST(status_timeout, kTimeout);
TRITIER_EXPORT_CONST(status_queue_failed, kQueueFailed);
TRITIER_EXPORT_CONST(status_device_gone, kDeviceGone);
TRITIER_EXPORT_CONST(status_bad_argument, kBadArgument);
TRITIER_EXPORT_CONST(status_stopped, kStopped);
TRITIER_EXPORT_CONST(status_no_completion, kNoCompletion);
TRITIER_EXPORT_CONST(status_request_failed, kRequestFailed);
TRITIER_EXPORT_CONST(status_busy, kBusy);
TRITIER_EXPORT_CONST(status_not_begun, kNotBegun);
TRITIER_EXPORT_CONST(request_begun, kBegun);

// layout_probe says what a kernel finds behind the address that it was given:
// the version, the counts, and the first queue's id and depth. A test on a GPU
// compares them with what the host has set up.
extern "C" __global__ void layout_probe(const Engine* engine, uint32_t* out) {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    const Queue* q = reinterpret_cast<const Queue*>(engine->queues);
    out[0] = engine->version;
    out[1] = engine->drive_count;
    out[2] = engine->queue_count;
    out[3] = engine->payload.count;
    out[4] = q->id;
    out[5] = q->depth;
    // Pinned memory: a completion queue that nothing has come to, and the stop flag.
    out[6] = *reinterpret_cast<const volatile uint32_t*>(q->cq + 12);
    out[7] = *reinterpret_cast<const volatile uint32_t*>(engine->stop);
}
