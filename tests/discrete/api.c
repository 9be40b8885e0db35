/* SPDX-License-Identifier: Apache-2.0 */
/* The table of functions, with more entries than our header has, and the extensions. */
#include "discrete/discrete.h"

#include <string.h>

#include "device/pjrt/layouts.h"

#define NEWER_ENTRIES 12

/* The only symbol of a plugin. */
const PJRT_Api *GetPjrtApi(void);

struct table {
	PJRT_Api api;
	PJRT_Error *(*newer[NEWER_ENTRIES])(void *args);
};

static PJRT_Error *unimplemented(void *args)
{
	(void)args;
	disc_refuse_reporter("an entry");
	return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "not with this device");
}

/* Extensions: one that nobody knows, then the layouts. Both are longer than anybody's header. */

static const struct layouts_extension *inner_layouts(void)
{
	const PJRT_Extension_Base *e = disc_inner->extension_start;

	while (e && e->type != PJRT_Extension_Type_Layouts)
		e = e->next;
	return (const struct layouts_extension *)e;
}

static PJRT_Error *serialize_layout(struct layouts_serialize_args *args)
{
	struct layouts_serialize_args inner = *args;
	PJRT_Error *error;

	disc_refuse_reporter("serialize_layout");
	inner.struct_size = sizeof(inner);
	error = disc_wrap(inner_layouts()->serialize(&inner));
	inner.struct_size = args->struct_size;
	*args = inner;
	return error;
}

static PJRT_Error *output_layouts(struct layouts_outputs_args *args)
{
	struct layouts_outputs_args inner = *args;
	PJRT_Error *error;

	disc_refuse_reporter("output_layouts");
	inner.struct_size = sizeof(inner);
	inner.executable = args->executable->inner;
	error = disc_wrap(inner_layouts()->of_outputs(&inner));
	args->count = inner.count;
	args->layouts = inner.layouts;
	return error;
}

static void add_extensions(PJRT_Api *api)
{
	static struct {
		struct layouts_extension layouts;
		char newer[DISC_GROWTH];
	} layouts;
	static struct {
		PJRT_Extension_Base base;
		char newer[DISC_GROWTH];
	} unknown;

	layouts.layouts.base.struct_size = sizeof(layouts);
	layouts.layouts.base.type = PJRT_Extension_Type_Layouts;
	layouts.layouts.serialize = serialize_layout;
	layouts.layouts.of_outputs = output_layouts;
	unknown.base.struct_size = sizeof(unknown);
	unknown.base.type = (PJRT_Extension_Type)10000;
	unknown.base.next = &layouts.layouts.base;
	api->extension_start = &unknown.base;
}

static struct table table;

static void fill(void)
{
	PJRT_Error *(*stub)(void *) = unimplemented;

	for (size_t at = offsetof(PJRT_Api, PJRT_Error_Destroy); at < sizeof(table);
	     at += sizeof(stub))
		memcpy((char *)&table + at, &stub, sizeof(stub));
	table.api.struct_size = sizeof(table);
	table.api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
	table.api.pjrt_api_version.major_version = PJRT_API_MAJOR;
	table.api.pjrt_api_version.minor_version = DISC_MINOR;
	add_extensions(&table.api);
	disc_error_entries(&table.api);
	disc_event_entries(&table.api);
	disc_client_entries(&table.api);
	disc_buffer_entries(&table.api);
	disc_transfer_entries(&table.api);
	disc_manager_entries(&table.api);
	disc_program_entries(&table.api);
	disc_describe_entries(&table.api);
	disc_execute_entries(&table.api);
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, fill);
	return &table.api;
}
