/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/views.h"

#include <stdlib.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/upload.h"
#include "adaptor/error.h"

static size_t count_views(const PJRT_LoadedExecutable_Execute_Args *args)
{
	size_t list, i, n = 0;

	for (list = 0; list < args->num_devices; list++)
		for (i = 0; i < args->num_args; i++)
			n += args->argument_lists[list][i]->is_view;
	return n;
}

/* Fills one list. */
static PJRT_Error *fill_list(struct adp_views *v, PJRT_Buffer *const *from, size_t count,
			     PJRT_Buffer **out)
{
	PJRT_Error *error = NULL;
	size_t i;

	for (i = 0; i < count && !error; i++) {
		out[i] = from[i];
		if (!from[i]->is_view)
			continue;
		error = adp_view_copy(from[i], &out[i]);
		if (!error)
			v->copies[v->count++] = out[i];
	}
	return error;
}

PJRT_Error *adp_views_replace(struct adp_views *v, PJRT_LoadedExecutable_Execute_Args *args)
{
	size_t list, n = count_views(args);
	PJRT_Error *error = NULL;

	*v = (struct adp_views){ .original = args->argument_lists };
	if (n == 0)
		return NULL;
	v->buffers = calloc(args->num_devices * args->num_args, sizeof(PJRT_Buffer *));
	v->lists = calloc(args->num_devices, sizeof(PJRT_Buffer **));
	v->copies = calloc(n, sizeof(PJRT_Buffer *));
	if (!v->buffers || !v->lists || !v->copies) {
		adp_views_drop(v, args);
		return adp_out_of_memory();
	}
	for (list = 0; list < args->num_devices && !error; list++) {
		PJRT_Buffer **to = v->buffers + list * args->num_args;

		v->lists[list] = to;
		error = fill_list(v, args->argument_lists[list], args->num_args, to);
	}
	if (error)
		adp_views_drop(v, args);
	else
		args->argument_lists = v->lists;
	return error;
}

void adp_views_drop(struct adp_views *v, PJRT_LoadedExecutable_Execute_Args *args)
{
	size_t i;

	args->argument_lists = v->original;
	for (i = 0; v->copies && i < v->count; i++)
		(void)adp_Buffer_Destroy(&(PJRT_Buffer_Destroy_Args){ .buffer = v->copies[i] });
	free(v->copies);
	free(v->lists);
	free(v->buffers);
}
