/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays are dense, in the order of dimensions that the compiler chose.
 *
 * No wheel contains the extension's header. So its ABI is declared here, under our own names: a
 * base, then the functions in this order. A layout is an object; its bytes are XLA's text for it.
 */
#include "adaptor/buffer/layouts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/error.h"
#include "adaptor/profiler.h"
#include "adaptor/program/program.h"
#include "wire/messages.h"

/* A layout: its serialised bytes follow. */
struct layout {
	size_t size;
	bool shared; /* belongs to a program, which frees it */
	char bytes[];
};

struct destroy_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	struct layout *layout;
};

struct serialize_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	struct layout *layout;
	const char *bytes; /* out */
	size_t size; /* out */
	void *backing; /* out */
	void (*delete_backing)(void *backing); /* out */
};

struct client_default_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Client *client;
	PJRT_Buffer_Type type;
	const int64_t *dims;
	size_t rank;
	struct layout *layout; /* out */
};

struct buffer_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Buffer *buffer;
	struct layout *layout; /* out */
};

struct topology_default_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_TopologyDescription *topology;
	PJRT_Buffer_Type type;
	const int64_t *dims;
	size_t rank;
	struct layout *layout; /* out */
};

struct outputs_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	size_t count; /* out */
	struct layout **layouts; /* out */
};

struct extension {
	PJRT_Extension_Base base;
	PJRT_Error *(*destroy)(struct destroy_args *args);
	PJRT_Error *(*serialize)(struct serialize_args *args);
	PJRT_Error *(*client_default)(struct client_default_args *args);
	PJRT_Error *(*of_buffer)(struct buffer_args *args);
	PJRT_Error *(*topology_default)(struct topology_default_args *args);
	PJRT_Error *(*of_outputs)(struct outputs_args *args);
};

unsigned adp_sub_byte_bits(PJRT_Buffer_Type type)
{
	switch ((int)type) {
	case PJRT_Buffer_Type_S4:
	case PJRT_Buffer_Type_U4:
	case PJRT_Buffer_Type_F4E2M1FN:
		return 4;
	case PJRT_Buffer_Type_S2:
	case PJRT_Buffer_Type_U2:
		return 2;
	default:
		return 0;
	}
}

/* As XLA writes a layout: {1,0}, with E(4) for elements of four bits. order NULL: row-major. */
static struct layout *write_layout(PJRT_Buffer_Type type, size_t rank, const int64_t *order)
{
	size_t room = rank * 4 + 16, n = 0, i;
	struct layout *l = calloc(1, sizeof(*l) + room);

	if (!l)
		return NULL;
	l->bytes[n++] = '{';
	for (i = 0; i < rank; i++)
		n += (size_t)snprintf(l->bytes + n, room - n, i ? ",%d" : "%d",
				      order ? (int)order[i] : (int)(rank - 1 - i));
	if (adp_sub_byte_bits(type))
		n += (size_t)snprintf(l->bytes + n, room - n, ":E(%u)", adp_sub_byte_bits(type));
	l->bytes[n++] = '}';
	l->size = n;
	return l;
}

bool adp_layout_parse(struct sal_text text, size_t rank, int64_t *out_minor_to_major)
{
	bool seen[SAL_RANK_MAX] = { false };
	size_t at = 1, i;

	if (text.size < 2 || text.at[0] != '{' || rank > SAL_RANK_MAX)
		return false;
	for (i = 0; i < rank; i++) {
		size_t dim = 0, digits = 0;

		for (; at < text.size && text.at[at] >= '0' && text.at[at] <= '9' && digits < 3;
		     at++) {
			dim = dim * 10 + (size_t)(text.at[at] - '0');
			digits++;
		}
		if (digits == 0 || dim >= rank || seen[dim] || at >= text.size)
			return false;
		seen[dim] = true;
		out_minor_to_major[i] = (int64_t)dim;
		if (i + 1 < rank && text.at[at++] != ',')
			return false;
	}
	return text.at[at] == '}' || text.at[at] == ':';
}

static PJRT_Error *layouts_destroy(struct destroy_args *args)
{
	if (args->layout && !args->layout->shared)
		free(args->layout);
	return NULL;
}

static void free_nothing(void *backing)
{
	(void)backing; /* the bytes are the layout's */
}

static PJRT_Error *layouts_serialize(struct serialize_args *args)
{
	args->bytes = args->layout->bytes;
	args->size = args->layout->size;
	args->backing = NULL;
	args->delete_backing = free_nothing;
	return NULL;
}

static PJRT_Error *layouts_client_default(struct client_default_args *args)
{
	args->layout = write_layout(args->type, args->rank, NULL);
	return args->layout ? NULL : adp_out_of_memory();
}

static PJRT_Error *layouts_of_buffer(struct buffer_args *args)
{
	args->layout =
		write_layout(args->buffer->type, args->buffer->rank, args->buffer->minor_to_major);
	return args->layout ? NULL : adp_out_of_memory();
}

static PJRT_Error *layouts_topology_default(struct topology_default_args *args)
{
	args->layout = write_layout(args->type, args->rank, NULL);
	return args->layout ? NULL : adp_out_of_memory();
}

/* The compiler's choice; row-major if it is not known. */
static struct layout *of_output(const struct sal_output_facts *o)
{
	struct layout *l;

	if (o->layout.size == 0)
		return write_layout((PJRT_Buffer_Type)o->type, o->rank, NULL);
	l = calloc(1, sizeof(*l) + o->layout.size);
	if (l) {
		l->size = o->layout.size;
		memcpy(l->bytes, o->layout.at, l->size);
	}
	return l;
}

/* Made once for each program; the program frees them. */
static PJRT_Error *layouts_of_outputs(struct outputs_args *args)
{
	struct adp_program *p = args->executable->program;
	size_t i, n = p->facts->output_count;

	(void)pthread_mutex_lock(&p->layout_lock);
	if (!p->layouts)
		p->layouts = calloc(n + 1, sizeof(*p->layouts));
	for (i = 0; p->layouts && i < n; i++) {
		struct layout *l = p->layouts[i] ? p->layouts[i] : of_output(&p->facts->outputs[i]);

		if (!l)
			break;
		l->shared = true;
		p->layouts[i] = l;
	}
	args->count = n;
	args->layouts = (struct layout **)p->layouts;
	(void)pthread_mutex_unlock(&p->layout_lock);
	return p->layouts && i == n ? NULL : adp_out_of_memory();
}

static const struct extension layouts = {
	.base = {
		.struct_size = sizeof(struct extension),
		.type = PJRT_Extension_Type_Layouts,
		.next = (PJRT_Extension_Base *)&adp_profiler.base,
	},
	.destroy = layouts_destroy,
	.serialize = layouts_serialize,
	.client_default = layouts_client_default,
	.of_buffer = layouts_of_buffer,
	.topology_default = layouts_topology_default,
	.of_outputs = layouts_of_outputs,
};

PJRT_Extension_Base *const adp_extensions = (PJRT_Extension_Base *)&layouts.base;
