/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No wheel contains the extension's header, so its ABI is declared here, under our own names: a
 * base, then the functions in this order.
 */
#include "adaptor/python/context.h"

#include <stdlib.h>

#include "adaptor/error.h"

/* The id of jaxlib's type for the list. Before it had a fixed id, the id was a small number. */
#define LIST_TYPE_ID INT64_C(7357244197867843242)
#define SMALL_TYPE_IDS 1000
/* A program has fewer functions. Any other number is not a list of functions. */
#define FUNCTIONS_MAX 65536

/* jaxlib's struct. */
struct function_list {
	void **functions;
	uint32_t count;
};

struct PJRT_ExecuteContext {
	const struct function_list *list; /* borrowed: jaxlib's; NULL: none */
};

struct register_type_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	const char *name;
	size_t name_size;
	int64_t type_id; /* in and out */
	void *info;
};

struct add_data_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_ExecuteContext *context;
	int64_t type_id;
	void *data;
};

struct extension {
	PJRT_Extension_Base base;
	PJRT_Error *(*register_type)(struct register_type_args *args);
	PJRT_Error *(*add_data)(struct add_data_args *args);
	PJRT_Error *(*register_handler)(void *args);
};

PJRT_Error *adp_ExecuteContext_Create(PJRT_ExecuteContext_Create_Args *args)
{
	args->context = calloc(1, sizeof(*args->context));
	return args->context ? NULL : adp_out_of_memory();
}

PJRT_Error *adp_ExecuteContext_Destroy(PJRT_ExecuteContext_Destroy_Args *args)
{
	free(args->context);
	return NULL;
}

uint32_t adp_context_functions(const PJRT_ExecuteContext *context, void *const **out_functions)
{
	const struct function_list *list = context ? context->list : NULL;

	if (!list || list->count > FUNCTIONS_MAX)
		return 0;
	*out_functions = list->functions;
	return list->count;
}

/* Types only name data, and jaxlib's own ids are as good as ours. */
static PJRT_Error *register_type(struct register_type_args *args)
{
	if (args->type_id == 0)
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: types for custom calls are not supported");
	return NULL;
}

static PJRT_Error *add_data(struct add_data_args *args)
{
	if (!args->context)
		return adp_error(SAL_INVALID_ARGUMENT, "salus: data for no execution");
	if (args->type_id == LIST_TYPE_ID || (args->type_id > 0 && args->type_id < SMALL_TYPE_IDS))
		args->context->list = args->data;
	return NULL;
}

static PJRT_Error *register_handler(void *args)
{
	(void)args;
	return adp_error(SAL_UNIMPLEMENTED, "salus: custom calls of your own are not supported");
}

PJRT_Extension_Base *adp_ffi_extension(PJRT_Extension_Base *next)
{
	static struct extension ffi;

	ffi = (struct extension){
		.base = { .struct_size = sizeof(ffi),
			  .type = PJRT_Extension_Type_FFI,
			  .next = next },
		.register_type = register_type,
		.add_data = add_data,
		.register_handler = register_handler,
	};
	return &ffi.base;
}
