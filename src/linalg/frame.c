/* SPDX-License-Identifier: Apache-2.0 */
#include "linalg/frame.h"

#include <stddef.h>
#include <string.h>

#define FFI_MAJOR 0
#define FFI_MINOR 1
#define THREADS_MAX 1024
/* An api table of this size has the functions for threads. */
#define HAS_THREADS_BYTES \
	(offsetof(XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads) + sizeof(void (*)(void)))

static XLA_FFI_Error *fail(const XLA_FFI_CallFrame *frame, const struct sal_err *err)
{
	XLA_FFI_Error_Create_Args create = {
		.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
		.message = err->text,
		.errc = (XLA_FFI_Error_Code)err->code,
	};

	return frame->api->XLA_FFI_Error_Create(&create);
}

/* True: XLA asked for metadata, not for a result. */
static bool answer_metadata(const XLA_FFI_CallFrame *frame)
{
	XLA_FFI_Extension_Base *e = frame->extension_start;
	XLA_FFI_Metadata *metadata;

	while (e && e->type != XLA_FFI_Extension_Metadata)
		e = e->next;
	if (!e)
		return false;
	metadata = ((XLA_FFI_Metadata_Extension *)(void *)e)->metadata;
	metadata->api_version.major_version = FFI_MAJOR;
	metadata->api_version.minor_version = FFI_MINOR;
	metadata->traits = 0;
	return true;
}

static bool read_array(const void *from, struct linalg_array *to)
{
	const XLA_FFI_Buffer *b = from;

	if (b->rank < 0)
		return false;
	*to = (struct linalg_array){
		.element = (int32_t)b->dtype,
		.rank = (size_t)b->rank,
		.dims = b->dims,
		.data = b->data,
	};
	return true;
}

static bool read_arrays(const XLA_FFI_CallFrame *frame, struct linalg_call *c)
{
	if (frame->args.size < 0 || frame->args.size > LINALG_ARGS_MAX || frame->rets.size < 0 ||
	    frame->rets.size > LINALG_RETS_MAX)
		return false;
	c->arg_count = (size_t)frame->args.size;
	c->ret_count = (size_t)frame->rets.size;
	for (size_t i = 0; i < c->arg_count; i++)
		if (frame->args.types[i] != XLA_FFI_ArgType_BUFFER ||
		    !read_array(frame->args.args[i], &c->args[i]))
			return false;
	for (size_t i = 0; i < c->ret_count; i++)
		if (frame->rets.types[i] != XLA_FFI_RetType_BUFFER ||
		    !read_array(frame->rets.rets[i], &c->rets[i]))
			return false;
	return true;
}

/* False: the attribute is no integer. */
static bool read_scalar(const XLA_FFI_Scalar *scalar, int64_t *out_value)
{
	int32_t word;

	*out_value = 0;
	switch (scalar->dtype) {
	case XLA_FFI_DataType_PRED:
	case XLA_FFI_DataType_S8:
	case XLA_FFI_DataType_U8:
		*out_value = *(const uint8_t *)scalar->value;
		return true;
	case XLA_FFI_DataType_S32:
		memcpy(&word, scalar->value, sizeof(word));
		*out_value = word;
		return true;
	case XLA_FFI_DataType_S64:
		memcpy(out_value, scalar->value, sizeof(*out_value));
		return true;
	default:
		return false;
	}
}

/* Attributes of other types are left out: no routine has one. */
static void read_attrs(const XLA_FFI_Attrs *attrs, struct linalg_call *c)
{
	for (int64_t i = 0; i < attrs->size && c->attr_count < LINALG_ATTRS_MAX; i++) {
		struct linalg_attr *to = &c->attrs[c->attr_count];

		if (attrs->types[i] != XLA_FFI_AttrType_SCALAR ||
		    !read_scalar(attrs->attrs[i], &to->value))
			continue;
		to->name = attrs->names[i]->ptr;
		to->name_size = attrs->names[i]->len;
		c->attr_count++;
	}
}

/* Helpers: the threads of XLA's pool for the stream that the call runs in. */

static void destroy_error(const XLA_FFI_CallFrame *frame, XLA_FFI_Error *error)
{
	XLA_FFI_Error_Destroy_Args args = {
		.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE,
		.error = error,
	};

	frame->api->XLA_FFI_Error_Destroy(&args);
}

/* For struct linalg_helpers. */
static bool start_task(void *ctx, void (*task)(void *data), void *data)
{
	const XLA_FFI_CallFrame *frame = ctx;
	XLA_FFI_ThreadPool_Schedule_Args args = {
		.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
		.ctx = frame->ctx,
		.task = task,
		.data = data,
	};
	XLA_FFI_Error *error = frame->api->XLA_FFI_ThreadPool_Schedule(&args);

	if (error)
		destroy_error(frame, error);
	return !error;
}

/* The caller may be one of the pool's threads, and computes itself: one less can help. */
static uint32_t count_helpers(const XLA_FFI_CallFrame *frame)
{
	int64_t threads = 0;
	XLA_FFI_ThreadPool_NumThreads_Args args = {
		.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE,
		.ctx = frame->ctx,
		.num_threads = &threads,
	};
	XLA_FFI_Error *error;

	if (frame->api->struct_size < HAS_THREADS_BYTES)
		return 0;
	error = frame->api->XLA_FFI_ThreadPool_NumThreads(&args);
	if (error)
		destroy_error(frame, error);
	return !error && threads > 1 && threads <= THREADS_MAX ? (uint32_t)threads - 1 : 0;
}

XLA_FFI_Error *sal_linalg_handle(XLA_FFI_CallFrame *frame, const struct linalg_routine *routine,
				 enum lapack_type type)
{
	struct sal_err err = { 0 };
	struct linalg_helpers helpers = { .start = start_task, .ctx = frame };
	struct linalg_call call = {
		.routine = routine, .type = type, .helpers = &helpers, .err = &err
	};
	int rc;

	if (answer_metadata(frame) || frame->stage != XLA_FFI_ExecutionStage_EXECUTE)
		return NULL;
	helpers.count = count_helpers(frame);
	read_attrs(&frame->attrs, &call);
	rc = read_arrays(frame, &call) ? sal_linalg_run(&call)
				       : sal_linalg_bad(&call, "its arguments are no arrays");
	return rc < 0 ? fail(frame, &err) : NULL;
}
