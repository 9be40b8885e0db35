/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads, downloads, copies: each is a piece of work for a thread of the client. */
#include "discrete/discrete.h"

#include <string.h>

struct disc_store *disc_allocate(PJRT_Client *c, PJRT_Memory *memory,
				 const struct disc_shape *shape, PJRT_Error **out_error)
{
	bool is_device = memory == &c->memories[0];
	int64_t bytes = is_device ? disc_memory_round(disc_shape_bytes(shape)) : 0;

	*out_error = NULL;
	if (memory->client != c)
		*out_error =
			disc_error(PJRT_Error_Code_UNIMPLEMENTED, "the memory is another client's");
	else if (!disc_memory_take(c, bytes))
		*out_error = disc_memory_full(c, bytes);
	return *out_error ? NULL : disc_store(c, memory, bytes);
}

/* An upload, with copies of all that the caller keeps only during the call. */
struct upload {
	PJRT_Client_BufferFromHostBuffer_Args put; /* for the inner client */
	int64_t dims[DISC_RANK_MAX], strides[DISC_RANK_MAX], order[DISC_RANK_MAX];
	PJRT_Buffer_MemoryLayout layout;
	struct disc_store *store; /* owned */
	PJRT_Event *released; /* owned */
	int64_t bytes;
	PJRT_Buffer *copied; /* owned; the contents, if they were read during the call */
};

/* XLA:CPU has read the host's memory when the call returns. */
static PJRT_Error *read_host(struct upload *u, PJRT_Buffer **out_inner)
{
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Client_BufferFromHostBuffer(&u->put));

	*out_inner = NULL;
	if (error)
		return error;
	*out_inner = u->put.buffer;
	return disc_await_inner(u->put.done_with_host_buffer);
}

static void run_upload(void *ctx)
{
	struct upload *u = ctx;
	PJRT_Error *error = NULL;
	PJRT_Buffer *inner = u->copied;

	disc_memory_transfer(u->store->client, true, u->bytes);
	if (!inner)
		error = read_host(u, &inner);
	disc_store_define(u->store, inner, error);
	disc_event_fire(u->released, PJRT_Error_Code_OK, "");
	disc_error_destroy(error);
	disc_event_unref(u->released);
	disc_store_unref(u->store);
	free(u);
}

static PJRT_Error *copy_layout(struct upload *u, const PJRT_Client_BufferFromHostBuffer_Args *args)
{
	const PJRT_Buffer_MemoryLayout *layout = args->device_layout;

	if (args->num_byte_strides > 0) {
		memcpy(u->strides, args->byte_strides, args->num_dims * sizeof(int64_t));
		u->put.byte_strides = u->strides;
	}
	if (!layout)
		return NULL;
	if (layout->type != PJRT_Buffer_MemoryLayout_Type_Tiled || layout->tiled.num_tiles > 0 ||
	    layout->tiled.minor_to_major_size != args->num_dims)
		return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "layouts with tiles or strides");
	memcpy(u->order, layout->tiled.minor_to_major, args->num_dims * sizeof(int64_t));
	u->layout = *layout;
	u->layout.tiled.minor_to_major = u->order;
	u->put.device_layout = &u->layout;
	return NULL;
}

static PJRT_Error *make_upload(const PJRT_Client_BufferFromHostBuffer_Args *args, struct upload *u)
{
	const PJRT_Client *c = args->client;

	u->put = *args;
	u->put.struct_size = PJRT_Client_BufferFromHostBuffer_Args_STRUCT_SIZE;
	u->put.extension_start = NULL;
	u->put.client = c->inner;
	u->put.device = c->inner_device;
	u->put.memory = c->inner_memory;
	u->put.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
	if (args->num_dims > 0)
		memcpy(u->dims, args->dims, args->num_dims * sizeof(int64_t));
	u->put.dims = u->dims;
	return copy_layout(u, args);
}

static PJRT_Error *start_upload(PJRT_Client_BufferFromHostBuffer_Args *args, struct upload *u)
{
	PJRT_Client *c = args->client;
	PJRT_Memory *memory = args->memory ? args->memory : &c->memories[0];
	struct disc_shape shape = { .type = args->type, .rank = args->num_dims };
	PJRT_Error *error;

	memcpy(shape.dims, u->dims, args->num_dims * sizeof(int64_t));
	u->store = disc_allocate(c, memory, &shape, &error);
	if (error)
		return error;
	u->bytes = memory == &c->memories[0] ? disc_shape_bytes(&shape) : 0;
	if (args->host_buffer_semantics == PJRT_HostBufferSemantics_kImmutableOnlyDuringCall)
		error = read_host(u, &u->copied);
	if (error) {
		disc_inner_destroy(u->copied);
		disc_store_unref(u->store);
		return error;
	}
	u->released = disc_event();
	args->buffer = disc_buffer(disc_store_ref(u->store), &shape);
	args->done_with_host_buffer = disc_event_ref(u->released);
	disc_queue_add(&c->h2d, run_upload, u);
	return NULL;
}

static PJRT_Error *upload(PJRT_Client_BufferFromHostBuffer_Args *args)
{
	PJRT_Error *error;
	struct upload *u;

	DISC_ENTER(PJRT_Client_BufferFromHostBuffer_Args, args);
	if (args->num_dims > DISC_RANK_MAX)
		return disc_error(PJRT_Error_Code_INVALID_ARGUMENT, "too many dimensions");
	u = disc_new(1, sizeof(*u));
	error = make_upload(args, u);
	if (!error)
		error = start_upload(args, u);
	if (error)
		free(u);
	return error;
}

/* Downloads */

struct download {
	struct disc_store *store; /* owned */
	PJRT_Event *done; /* owned */
	void *dst;
	size_t size;
	int64_t bytes;
};

static PJRT_Error *write_host(const struct download *g)
{
	PJRT_Buffer_ToHostBuffer_Args get = {
		.struct_size = PJRT_Buffer_ToHostBuffer_Args_STRUCT_SIZE,
		.src = g->store->inner,
		.dst = g->dst,
		.dst_size = g->size,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Buffer_ToHostBuffer(&get));

	return error ? error : disc_await_inner(get.event);
}

static void run_download(void *ctx)
{
	struct download *g = ctx;
	PJRT_Error *error = disc_event_wait(g->store->defined);

	if (!error) {
		disc_memory_transfer(g->store->client, false, g->bytes);
		error = write_host(g);
	}
	disc_store_leave(g->store);
	disc_store_unref(g->store);
	disc_event_fire(g->done, error ? error->code : PJRT_Error_Code_OK,
			error ? error->text : "");
	disc_error_destroy(error);
	disc_event_unref(g->done);
	free(g);
}

/* The contents may not be donated before the download has read them. */
static void hold(struct disc_store *s)
{
	pthread_mutex_lock(&disc_lock);
	s->readers++;
	pthread_mutex_unlock(&disc_lock);
}

static PJRT_Error *download(PJRT_Buffer_ToHostBuffer_Args *args)
{
	struct disc_store *s;
	struct download *g;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Buffer_ToHostBuffer_Args, args);
	if (!args->dst) {
		args->dst_size = (size_t)disc_shape_host_bytes(&args->src->shape);
		return NULL;
	}
	if (args->host_layout)
		return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "layouts of the host");
	s = disc_buffer_use(args->src, false, &error);
	if (!s)
		return error;
	hold(s);
	g = disc_new(1, sizeof(*g));
	*g = (struct download){ .store = s,
				.done = disc_event(),
				.dst = args->dst,
				.size = args->dst_size,
				.bytes = disc_shape_bytes(&args->src->shape) };
	args->event = disc_event_ref(g->done);
	disc_queue_add(&args->src->client->d2h, run_download, g);
	return NULL;
}

/* Copies on the device */

struct copy {
	struct disc_store *from, *to; /* owned */
};

static PJRT_Error *copy_inner(const struct copy *k, PJRT_Buffer **out_inner)
{
	PJRT_Buffer_CopyToMemory_Args copy = {
		.struct_size = PJRT_Buffer_CopyToMemory_Args_STRUCT_SIZE,
		.buffer = k->from->inner,
		.dst_memory = k->to->client->inner_memory,
	};
	PJRT_Buffer_ReadyEvent_Args ready = {
		.struct_size = PJRT_Buffer_ReadyEvent_Args_STRUCT_SIZE,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Buffer_CopyToMemory(&copy));

	*out_inner = NULL;
	if (error)
		return error;
	*out_inner = ready.buffer = copy.dst_buffer;
	error = disc_wrap(disc_inner->PJRT_Buffer_ReadyEvent(&ready));
	return error ? error : disc_await_inner(ready.event);
}

static void run_copy(void *ctx)
{
	struct copy *k = ctx;
	PJRT_Error *error = disc_event_wait(k->from->defined);
	PJRT_Buffer *inner = NULL;

	if (!error)
		error = copy_inner(k, &inner);
	disc_store_leave(k->from);
	disc_store_unref(k->from);
	disc_store_define(k->to, inner, error);
	disc_store_unref(k->to);
	disc_error_destroy(error);
	free(k);
}

static PJRT_Error *copy_to(PJRT_Buffer *b, PJRT_Memory *memory, PJRT_Buffer **out_buffer)
{
	struct copy k = { 0 };
	PJRT_Error *error;

	k.to = disc_allocate(b->client, memory, &b->shape, &error);
	if (!k.to)
		return error;
	k.from = disc_buffer_use(b, false, &error);
	if (!k.from) {
		disc_store_unref(k.to);
		return error;
	}
	hold(k.from);
	*out_buffer = disc_buffer(disc_store_ref(k.to), &b->shape);
	disc_queue_add(&b->client->compute, run_copy, disc_copy(&k, sizeof(k)));
	return NULL;
}

static PJRT_Error *copy_to_memory(PJRT_Buffer_CopyToMemory_Args *args)
{
	DISC_ENTER(PJRT_Buffer_CopyToMemory_Args, args);
	return copy_to(args->buffer, args->dst_memory, &args->dst_buffer);
}

static PJRT_Error *copy_to_device(PJRT_Buffer_CopyToDevice_Args *args)
{
	DISC_ENTER(PJRT_Buffer_CopyToDevice_Args, args);
	return copy_to(args->buffer, &args->dst_device->client->memories[0], &args->dst_buffer);
}

void disc_transfer_entries(PJRT_Api *api)
{
	api->PJRT_Client_BufferFromHostBuffer = upload;
	api->PJRT_Buffer_ToHostBuffer = download;
	api->PJRT_Buffer_CopyToMemory = copy_to_memory;
	api->PJRT_Buffer_CopyToDevice = copy_to_device;
}
