/* SPDX-License-Identifier: Apache-2.0 */
/*
 * discrete - a PJRT plugin for tests: XLA:CPU with the manners of a GPU.
 *
 * The plugin loads XLA:CPU's plugin ("inner") and puts handles of its own around the inner ones:
 *
 *     PJRT_Client ── PJRT_Device ── two PJRT_Memory: device, pinned_host
 *        │  └── three queues, each with a thread: compute, h2d, d2h
 *     PJRT_Buffer ──> disc_store ── inner buffer, the event that says when it is defined
 *     PJRT_LoadedExecutable, PJRT_Executable ──> the inner ones
 *
 * Its manners:
 *   - It has no address of its memory to give, and never uses the host's memory: every upload is a
 *     copy, and reads the host's memory as late as it may.
 *   - Its memory has a limit, for all clients of the process. Beyond it: RESOURCE_EXHAUSTED. Each
 *     allocation is a multiple of DISC_GRAIN bytes.
 *   - Transfers take time, if a bandwidth is given. Execute returns at once.
 *   - Each callback comes on one thread, the reporter. A call into the plugin from there (except
 *     for the functions of errors) aborts the process.
 *   - It claims a newer API version than our header's. Its argument structs and the values in its
 *     lists are longer, and it refuses shorter arguments.
 *   - It refuses options that it does not know, and a client without memory_limit.
 *
 * Options: memory_limit (int, bytes; needed), bandwidth (int, bytes a second; 0: no limit),
 * hidden_scratch (int, bytes that each run takes beyond what its program states), late_free (int,
 * milliseconds for which a run that has ended keeps its arguments), platform (text), late_errors
 * (bool: Execute reports a lack of memory by its events, not by its result), and those of CUDA,
 * which change nothing: allocator (text), preallocate (bool), memory_fraction (float),
 * visible_devices (list).
 *
 * Environment, read once: SAL_DISCRETE_CUDA makes it show the attribute cuda_version, and refuse a
 * client without allocator=cuda_async and preallocate=false.
 *
 * Threads: any. One lock guards everything that changes; no call to XLA:CPU is made under it.
 */
#ifndef SAL_TESTS_DISCRETE_DISCRETE_H
#define SAL_TESTS_DISCRETE_DISCRETE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/queue.h>

#include <pjrt_c_api.h>

#define DISC_MINOR 106 /* the version that we claim */
#define DISC_GROWTH 16 /* bytes that each of our structs has more than the header's */
#define DISC_GRAIN 256 /* bytes of the smallest allocation */
#define DISC_RANK_MAX 64
#define DISC_TEXT_BYTES 256

/* Errors and the inner plugin: error.c */

struct PJRT_Error {
	PJRT_Error_Code code;
	char text[DISC_TEXT_BYTES];
};

/* The inner plugin's functions; NULL before disc_load. */
extern const PJRT_Api *disc_inner;

PJRT_Error *disc_load(void);
PJRT_Error *disc_error(PJRT_Error_Code code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Turns an inner error, or NULL, into one of ours. Frees the inner error. */
PJRT_Error *disc_wrap(PJRT_Error *take_inner);
void disc_error_destroy(PJRT_Error *take_error);
/* Waits for an inner event and frees it. Accepts NULL. */
PJRT_Error *disc_await_inner(PJRT_Event *take_inner);
/* Prints why and aborts. */
_Noreturn void disc_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts an entry: not on the reporter, and with a struct of our length. */
#define DISC_ENTER(type, args)                                                            \
	do {                                                                              \
		disc_refuse_reporter(#type);                                              \
		if ((args)->struct_size < type##_STRUCT_SIZE + DISC_GROWTH)               \
			return disc_error(PJRT_Error_Code_INVALID_ARGUMENT,               \
					  "Unexpected " #type " size: expected %zu, got " \
					  "%zu. The plugin is newer than its caller.",    \
					  (size_t)type##_STRUCT_SIZE + DISC_GROWTH,       \
					  (args)->struct_size);                           \
	} while (0)

/* Events and the reporter: event.c */

/* The lock of everything, and a condition for everything that somebody may wait for. */
extern pthread_mutex_t disc_lock;
extern pthread_cond_t disc_changed;

void disc_refuse_reporter(const char *what);

/* A new event, with a reference for the caller. Aborts if there is no memory. */
PJRT_Event *disc_event(void);
PJRT_Event *disc_event_ref(PJRT_Event *event);
void disc_event_unref(PJRT_Event *event);
/* code is 0 or an error's. Callbacks follow on the reporter. */
void disc_event_fire(PJRT_Event *event, PJRT_Error_Code code, const char *text);
/* Waits. NULL, or an error that the caller owns. */
PJRT_Error *disc_event_wait(PJRT_Event *event);

/* Work for a thread, in order: queue.c */

typedef void disc_work_fn(void *ctx);

struct disc_work {
	STAILQ_ENTRY(disc_work) link;
	disc_work_fn *run;
	void *ctx;
};

struct disc_queue {
	STAILQ_HEAD(, disc_work) works; /* under disc_lock; owned */
	bool ends;
	pthread_cond_t wake; /* its thread, and no other one */
	pthread_t thread;
};

void disc_queue_start(struct disc_queue *q);
/* Waits for all work. */
void disc_queue_stop(struct disc_queue *q);
void disc_queue_add(struct disc_queue *q, disc_work_fn *run, void *ctx);
/* Allocates zeroed memory, or aborts: the tests have enough. */
void *disc_new(size_t count, size_t size);
void *disc_copy(const void *from, size_t size);

/* Clients, devices, memories: client.c, options.c */

struct PJRT_Memory {
	PJRT_Client *client;
	int id;
	const char *kind;
};

struct PJRT_DeviceDescription {
	PJRT_Client *client;
};

struct PJRT_Device {
	PJRT_Client *client;
	PJRT_DeviceDescription about;
};

struct disc_options {
	int64_t memory_limit, bandwidth, hidden_scratch, late_free;
	char platform[32], allocator[32];
	bool late_errors, preallocate;
};

struct PJRT_Client {
	struct disc_options options;
	PJRT_Client *inner; /* owned */
	PJRT_Device *inner_device; /* borrowed: inner */
	PJRT_Memory *inner_memory; /* borrowed: inner */
	PJRT_Device device;
	PJRT_Memory memories[2]; /* device, pinned_host */
	PJRT_Device *devices[1];
	PJRT_Memory *memory_list[2];
	struct disc_queue compute, h2d, d2h;
	/* under disc_lock */
	int64_t used_bytes, peak_bytes, largest_bytes, allocations;
	unsigned int stores; /* that are alive */
};

PJRT_Error *disc_options_read(const PJRT_NamedValue *values, size_t count,
			      struct disc_options *out);
bool disc_is_cuda(void);

/* Memory: memory.c */

/* The clients that are alive share one limit. Fails if theirs is another. */
PJRT_Error *disc_memory_join(const PJRT_Client *c);
void disc_memory_leave(void);
/* The bytes that an allocation takes. */
int64_t disc_memory_round(int64_t bytes);
/* Takes bytes, or gives them back if negative. False: beyond the limit; nothing changes. */
bool disc_memory_take(PJRT_Client *c, int64_t bytes);
/* The error of a failed allocation. */
PJRT_Error *disc_memory_full(const PJRT_Client *c, int64_t bytes);
/* Occupies the link to the host, and sleeps until the transfer would be complete. */
void disc_memory_transfer(const PJRT_Client *c, bool to_device, int64_t bytes);

/* Buffers: store.c, buffer.c, transfer.c, manager.c */

struct disc_shape {
	PJRT_Buffer_Type type;
	size_t rank;
	int64_t dims[DISC_RANK_MAX];
};

/* Contents in a memory. It lives as long as a handle or a piece of work uses it. */
struct disc_store {
	PJRT_Client *client; /* borrowed */
	PJRT_Memory *memory; /* borrowed */
	PJRT_Buffer *inner; /* owned; set before `defined` fires, if that is no failure */
	PJRT_Event *defined; /* owned */
	/* under disc_lock */
	unsigned int refs, readers; /* readers: work that reads inner */
	int64_t bytes; /* taken from the device's memory */
};

struct PJRT_Buffer {
	PJRT_Client *client; /* borrowed */
	struct disc_store *store; /* owned reference; NULL: deleted or donated; under disc_lock */
	PJRT_Memory *memory; /* borrowed */
	struct disc_shape shape;
};

/* Bytes on the device, and on the host. */
int64_t disc_shape_bytes(const struct disc_shape *shape);
int64_t disc_shape_host_bytes(const struct disc_shape *shape);

/* `bytes` are already taken from the memory; the store gives them back. */
struct disc_store *disc_store(PJRT_Client *c, PJRT_Memory *memory, int64_t bytes);
struct disc_store *disc_store_ref(struct disc_store *s);
void disc_store_unref(struct disc_store *s);
/* Defines the contents, or their failure if error is not NULL. */
void disc_store_define(struct disc_store *s, PJRT_Buffer *take_inner, const PJRT_Error *error);
/* Waits until the contents are defined, and keeps them until disc_store_leave. */
PJRT_Error *disc_store_read(struct disc_store *s);
void disc_store_leave(struct disc_store *s);

/* Takes memory of the right kind for a buffer. NULL with an error if there is none. */
struct disc_store *disc_allocate(PJRT_Client *c, PJRT_Memory *memory,
				 const struct disc_shape *shape, PJRT_Error **out_error);

PJRT_Buffer *disc_buffer(struct disc_store *take_store, const struct disc_shape *shape);
/* A reference to the contents, or NULL with an error. Takes the handle's own if it is donated. */
struct disc_store *disc_buffer_use(PJRT_Buffer *b, bool is_donated, PJRT_Error **out_error);
void disc_inner_destroy(PJRT_Buffer *inner);

void disc_buffer_entries(PJRT_Api *api);
void disc_transfer_entries(PJRT_Api *api);
void disc_manager_entries(PJRT_Api *api);
void disc_event_entries(PJRT_Api *api);
void disc_error_entries(PJRT_Api *api);
void disc_client_entries(PJRT_Api *api);

/* Programs: program.c, execute.c */

struct PJRT_Executable {
	PJRT_Executable *inner; /* owned */
	PJRT_NamedValue *costs; /* owned; see disc_values */
	const char **kinds; /* owned */
	size_t *kind_sizes; /* owned */
};

struct PJRT_LoadedExecutable {
	PJRT_Client *client; /* borrowed */
	PJRT_LoadedExecutable *inner; /* owned */
	struct disc_shape *outputs; /* owned */
	size_t output_count, parameter_count;
	uint32_t *donated; /* owned; parameters, ascending */
	size_t donated_count;
	int64_t temp_bytes;
	unsigned int refs; /* under disc_lock */
};

void disc_loaded_unref(PJRT_LoadedExecutable *p);
void disc_program_entries(PJRT_Api *api);
void disc_execute_entries(PJRT_Api *api);
void disc_describe_entries(PJRT_Api *api);
/* What an execution needs to know of a program. */
PJRT_Error *disc_loaded_describe(PJRT_LoadedExecutable *p);

/*
 * A copy of a list of values in which each value is longer than in our header. The caller frees
 * it.
 */
PJRT_NamedValue *disc_values(const PJRT_NamedValue *values, size_t count);
PJRT_NamedValue *disc_value_at(PJRT_NamedValue *values, size_t index);

#endif
