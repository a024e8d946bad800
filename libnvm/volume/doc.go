// Package volume keeps arrays of pages on NVMe namespaces or files: tier 3.
//
// A Volume stripes pages over its members, page by page. It holds named arrays,
// created with a fixed number of pages that read as zeroes. A Queue moves pages
// in asynchronous batches, each with a deadline and a result per page. The
// on-disk format is described in FORMAT.md.
//
// # What is durable, and when
//
// CreateArray and DeleteArray are durable and atomic when they return. A page
// write is durable once a Flush that began after its completion returns. After
// a crash a page that was written since holds its old content, one of those that
// were written to it, or, where a write was cut in the middle, a mixture.
//
// # Writes that time out
//
// A write that timed out is not over for the drive: it may land at any time
// until the drive's controller, or the queue, was reset. Until then its page is
// fenced: further writes of it through any queue get a *FencedPageError, no array
// is made over it, Flush returns a *DurabilityError that names it, and it reads as
// its old content or that of the write, which is no corruption. Volume.Recover
// resets the controllers that the volume owns, those of OpenFiles among them; for
// others reset the controller where it was opened. Both lift the fence. Metadata
// that timed out is guarded in the same way, by ErrHeld. A producer that bypasses
// the volume, see Array.Layout, has to keep this order by itself.
//
// # Metadata
//
// Labels, directory, intent log and checksum table are read and written, and
// members flushed, by calls that wait: each operation for at most 30 s, or what
// Options.MetadataTimeout, OpenOptions.MetadataTimeout or Volume.SetMetadataTimeout
// says. Within this time an operation that the member answers with a status
// without DNR ("do not retry"), such as Internal Error, is sent again, at most
// twice. A status with DNR fails the call at once, and so does a flush with the
// status of a medium, since writes were lost then. An operation that timed out, or
// that a reset ended, is never sent again: it may still land. Pages of batches are
// sent once only; the caller, who has each page's error, decides about them.
//
// # Checksums
//
// A volume made with Options.Checksums verifies every page that it reads:
//
//   - *CorruptPageError: the storage changed the page;
//   - *TornPageError: its last write was interrupted, by a crash or an error;
//     writing it again repairs it;
//   - *ChecksumTableError: the checksum itself was lost, with both copies of its
//     block; the page may well be whole, and writing it again repairs it. Damage to
//     one copy is repaired and counted by Scrub, see ScrubReport.
//
// A crash is never reported as corruption: before a page is written, the
// checksum that it is going to have is made durable in an intent log, and Open
// settles every page of the log after a crash. Without checksums a torn page
// cannot be told from a whole one.
//
// # Who may call what
//
// Methods of Volume and Array may be called from any goroutine. A Queue belongs
// to one goroutine at a time. Nothing here starts a goroutine of its own; the
// software controllers of OpenFiles have service threads. While Recover runs no
// goroutine may be inside a method of a Queue.
package volume
