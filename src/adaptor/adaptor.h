/* SPDX-License-Identifier: Apache-2.0 */
/*
 * adaptor - what the files of libsalus_pjrt.so share.
 *
 * The library is a guest in somebody else's process: libc only, no signal handlers, no output but what the
 * daemon has to tell the job's user, quiet at fork and exit. It never aborts. JAX aborts the process when a
 * metadata or lifetime call fails, so those are answered from what is known locally and cannot fail; a dead
 * daemon shows only through Execute, transfers and events, as UNAVAILABLE.
 *
 *     api.c         the table of functions
 *     error.c       PJRT_Error
 *     promise.c     something that will be so: PJRT_Event is a view of one
 *     conn.c        the connection: rings, the reader thread
 *     greeting.c    what it begins with
 *     requests.c    what is not yet answered
 *     arena.c       the client's side of the shared memory for bulk data
 *     client.c      PJRT_Client, devices, memories, topology
 *     program.c     PJRT_Executable, PJRT_LoadedExecutable
 *     facts.c       what is known about them
 *     execute.c     running one
 *     prefetch.c    small results that a job reads each time
 *     buffer.c      PJRT_Buffer
 *     transfer.c    uploads and downloads
 *     strided.c     arrays whose bytes lie in another order
 *     host.c        the address of a buffer's bytes in this process
 *     layouts.c     the Layouts extension
 */
#ifndef SAL_ADAPTOR_ADAPTOR_H
#define SAL_ADAPTOR_ADAPTOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/err.h"
#include "base/facts.h"
#include "link/holding.h"
#include "link/ring.h"
#include "pjrt_c_api.h"
#include "wire/messages.h"

/* --- errors --------------------------------------------------------------------------------------- */

/* NULL for code 0. A failed allocation gives a static error, which destroy leaves alone. */
PJRT_Error *adp_error(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
PJRT_Error *adp_error_from(const struct sal_err *err);
/* Its code and text, which live as long as it does; 0 for none. */
void adp_error_read(const PJRT_Error *error, int *out_code, const char **out_text);
PJRT_Error *adp_out_of_memory(void);

void adp_Error_Destroy(PJRT_Error_Destroy_Args *args);
void adp_Error_Message(PJRT_Error_Message_Args *args);
PJRT_Error *adp_Error_GetCode(PJRT_Error_GetCode_Args *args);

/* --- promises ------------------------------------------------------------------------------------- */

struct adp_conn;

/*
 * Kept once, with a code; callbacks run exactly once, outside any lock. Reference counted: the request that
 * will keep it, buffers and events each hold one.
 */
struct adp_promise;

/* conn may be NULL: nobody to poll. NULL for lack of memory. */
struct adp_promise *adp_promise_create(struct adp_conn *conn);
struct adp_promise *adp_promise_ref(struct adp_promise *p);
void adp_promise_unref(struct adp_promise *p);
/* Later calls change nothing. message may be NULL. */
void adp_promise_keep(struct adp_promise *p, int code, const char *message);
bool adp_promise_is_kept(struct adp_promise *p);
/* The buffer will be if it is kept well; else its bytes count as in use no longer. Before anybody can keep it. */
void adp_promise_bind(struct adp_promise *p, PJRT_Buffer *buffer);
/* Before the buffer goes. */
void adp_promise_unbind(struct adp_promise *p, PJRT_Buffer *buffer);
/* Waits a moment by polling the connection: for callers that are about to wait anyway. */
void adp_promise_poll(struct adp_promise *p);
/* Waits; returns its code. */
int adp_promise_wait(struct adp_promise *p);
/* Fresh error, or NULL if it was kept well. Only once kept. */
PJRT_Error *adp_promise_error(struct adp_promise *p);
/* Calls with the error or NULL when it is kept, or now if it is. False for lack of memory. */
bool adp_promise_then(struct adp_promise *p, PJRT_Event_OnReadyCallback call, void *arg);

/* An event of its own for the caller; takes the reference. NULL for lack of memory. */
PJRT_Event *adp_event_create(struct adp_promise *take_promise, bool waited_for);

PJRT_Error *adp_Event_Destroy(PJRT_Event_Destroy_Args *args);
PJRT_Error *adp_Event_IsReady(PJRT_Event_IsReady_Args *args);
PJRT_Error *adp_Event_Error(PJRT_Event_Error_Args *args);
PJRT_Error *adp_Event_Await(PJRT_Event_Await_Args *args);
PJRT_Error *adp_Event_OnReady(PJRT_Event_OnReady_Args *args);

/* --- the connection ------------------------------------------------------------------------------- */

/* A reply as the reader found it; tail lives for the call. */
struct adp_answer {
	int code;
	const char *text; /* if code is not 0 */
	uint64_t value;
	const void *tail;
	size_t tail_size;
};

/* Called once, from whatever thread took the record, with no lock held. */
typedef void adp_answer_fn(void *ctx, const struct adp_answer *answer);

int adp_conn_open(const char *path, const struct sal_hello *hello, struct adp_conn **out_conn,
		  struct sal_err *err);
/* Everything pending fails with UNAVAILABLE, and what comes later; the reader ends. The reference stays. */
void adp_conn_close(struct adp_conn *conn);
struct adp_conn *adp_conn_ref(struct adp_conn *conn);
void adp_conn_unref(struct adp_conn *conn);
/* Packed device facts; valid while the connection is referenced. */
struct sal_text adp_conn_facts(struct adp_conn *conn);
/* What the daemon tells of the session's memory at any time; NULL: an older one, which does not. */
const struct sal_holding *adp_conn_holding(const struct adp_conn *conn);
/* Most the session may hold on the device, as it was at the greeting. */
uint64_t adp_conn_memory(struct adp_conn *conn);
bool adp_conn_is_dead(struct adp_conn *conn);
/* In a forked child: nothing can be answered any more. */
bool adp_conn_is_forked(const struct adp_conn *conn);

/* A number for a record's request; fn is called with the answer, or UNAVAILABLE. 0: it will not be. */
uint64_t adp_request(struct adp_conn *conn, adp_answer_fn *fn, void *ctx);
/* Take it back: nothing was sent. False if it was answered meanwhile: the daemon died. */
bool adp_request_drop(struct adp_conn *conn, uint64_t request);

/*
 * Room for a record in the submission ring; the ring is ours until adp_send. Waits for room. NULL if the
 * daemon is gone.
 */
void *adp_reserve(struct adp_conn *conn, uint16_t type, uint32_t size);
/* urgent: wake the daemon if it sleeps; else it will see it in time. */
void adp_send(struct adp_conn *conn, bool urgent);

uint64_t adp_next_id(struct adp_conn *conn, uint32_t count);
/*
 * Take completions until *kept, for as long as waits have been worth polling lately. Saves two thread
 * switches when the answer is near; gives up quickly when it is not.
 */
void adp_conn_poll_for(struct adp_conn *conn, const _Atomic bool *kept);
void adp_conn_learn_wait(struct adp_conn *conn, uint64_t ns);
uint64_t adp_now_ns(void);
PJRT_Error *adp_unavailable(struct adp_conn *conn);
/* Why adp_request gave no number: the daemon is gone, or there is no memory. */
PJRT_Error *adp_no_request(struct adp_conn *conn);

/* --- the arena ------------------------------------------------------------------------------------- */

/* Bytes of the arena that are ours; `at` is where they are mapped. */
struct adp_range {
	struct sal_place_in_arena place;
	void *at;
};

struct adp_arena;
struct adp_arena *adp_arena_create(void);
void adp_arena_destroy(struct adp_arena *arena);
int adp_arena_add(struct adp_arena *arena, int take_fd, uint64_t bytes, struct sal_err *err);
/* False if there is no room in the segments there are. */
bool adp_arena_try(struct adp_arena *arena, uint64_t size, struct adp_range *out_range);
/* Places not given out are ignored: the daemon cannot confuse us. */
void adp_arena_free(struct adp_arena *arena, const struct sal_place_in_arena *place);

/* Asks the daemon for more if need be. */
int adp_range_alloc(struct adp_conn *conn, uint64_t size, struct adp_range *out_range,
		    struct sal_err *err);
void adp_range_free(struct adp_conn *conn, const struct adp_range *range);

/* --- objects ---------------------------------------------------------------------------------------- */

struct PJRT_DeviceDescription {
	PJRT_Client *client;
};

struct PJRT_Device {
	PJRT_Client *client;
};

struct PJRT_Memory {
	PJRT_Client *client;
	const struct sal_memory_facts *facts;
};

struct PJRT_TopologyDescription {
	PJRT_Client *client;
};

#define ADP_MEMORIES_MAX 8

struct PJRT_Client {
	_Atomic int
		refs; /* the host's, and those of buffers and programs: at exit they may go later */
	struct adp_conn *conn; /* owned */
	struct sal_device_facts *facts; /* owned; points into the connection's bytes */
	char *version; /* owned; the vendor's, and that it is ours: see client.c */
	PJRT_Device device;
	PJRT_Device *devices[1];
	PJRT_DeviceDescription description;
	PJRT_DeviceDescription *descriptions[1];
	PJRT_TopologyDescription topology;
	PJRT_Memory memories[ADP_MEMORIES_MAX];
	PJRT_Memory *memory_list[ADP_MEMORIES_MAX];
	size_t memory_count;
	PJRT_NamedValue *device_attributes, *topology_attributes; /* owned */
	_Atomic int64_t live_bytes; /* of buffers that are there or on their way */
	_Atomic int64_t peak_bytes; /* the most that was; for daemons that do not tell */
	_Atomic int64_t staying_bytes; /* of the arena, for copies of buffers; see host.c */
	_Atomic uint64_t
		deleted_bytes; /* of buffers deleted since the daemon was last woken for it */
};

struct PJRT_Buffer {
	PJRT_Client *client; /* owned reference */
	uint64_t id;
	PJRT_Buffer_Type type;
	size_t rank;
	int64_t *dims; /* points behind the struct */
	int64_t *minor_to_major; /* likewise: the order in which the device keeps them */
	uint64_t bytes; /* on the device */
	PJRT_Memory *memory;
	struct adp_promise *ready; /* owned; NULL: nobody has asked, see buffer.c */
	LIST_ENTRY(PJRT_Buffer) bound; /* in ready's list */
	bool is_output; /* ready is its execution's */
	_Atomic bool counted; /* in client->live_bytes */
	_Atomic uint64_t mark; /* of the last Execute that donates it */
	_Atomic bool deleted;
	pthread_mutex_t host_lock;
	void *host; /* owned; its bytes in this process, once somebody asked where they are */
	struct adp_range range; /* where, if in the arena */
	_Atomic int pins; /* those who use them */
	struct adp_habit *habit; /* owned reference; NULL: not a small output; see prefetch.h */
	size_t output; /* its number there */
	struct adp_prefetch *prefetch; /* owned reference, or NULL */
};

/* The immutable description, shared by the executable and loaded executable objects. */
/* The optimised program. Does not change once it is known. */
struct adp_optimized {
	uint64_t size;
	void *bytes; /* owned; NULL: too many to be kept */
};

struct adp_program {
	_Atomic int refs;
	struct adp_conn *conn; /* owned */
	PJRT_Client *client; /* owned reference */
	uint64_t id;
	struct sal_program_facts *facts; /* owned */
	void *fact_bytes; /* owned */
	PJRT_NamedValue *costs; /* owned */
	PJRT_Buffer_Type *types; /* owned */
	int64_t *dims; /* owned */
	size_t *ranks; /* owned */
	const char **kinds; /* owned */
	size_t *kind_sizes; /* owned */
	pthread_mutex_t layout_lock;
	int64_t *minor_to_major; /* owned; of all outputs, as dims */
	void **layouts; /* owned; made when asked for, see layouts.c */
	struct adp_habit *habit; /* owned reference, or NULL: see prefetch.h */
	_Atomic(struct adp_optimized *) optimized; /* owned; NULL: nobody has asked yet */
	_Atomic bool deleted;
};

struct PJRT_Executable {
	struct adp_program *program; /* owned reference */
};

struct PJRT_LoadedExecutable {
	struct adp_program *program; /* owned reference */
};

PJRT_Client *adp_client_ref(PJRT_Client *client);
void adp_client_unref(PJRT_Client *client);
PJRT_Memory *adp_memory_of_kind(PJRT_Client *client, struct sal_text kind);
PJRT_NamedValue *adp_named_values(struct sal_values values);

/* A new buffer; the promise's reference is taken, it may be NULL: the daemon is asked when somebody wants to know.
 * NULL for lack of memory. */
struct adp_shape {
	PJRT_Buffer_Type type;
	size_t rank;
	const int64_t *dims;
	PJRT_Memory *memory;
	const int64_t *minor_to_major; /* NULL: row-major */
};
PJRT_Buffer *adp_buffer_create(PJRT_Client *client, uint64_t id, const struct adp_shape *shape,
			       struct adp_promise *take_ready);
/* Its upload or copy was sent. Of a large one we want to know at once if it was refused. */
void adp_buffer_sent(PJRT_Buffer *buffer);
/* Gives its bytes back in the statistics, once. */
void adp_buffer_uncount(PJRT_Buffer *buffer);
/* Marks it deleted and uncounts it; true if it was not before. */
bool adp_buffer_forget(PJRT_Buffer *buffer);
uint64_t adp_host_bytes(PJRT_Buffer_Type type, const int64_t *dims, size_t rank);

/* --- the functions of the table, by file --------------------------------------------------------------- */

/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define ADP_FUNCTION(name) PJRT_Error *adp_##name(PJRT_##name##_Args *args)

/* client.c */
ADP_FUNCTION(Plugin_Initialize);
ADP_FUNCTION(Plugin_Attributes);
ADP_FUNCTION(Client_Create);
ADP_FUNCTION(Client_Destroy);
ADP_FUNCTION(Client_PlatformName);
ADP_FUNCTION(Client_ProcessIndex);
ADP_FUNCTION(Client_PlatformVersion);
ADP_FUNCTION(Client_Devices);
ADP_FUNCTION(Client_AddressableDevices);
ADP_FUNCTION(Client_LookupDevice);
ADP_FUNCTION(Client_LookupAddressableDevice);
ADP_FUNCTION(Client_AddressableMemories);
ADP_FUNCTION(Client_DefaultDeviceAssignment);
ADP_FUNCTION(Client_TopologyDescription);
ADP_FUNCTION(Client_UpdateGlobalProcessInfo);
ADP_FUNCTION(Client_DmaMap);
ADP_FUNCTION(Client_DmaUnmap);
ADP_FUNCTION(DeviceDescription_Id);
ADP_FUNCTION(DeviceDescription_ProcessIndex);
ADP_FUNCTION(DeviceDescription_Attributes);
ADP_FUNCTION(DeviceDescription_Kind);
ADP_FUNCTION(DeviceDescription_DebugString);
ADP_FUNCTION(DeviceDescription_ToString);
ADP_FUNCTION(Device_GetDescription);
ADP_FUNCTION(Device_IsAddressable);
ADP_FUNCTION(Device_LocalHardwareId);
ADP_FUNCTION(Device_AddressableMemories);
ADP_FUNCTION(Device_DefaultMemory);
ADP_FUNCTION(Device_MemoryStats);
ADP_FUNCTION(Memory_Id);
ADP_FUNCTION(Memory_Kind);
ADP_FUNCTION(Memory_Kind_Id);
ADP_FUNCTION(Memory_DebugString);
ADP_FUNCTION(Memory_ToString);
ADP_FUNCTION(Memory_AddressableByDevices);
ADP_FUNCTION(TopologyDescription_Destroy);
ADP_FUNCTION(TopologyDescription_PlatformName);
ADP_FUNCTION(TopologyDescription_PlatformVersion);
ADP_FUNCTION(TopologyDescription_GetDeviceDescriptions);
ADP_FUNCTION(TopologyDescription_Serialize);
ADP_FUNCTION(TopologyDescription_Attributes);
/* program.c, facts.c */
ADP_FUNCTION(Client_Compile);
ADP_FUNCTION(Executable_DeserializeAndLoad);
ADP_FUNCTION(Executable_Destroy);
ADP_FUNCTION(Executable_Name);
ADP_FUNCTION(Executable_NumReplicas);
ADP_FUNCTION(Executable_NumPartitions);
ADP_FUNCTION(Executable_NumOutputs);
ADP_FUNCTION(Executable_SizeOfGeneratedCodeInBytes);
ADP_FUNCTION(Executable_GetCostAnalysis);
ADP_FUNCTION(Executable_OutputMemoryKinds);
ADP_FUNCTION(Executable_OutputElementTypes);
ADP_FUNCTION(Executable_OutputDimensions);
ADP_FUNCTION(Executable_OptimizedProgram);
ADP_FUNCTION(Executable_Serialize);
ADP_FUNCTION(Executable_Fingerprint);
ADP_FUNCTION(Executable_GetCompiledMemoryStats);
ADP_FUNCTION(LoadedExecutable_Destroy);
ADP_FUNCTION(LoadedExecutable_GetExecutable);
ADP_FUNCTION(LoadedExecutable_AddressableDevices);
ADP_FUNCTION(LoadedExecutable_Delete);
ADP_FUNCTION(LoadedExecutable_IsDeleted);
ADP_FUNCTION(LoadedExecutable_Fingerprint);
ADP_FUNCTION(LoadedExecutable_GetDeviceAssignment);
/* execute.c */
ADP_FUNCTION(LoadedExecutable_Execute);
ADP_FUNCTION(ExecuteContext_Create);
ADP_FUNCTION(ExecuteContext_Destroy);
/* buffer.c */
ADP_FUNCTION(Buffer_Destroy);
ADP_FUNCTION(Buffer_ElementType);
ADP_FUNCTION(Buffer_Dimensions);
ADP_FUNCTION(Buffer_UnpaddedDimensions);
ADP_FUNCTION(Buffer_DynamicDimensionIndices);
ADP_FUNCTION(Buffer_GetMemoryLayout);
ADP_FUNCTION(Buffer_OnDeviceSizeInBytes);
ADP_FUNCTION(Buffer_Device);
ADP_FUNCTION(Buffer_Memory);
ADP_FUNCTION(Buffer_Delete);
ADP_FUNCTION(Buffer_IsDeleted);
ADP_FUNCTION(Buffer_IsOnCpu);
ADP_FUNCTION(Buffer_ReadyEvent);
ADP_FUNCTION(Buffer_CopyToDevice);
ADP_FUNCTION(Buffer_CopyToMemory);
/* transfer.c */
ADP_FUNCTION(Client_BufferFromHostBuffer);
ADP_FUNCTION(Client_CreateViewOfDeviceBuffer);
ADP_FUNCTION(Client_CreateUninitializedBuffer);
ADP_FUNCTION(Buffer_ToHostBuffer);
ADP_FUNCTION(Buffer_CopyRawToHost);

/* host.c */
ADP_FUNCTION(Buffer_UnsafePointer);
ADP_FUNCTION(Buffer_IncreaseExternalReferenceCount);
ADP_FUNCTION(Buffer_DecreaseExternalReferenceCount);
ADP_FUNCTION(Buffer_OpaqueDeviceMemoryDataPointer);
/* Waits for the bytes of b, in the device's order, at dst; range is dst's, if it is in the arena. */
PJRT_Error *adp_download_into(PJRT_Buffer *b, void *dst, const struct adp_range *range);
void adp_host_free(PJRT_Buffer *buffer);
bool adp_is_host_platform(const PJRT_Client *client);

/* layouts.c */
/* Bits of an element if that is less than a byte; 0: whole bytes. */
unsigned adp_sub_byte_bits(PJRT_Buffer_Type type);
/* Fills in the order of dimensions that a serialised layout names; false if it names none. */
bool adp_layout_parse(struct sal_text text, size_t rank, int64_t *out_minor_to_major);
extern PJRT_Extension_Base *const adp_extensions;

#endif
