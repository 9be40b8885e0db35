/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of buffers, and what can be asked of them. There is no address to be had. */
#include "discrete/discrete.h"

PJRT_Buffer *disc_buffer(struct disc_store *take_store, const struct disc_shape *shape)
{
	PJRT_Buffer *b = disc_new(1, sizeof(*b));

	b->client = take_store->client;
	b->memory = take_store->memory;
	b->store = take_store;
	b->shape = *shape;
	return b;
}

struct disc_store *disc_buffer_use(PJRT_Buffer *b, bool is_donated, PJRT_Error **out_error)
{
	struct disc_store *s;

	*out_error = NULL;
	pthread_mutex_lock(&disc_lock);
	s = b->store;
	if (s && is_donated)
		b->store = NULL;
	else if (s)
		s->refs++;
	pthread_mutex_unlock(&disc_lock);
	if (!s)
		*out_error = disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
					"Buffer has been deleted or donated.");
	return s;
}

static void forget(PJRT_Buffer *b)
{
	PJRT_Error *error;
	struct disc_store *s = disc_buffer_use(b, true, &error);

	disc_error_destroy(error);
	if (s)
		disc_store_unref(s);
}

static PJRT_Error *buffer_destroy(PJRT_Buffer_Destroy_Args *args)
{
	DISC_ENTER(PJRT_Buffer_Destroy_Args, args);
	forget(args->buffer);
	free(args->buffer);
	return NULL;
}

static PJRT_Error *buffer_delete(PJRT_Buffer_Delete_Args *args)
{
	DISC_ENTER(PJRT_Buffer_Delete_Args, args);
	forget(args->buffer);
	return NULL;
}

static PJRT_Error *buffer_is_deleted(PJRT_Buffer_IsDeleted_Args *args)
{
	DISC_ENTER(PJRT_Buffer_IsDeleted_Args, args);
	pthread_mutex_lock(&disc_lock);
	args->is_deleted = args->buffer->store == NULL;
	pthread_mutex_unlock(&disc_lock);
	return NULL;
}

static PJRT_Error *buffer_element_type(PJRT_Buffer_ElementType_Args *args)
{
	DISC_ENTER(PJRT_Buffer_ElementType_Args, args);
	args->type = args->buffer->shape.type;
	return NULL;
}

static PJRT_Error *buffer_dimensions(PJRT_Buffer_Dimensions_Args *args)
{
	DISC_ENTER(PJRT_Buffer_Dimensions_Args, args);
	args->dims = args->buffer->shape.dims;
	args->num_dims = args->buffer->shape.rank;
	return NULL;
}

static PJRT_Error *buffer_size(PJRT_Buffer_OnDeviceSizeInBytes_Args *args)
{
	DISC_ENTER(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
	args->on_device_size_in_bytes = (size_t)disc_shape_bytes(&args->buffer->shape);
	return NULL;
}

/* Only the inner buffer knows its layout, so this waits for the contents. */
static PJRT_Error *buffer_layout(PJRT_Buffer_GetMemoryLayout_Args *args)
{
	PJRT_Buffer_GetMemoryLayout_Args get = {
		.struct_size = PJRT_Buffer_GetMemoryLayout_Args_STRUCT_SIZE,
	};
	struct disc_store *s;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Buffer_GetMemoryLayout_Args, args);
	s = disc_buffer_use(args->buffer, false, &error);
	if (!s)
		return error;
	error = disc_store_read(s);
	if (!error) {
		get.buffer = s->inner;
		error = disc_wrap(disc_inner->PJRT_Buffer_GetMemoryLayout(&get));
	}
	if (!error)
		args->layout = get.layout;
	disc_store_leave(s);
	disc_store_unref(s);
	return error;
}

static PJRT_Error *buffer_device(PJRT_Buffer_Device_Args *args)
{
	DISC_ENTER(PJRT_Buffer_Device_Args, args);
	args->device = &args->buffer->client->device;
	return NULL;
}

static PJRT_Error *buffer_memory(PJRT_Buffer_Memory_Args *args)
{
	DISC_ENTER(PJRT_Buffer_Memory_Args, args);
	args->memory = args->buffer->memory;
	return NULL;
}

static PJRT_Error *buffer_is_on_cpu(PJRT_Buffer_IsOnCpu_Args *args)
{
	DISC_ENTER(PJRT_Buffer_IsOnCpu_Args, args);
	args->is_on_cpu = false;
	return NULL;
}

static PJRT_Error *buffer_ready_event(PJRT_Buffer_ReadyEvent_Args *args)
{
	struct disc_store *s;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Buffer_ReadyEvent_Args, args);
	s = disc_buffer_use(args->buffer, false, &error);
	if (!s)
		return error;
	args->event = disc_event_ref(s->defined);
	disc_store_unref(s);
	return NULL;
}

void disc_buffer_entries(PJRT_Api *api)
{
	api->PJRT_Buffer_Destroy = buffer_destroy;
	api->PJRT_Buffer_Delete = buffer_delete;
	api->PJRT_Buffer_IsDeleted = buffer_is_deleted;
	api->PJRT_Buffer_ElementType = buffer_element_type;
	api->PJRT_Buffer_Dimensions = buffer_dimensions;
	api->PJRT_Buffer_OnDeviceSizeInBytes = buffer_size;
	api->PJRT_Buffer_GetMemoryLayout = buffer_layout;
	api->PJRT_Buffer_Device = buffer_device;
	api->PJRT_Buffer_Memory = buffer_memory;
	api->PJRT_Buffer_IsOnCpu = buffer_is_on_cpu;
	api->PJRT_Buffer_ReadyEvent = buffer_ready_event;
}
