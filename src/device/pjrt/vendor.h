/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vendor - declarations that the files of this folder share.
 *
 * A device is a vendor's plugin, opened once and never unloaded (such libraries leave threads and
 * exit handlers behind). A stream is a vendor client with one device, or with several: chips. The
 * first client is made with the device and lives as long as the device, because the facts point
 * into it. It serves as the first stream.
 *
 *     sal_device ── first ──> sal_stream ── PJRT_Client, PJRT_Device
 *                             sal_stream ── ...
 *     sal_loaded ──> its stream;  sal_buffer ──> its stream
 *
 * Versions: we test each entry that some plugin since 0.57 may lack before we call it (VENDOR_HAS).
 * A plugin newer than our header may have longer argument structs and refuse ours as too short. So
 * we pass a zeroed tail behind each struct, which means "not given".
 *
 * Threads: only `spare`, `marks` and `loans` change after open, under the lock; and atomic fields.
 */
#ifndef SAL_DEVICE_PJRT_VENDOR_H
#define SAL_DEVICE_PJRT_VENDOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <pjrt_c_api.h>

#include "device/device.h"
#include "device/option.h"
#include "device/pjrt/bag.h"
#include "device/pjrt/crew.h"
#include "device/pjrt/layouts.h"
#include "device/pjrt/shelf.h"

#define VENDOR_TAIL 128
/* More dimensions than XLA's own literals have. Lists of this length fit on the stack. */
#define VENDOR_RANK_MAX 64
#define VENDOR_LOAN_LISTS 256

LIST_HEAD(vendor_loan_list, vendor_loan);

struct sal_device {
	const PJRT_Api *api;
	size_t tail; /* bytes of VENDOR_TAIL that we announce to the plugin */
	const struct layouts_extension *layouts; /* NULL: not offered */
	const struct ffi_extension *ffi; /* NULL: not offered */
	struct sal_plugin_option *options; /* owned; for each client */
	size_t option_count;
	bool can_raise; /* streams can change their tier */
	bool counts_devices; /* the plugin knows the option cpu_device_count */
	struct sal_stream *first; /* owned */
	struct sal_device_facts facts; /* points into first's client and bag */
	struct vendor_bag bag; /* owned */
	struct vendor_shelf shelf; /* owned */
	pthread_mutex_t lock;
	bool spare; /* first is not in use */
	struct vendor_loan_list loans[VENDOR_LOAN_LISTS]; /* owned; see adopt.c */
	uint32_t marks; /* how many streams got a mark: see crew.h */
	_Atomic uint32_t launches; /* ids of iterations: see execute.c */
};

/* Also a chip of a wide stream: then client, chip, memory and whole are all that it has. */
struct sal_stream {
	struct sal_device *device; /* borrowed */
	struct vendor_crew crew; /* owned; the threads of the client */
	PJRT_Client *client; /* owned; a chip's is borrowed */
	PJRT_Device *chip; /* borrowed: client */
	PJRT_Memory *memory; /* borrowed: client; NULL: the plugin knows none */
	struct sal_stream *whole; /* borrowed: to which a chip belongs; itself otherwise */
	uint32_t chip_count;
	struct sal_stream *others; /* owned; chips 1, 2, ... */
	_Atomic uint32_t callers; /* executions under way that may call Python */
	/* Of a wide stream; see sal_pjrt_describe. */
	struct sal_device_facts facts; /* points into client and bag */
	struct vendor_bag bag; /* owned */
};

struct sal_buffer {
	struct sal_stream *stream; /* borrowed */
	PJRT_Buffer *buffer; /* owned */
	uint64_t host_bytes;
	bool is_immutable; /* its memory is a client's: an upload with SAL_UPLOAD_ALIAS */
};

struct sal_loaded {
	struct sal_stream *stream; /* borrowed */
	PJRT_LoadedExecutable *executable; /* owned */
	bool retains_all; /* the aliases are unknown, so no argument is donated */
	bool may_call; /* it may call Python */
	uint32_t *chips; /* owned; that run the program; NULL: the first, or any if is_portable */
	size_t chip_count;
	bool is_portable;
	size_t output_count;
	uint64_t *output_bytes; /* owned; sizes in host memory */
};

/* Declares `name`, zeroed except for the given fields. Pass &name.args. */
#define VENDOR_ARGS(d, type, name, ...)          \
	struct {                                 \
		type args;                       \
		unsigned char tail[VENDOR_TAIL]; \
	} name = { .args = { .struct_size = type##_STRUCT_SIZE + (d)->tail, __VA_ARGS__ } }

/* True if the plugin has this entry. */
#define VENDOR_HAS(d, entry)                                                             \
	((d)->api->struct_size >= offsetof(PJRT_Api, entry) + sizeof((d)->api->entry) && \
	 (d)->api->entry)

/* api.c. Loads the plugin and checks its version and entries. */
int sal_vendor_load(struct sal_device *d, const char *path, struct sal_err *err);
/* Converts the vendor's error: 0, or a negated code with the vendor's message. Frees the error. */
int sal_vendor_check(const struct sal_device *d, PJRT_Error *error, struct sal_err *err);
/* The same, for calls whose failure has no consequence. */
void sal_vendor_drop(const struct sal_device *d, PJRT_Error *error);
/* Calls done (may be NULL) when the event fires, possibly at once; waits. Both take the event. */
void sal_vendor_when(const struct sal_device *d, PJRT_Event *take_event, sal_done_fn *done,
		     void *ctx);
int sal_vendor_await(const struct sal_device *d, PJRT_Event *take_event, struct sal_err *err);

/* stream.c */
struct sal_stream *sal_pjrt_chip(struct sal_stream *s, uint32_t chip);
/*
 * The chips that run the program, in the bag: *out_count of them. None in a stream with one chip,
 * or if the program is portable.
 */
int sal_vendor_chips(const struct sal_stream *s, PJRT_LoadedExecutable *loaded,
		     struct vendor_bag *bag, uint32_t **out_chips, size_t *out_count,
		     struct sal_err *err);

/* describe.c */
/* Fills the facts of the stream's client and its chips; they point into the client and the bag. */
int sal_vendor_describe(struct sal_stream *s, struct vendor_bag *bag,
			struct sal_device_facts *facts, struct sal_err *err);
int sal_pjrt_describe(struct sal_stream *s, const struct sal_device_facts **out_facts,
		      struct sal_err *err);
int sal_pjrt_memory(struct sal_stream *s, struct sal_stream_memory *out_memory);
int sal_vendor_values(struct vendor_bag *bag, const PJRT_NamedValue *values, size_t count,
		      struct sal_values *out_values, struct sal_err *err);

/* image.c and outcome.c: what a compilation gave */
int sal_vendor_compile(struct sal_stream *s, struct sal_text format, struct sal_text program,
		       struct sal_text options, PJRT_LoadedExecutable **out_loaded,
		       struct sal_err *err);
void sal_vendor_destroy_loaded(const struct sal_device *d, PJRT_LoadedExecutable *loaded);
int sal_vendor_get_executable(const struct sal_device *d, PJRT_LoadedExecutable *loaded,
			      PJRT_Executable **out_executable, struct sal_err *err);
void sal_vendor_destroy_executable(const struct sal_device *d, PJRT_Executable *executable);
/* Type, shape and size of each output, in the bag or borrowed from the executable. */
int sal_vendor_outputs(const struct sal_device *d, PJRT_Executable *executable,
		       struct vendor_bag *bag, struct sal_program_facts *facts,
		       struct sal_err *err);

/* image.c: from a compilation to a loaded program */

enum vendor_image_flag {
	IMAGE_SOURCE = 1, /* contains the program's source: the plugin cannot serialise */
	IMAGE_ALIASES = 2, /* the program's facts name all donated arguments */
};

struct vendor_source {
	struct sal_text format, program, options;
};

/* Compiles without a device (outcome.c): for plugins whose device is not there. */
struct sal_compiled;
int sal_vendor_compile_for(const struct sal_device *d, const PJRT_TopologyDescription *topology,
			   const struct vendor_source *source, struct sal_compiled **out_compiled,
			   struct sal_err *err);
/* Makes an image of the vendor's bytes, or of the source if there are no bytes. */
struct sal_text sal_vendor_image(struct vendor_bag *bag, struct sal_text serialized,
				 const struct vendor_source *source, bool knows_aliases);
int sal_pjrt_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		  struct sal_err *err);
void sal_pjrt_unload(struct sal_loaded *p);

/*
 * buffer.c. Calls `use` with the buffer's bytes, if they are defined, dense, and reachable from this process.
 * The vendor cannot free the buffer during the call.
 */
bool sal_vendor_reach(struct sal_buffer *b, sal_use_fn *use, void *ctx);

/* The size of a dense array in the host's element format. Fails if the array is invalid. */
int sal_vendor_host_bytes(const struct sal_array *array, uint64_t *out_bytes, struct sal_err *err);
int sal_pjrt_upload(struct sal_stream *s, const struct sal_array *array, const void *data,
		    enum sal_upload_mode mode, sal_done_fn *released, void *ctx,
		    struct sal_buffer **out_buffer, struct sal_err *err);
int sal_pjrt_download(struct sal_buffer *b, void *dst, size_t size, sal_done_fn *done, void *ctx,
		      struct sal_err *err);
int sal_pjrt_copy(struct sal_buffer *b, uint32_t memory, struct sal_buffer **out_buffer,
		  struct sal_err *err);
int sal_pjrt_copy_to(struct sal_buffer *b, struct sal_stream *chip, uint32_t memory,
		     struct sal_buffer **out_buffer, struct sal_err *err);
int sal_pjrt_when_ready(struct sal_buffer *b, sal_done_fn *done, void *ctx, struct sal_err *err);
void sal_pjrt_free_buffer(struct sal_buffer *b);

/* execute.c */
int sal_pjrt_execute(struct sal_loaded *p, const struct sal_execution *x, struct sal_err *err);

#endif
