/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer whose bytes come later, in the device's own order: one buffer, one transfer. */
#include "discrete/discrete.h"

struct PJRT_AsyncHostToDeviceTransferManager {
	PJRT_AsyncHostToDeviceTransferManager *inner; /* owned */
	PJRT_Buffer *inner_buffer; /* owned until the transfer takes it */
	struct disc_store *store; /* owned reference */
	struct disc_shape shape;
	bool in_flight; /* under disc_lock */
};

struct transfer {
	PJRT_AsyncHostToDeviceTransferManager *manager; /* borrowed */
	PJRT_AsyncHostToDeviceTransferManager_TransferData_Args send; /* for the inner manager */
	PJRT_Event *done; /* owned */
};

static void destroy_inner(PJRT_AsyncHostToDeviceTransferManager *inner)
{
	PJRT_AsyncHostToDeviceTransferManager_Destroy_Args end = {
		.struct_size = PJRT_AsyncHostToDeviceTransferManager_Destroy_Args_STRUCT_SIZE,
		.transfer_manager = inner,
	};

	disc_error_destroy(
		disc_wrap(disc_inner->PJRT_AsyncHostToDeviceTransferManager_Destroy(&end)));
}

static PJRT_Error *create_inner(const PJRT_Client_CreateBuffersForAsyncHostToDevice_Args *args,
				PJRT_AsyncHostToDeviceTransferManager *m)
{
	PJRT_Client_CreateBuffersForAsyncHostToDevice_Args create = *args;
	PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args get = {
		.struct_size =
			PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args_STRUCT_SIZE,
	};
	PJRT_Error *error;

	create.struct_size = PJRT_Client_CreateBuffersForAsyncHostToDevice_Args_STRUCT_SIZE;
	create.client = args->client->inner;
	create.memory = args->client->inner_memory;
	error = disc_wrap(disc_inner->PJRT_Client_CreateBuffersForAsyncHostToDevice(&create));
	if (error)
		return error;
	m->inner = get.transfer_manager = create.transfer_manager;
	error = disc_wrap(disc_inner->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&get));
	m->inner_buffer = get.buffer_out;
	if (error)
		destroy_inner(m->inner);
	return error;
}

static PJRT_Error *create(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args *args)
{
	PJRT_AsyncHostToDeviceTransferManager *m;
	const PJRT_ShapeSpec *spec;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Client_CreateBuffersForAsyncHostToDevice_Args, args);
	spec = args->shape_specs;
	if (args->num_shape_specs != 1 || spec->num_dims > DISC_RANK_MAX)
		return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "more than one buffer");
	m = disc_new(1, sizeof(*m));
	m->shape.type = spec->element_type;
	m->shape.rank = spec->num_dims;
	for (size_t i = 0; i < spec->num_dims; i++)
		m->shape.dims[i] = spec->dims[i];
	m->store = disc_allocate(args->client, args->memory, &m->shape, &error);
	if (m->store) {
		error = create_inner(args, m);
		if (error)
			disc_store_unref(m->store);
	}
	if (error)
		free(m);
	else
		args->transfer_manager = m;
	return error;
}

static PJRT_Error *retrieve(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args *args)
{
	PJRT_AsyncHostToDeviceTransferManager *m = args->transfer_manager;

	DISC_ENTER(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args, args);
	args->buffer_out = disc_buffer(disc_store_ref(m->store), &m->shape);
	return NULL;
}

static void run_transfer(void *ctx)
{
	struct transfer *t = ctx;
	PJRT_AsyncHostToDeviceTransferManager *m = t->manager;
	PJRT_Event *done = t->done;
	PJRT_Error *error;

	disc_memory_transfer(m->store->client, true, disc_shape_bytes(&m->shape));
	error = disc_wrap(disc_inner->PJRT_AsyncHostToDeviceTransferManager_TransferData(&t->send));
	if (!error)
		error = disc_await_inner(t->send.done_with_h2d_transfer);
	disc_store_define(m->store, m->inner_buffer, error);
	m->inner_buffer = NULL;
	pthread_mutex_lock(&disc_lock);
	m->in_flight = false;
	pthread_mutex_unlock(&disc_lock);
	/* From here on, the caller may destroy the manager. */
	disc_event_fire(done, error ? error->code : PJRT_Error_Code_OK, error ? error->text : "");
	disc_error_destroy(error);
	disc_event_unref(done);
	free(t);
}

static PJRT_Error *transfer(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args *args)
{
	PJRT_AsyncHostToDeviceTransferManager *m = args->transfer_manager;
	struct transfer *t;

	DISC_ENTER(PJRT_AsyncHostToDeviceTransferManager_TransferData_Args, args);
	if (args->offset != 0 || !args->is_last_transfer || !m->inner_buffer)
		return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "more than one transfer");
	t = disc_new(1, sizeof(*t));
	t->manager = m;
	t->done = disc_event();
	t->send = *args;
	t->send.struct_size = PJRT_AsyncHostToDeviceTransferManager_TransferData_Args_STRUCT_SIZE;
	t->send.transfer_manager = m->inner;
	m->in_flight = true;
	args->done_with_h2d_transfer = disc_event_ref(t->done);
	disc_queue_add(&m->store->client->h2d, run_transfer, t);
	return NULL;
}

static PJRT_Error *destroy(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args *args)
{
	PJRT_AsyncHostToDeviceTransferManager *m = args->transfer_manager;
	bool in_flight;

	DISC_ENTER(PJRT_AsyncHostToDeviceTransferManager_Destroy_Args, args);
	pthread_mutex_lock(&disc_lock);
	in_flight = m->in_flight;
	pthread_mutex_unlock(&disc_lock);
	if (in_flight)
		disc_die("a transfer manager was destroyed during its transfer");
	destroy_inner(m->inner);
	disc_inner_destroy(m->inner_buffer);
	disc_store_unref(m->store);
	free(m);
	return NULL;
}

void disc_manager_entries(PJRT_Api *api)
{
	api->PJRT_Client_CreateBuffersForAsyncHostToDevice = create;
	api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer = retrieve;
	api->PJRT_AsyncHostToDeviceTransferManager_TransferData = transfer;
	api->PJRT_AsyncHostToDeviceTransferManager_Destroy = destroy;
}
