/* SPDX-License-Identifier: Apache-2.0 */
/*
 * messages - what a client and the daemon say to each other. docs/PROTOCOL.md tells the story.
 *
 * Everything is little-endian with natural alignment and no hidden padding; sizes are asserted below and
 * pinned by a golden-bytes test. A record in a ring is a header, a body of its type and a tail of variable
 * length. Records are multiples of eight bytes.
 *
 * Ids of buffers, programs and requests are the client's to choose. Places in the arena are checked
 * against what the daemon gave out. The peer is hostile until proven otherwise: copy, validate, then use.
 */
#ifndef SAL_WIRE_MESSAGES_H
#define SAL_WIRE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SAL_WIRE_MAGIC UINT64_C(0x3153554c4153) /* "SALUS1" */
#define SAL_WIRE_MAJOR 1
#define SAL_WIRE_MINOR 2
/* The minor from which on the holding (link/holding.h) lies behind the rings. */
#define SAL_MINOR_HOLDING 2
/* And from which on a client understands news: a done of request 0 with code 0. */
#define SAL_MINOR_NEWS 2

#define SAL_NAME_BYTES 128
#define SAL_REASON_BYTES 256

/* Bounds every peer may rely on and every receiver enforces. */
#define SAL_RANK_MAX 64
#define SAL_ARGS_MAX 65536
#define SAL_RECORD_MAX (1u << 20)
/* Arrays up to this many bytes ride in the record. */
#define SAL_INLINE_MAX 4096
#define SAL_SEGMENTS_MAX 64

/* --- over the socket -------------------------------------------------------------------------------- */

/* Client to daemon, first thing. An admin client sends a line of JSON instead. */
struct sal_hello {
	uint64_t magic;
	uint32_t major, minor;
	uint32_t size; /* of this struct as the sender knows it */
	uint32_t priority;
	uint32_t weight_milli;
	uint32_t kind; /* 0: training; 1: inference; others read as 0 */
	uint64_t persist_bytes, ephem_bytes; /* declared; 0: not */
	uint64_t total_ns; /* declared; 0: not */
	char name[SAL_NAME_BYTES]; /* ends in NUL */
};

/*
 * Daemon to client, with four descriptors: the rings' memory, the daemon's doorbell, the client's doorbell,
 * the first arena segment. fact_bytes of device facts follow. code is 0, or why not (no descriptors then).
 */
struct sal_welcome {
	uint64_t magic;
	uint32_t major, minor;
	uint32_t size;
	int32_t code;
	uint64_t session;
	uint64_t ring_bytes; /* of each ring's data */
	uint64_t segment_bytes;
	uint64_t fact_bytes;
	uint64_t memory_bytes; /* most the session may hold on the device */
	char reason[SAL_REASON_BYTES];
};

/* Client to daemon, later: the arena is full. Answered by a segment with one descriptor, or a refusal. */
struct sal_grow {
	uint64_t bytes;
};

struct sal_grown {
	int32_t code;
	uint32_t segment;
	uint64_t bytes;
};

/* --- in the rings ------------------------------------------------------------------------------------ */

enum sal_message {
	SAL_MSG_PAD = 0, /* skip to the ring's start */
	/* client to daemon */
	SAL_MSG_COMPILE = 1,
	SAL_MSG_LOAD,
	SAL_MSG_FETCH,
	SAL_MSG_UNLOAD,
	SAL_MSG_UPLOAD,
	SAL_MSG_DOWNLOAD,
	SAL_MSG_EXECUTE,
	SAL_MSG_DELETE,
	SAL_MSG_COPY,
	SAL_MSG_AWAIT,
	SAL_MSG_SUBMIT_END,
	/* daemon to client */
	SAL_MSG_REPLY = 64,
	SAL_MSG_DONE,
	SAL_MSG_RELEASED,
	SAL_MSG_COMPLETE_END,
};

struct sal_header {
	uint32_t size; /* of the whole record, header included */
	uint16_t type; /* enum sal_message */
	uint16_t reserved;
};

/* Bytes in the arena. */
struct sal_place_in_arena {
	uint32_t segment;
	uint32_t reserved;
	uint64_t offset;
	uint64_t size;
};

/* Compile `program` with `options` as program `id`. Reply: sal_msg_reply. */
struct sal_msg_compile {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	struct sal_place_in_arena program, options;
	char format[16]; /* ends in NUL */
};

/* Load a blob that SAL_FETCH_SEALED gave. Reply: sal_msg_reply. */
struct sal_msg_load {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	struct sal_place_in_arena blob;
};

enum sal_fetch {
	SAL_FETCH_FACTS,
	SAL_FETCH_OPTIMIZED,
	SAL_FETCH_SEALED,
	SAL_FETCH_END,
};

/* Copy something about a program into the arena. Reply: sal_msg_reply, value is the size it has. */
struct sal_msg_fetch {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	uint32_t what; /* enum sal_fetch */
	uint32_t reserved;
	struct sal_place_in_arena into; /* size 0: only tell the size */
};

struct sal_msg_unload {
	struct sal_header header;
	uint64_t id;
};

/* New buffer `id`. After rank dims (int64) come the bytes, if `from.size` is 0; else they are in the arena
 * and stay there until SAL_MSG_RELEASED. */
struct sal_msg_upload {
	struct sal_header header;
	uint64_t id;
	int32_t type;
	uint32_t rank;
	uint64_t size;
	struct sal_place_in_arena from;
};

/* Done: sal_msg_done, with the bytes in its tail if `into.size` is 0, else in the arena. */
struct sal_msg_download {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
	uint64_t size;
	struct sal_place_in_arena into;
};

/* Run; outputs become buffers first_output, first_output + 1, ... After it: args (u64), keep (u32). */
struct sal_msg_execute {
	struct sal_header header;
	uint64_t request;
	uint64_t program;
	uint64_t first_output;
	uint32_t output_count;
	uint32_t arg_count;
	uint32_t keep_count; /* arguments not to be donated */
	uint32_t reserved;
};

/* Forget buffers; ids (u64) follow. */
struct sal_msg_delete {
	struct sal_header header;
	uint32_t count;
	uint32_t reserved;
};

/* New buffer `to`, a copy of `from`. */
struct sal_msg_copy {
	struct sal_header header;
	uint64_t from, to;
};

/* Done: sal_msg_done, when the buffer has its contents, or with the reason why it never will. */
struct sal_msg_await {
	struct sal_header header;
	uint64_t request;
	uint64_t id;
};

/* Answer to compile, load and fetch; a sentence follows if code is not 0. */
struct sal_msg_reply {
	struct sal_header header;
	uint64_t request;
	int32_t code;
	uint32_t text_size;
	uint64_t value; /* compile, load: size of the facts; fetch: size of what was asked for */
};

/* An execution, a download or an await ended; tail_size bytes follow: a sentence if code is not 0, else data. */
struct sal_msg_done {
	struct sal_header header;
	uint64_t request;
	int32_t code;
	uint32_t tail_size;
};

/* The daemon no longer uses these bytes of the arena. */
struct sal_msg_released {
	struct sal_header header;
	struct sal_place_in_arena place;
};

_Static_assert(sizeof(struct sal_hello) == 184, "hello");
_Static_assert(sizeof(struct sal_welcome) == 320, "welcome");
_Static_assert(sizeof(struct sal_header) == 8, "header");
_Static_assert(sizeof(struct sal_place_in_arena) == 24, "place");
_Static_assert(sizeof(struct sal_msg_compile) == 88, "compile");
_Static_assert(sizeof(struct sal_msg_load) == 48, "load");
_Static_assert(sizeof(struct sal_msg_fetch) == 56, "fetch");
_Static_assert(sizeof(struct sal_msg_unload) == 16, "unload");
_Static_assert(sizeof(struct sal_msg_upload) == 56, "upload");
_Static_assert(sizeof(struct sal_msg_download) == 56, "download");
_Static_assert(sizeof(struct sal_msg_execute) == 48, "execute");
_Static_assert(sizeof(struct sal_msg_delete) == 16, "delete");
_Static_assert(sizeof(struct sal_msg_copy) == 24, "copy");
_Static_assert(sizeof(struct sal_msg_await) == 24, "await");
_Static_assert(sizeof(struct sal_msg_reply) == 32, "reply");
_Static_assert(sizeof(struct sal_msg_done) == 24, "done");
_Static_assert(sizeof(struct sal_msg_released) == 32, "released");

/* A record of our own copy, checked: known type of that direction, size exact for its counts, bounds kept.
 * What follows the fixed part then lies within the record. */
bool sal_submit_is_valid(const struct sal_header *record);
bool sal_complete_is_valid(const struct sal_header *record);
bool sal_hello_is_valid(const struct sal_hello *hello);

/* Size of a record with so many bytes behind its fixed part. */
static inline uint32_t sal_record_size(size_t fixed, size_t tail)
{
	return (uint32_t)((fixed + tail + 7) & ~(size_t)7);
}

#endif
