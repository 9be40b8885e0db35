/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/program.h"

#include <stdlib.h>
#include <string.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/layouts.h"
#include "adaptor/buffer/prefetch.h"
#include "adaptor/client/attributes.h"
#include "adaptor/client/client.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/program/fetch.h"
#include "wire/facts.h"

/* Most bytes of facts; no program has so many. */
#define FACTS_MAX (UINT64_C(64) << 20)

static struct adp_program *program_ref(struct adp_program *p)
{
	(void)atomic_fetch_add(&p->refs, 1);
	return p;
}

static void unload(struct adp_program *p)
{
	struct sal_msg_unload *m;

	if (atomic_exchange(&p->deleted, true))
		return;
	m = adp_reserve(p->conn, SAL_MSG_UNLOAD, sizeof(*m));
	if (!m)
		return;
	m->id = p->id;
	adp_send(p->conn, false);
}

static void program_unref(struct adp_program *p)
{
	size_t i;

	if (!p || atomic_fetch_sub(&p->refs, 1) > 1)
		return;
	unload(p);
	adp_conn_unref(p->conn);
	adp_client_unref(p->client);
	for (i = 0; p->layouts && p->layouts[i]; i++)
		free(p->layouts[i]);
	free(p->layouts);
	(void)pthread_mutex_destroy(&p->layout_lock);
	free(p->facts);
	free(p->fact_bytes);
	free(p->devices);
	free(p->costs);
	free(p->types);
	free(p->dims);
	free(p->minor_to_major);
	free(p->ranks);
	free(p->kinds);
	free(p->kind_sizes);
	adp_habit_unref(p->habit);
	adp_optimized_free(atomic_load(&p->optimized));
	free(p);
}

/* Refuses shapes that later arithmetic could not handle. */
static PJRT_Error *check_outputs(const struct sal_program_facts *f)
{
	size_t i, k;

	for (i = 0; i < f->output_count; i++) {
		const struct sal_output_facts *o = &f->outputs[i];

		if (o->rank > SAL_RANK_MAX)
			return adp_error(
				SAL_UNIMPLEMENTED,
				"salus: an output of %u dimensions; arrays here have %d at most",
				o->rank, SAL_RANK_MAX);
		for (k = 0; k < o->rank; k++)
			if (o->dims[k] < 0)
				return adp_fetch_nonsense();
		if (adp_host_bytes((PJRT_Buffer_Type)o->type, o->dims, o->rank) > INT64_MAX)
			return adp_fetch_nonsense();
	}
	return NULL;
}

static PJRT_Error *find_devices(struct adp_program *p)
{
	const struct sal_program_facts *f = p->facts;
	size_t i;

	p->devices = calloc(f->chip_count, sizeof(PJRT_Device *));
	if (!p->devices)
		return adp_out_of_memory();
	p->device_count = f->chip_count;
	for (i = 0; i < f->chip_count && !f->is_portable; i++) {
		if (f->chips[i] >= p->client->device_count)
			return adp_fetch_nonsense();
		p->devices[i] = p->client->devices[f->chips[i]];
	}
	return NULL;
}

/* Fills in the flat lists that PJRT gives out. */
static bool fill_lists(struct adp_program *p)
{
	const struct sal_program_facts *f = p->facts;
	size_t i, k, n = f->output_count, dims = 0;

	for (i = 0; i < n; i++)
		dims += f->outputs[i].rank;
	p->types = calloc(n + 1, sizeof(*p->types));
	p->ranks = calloc(n + 1, sizeof(*p->ranks));
	p->kinds = calloc(n + 1, sizeof(*p->kinds));
	p->kind_sizes = calloc(n + 1, sizeof(*p->kind_sizes));
	p->dims = calloc(dims + 1, sizeof(*p->dims));
	p->minor_to_major = calloc(dims + 1, sizeof(*p->minor_to_major));
	p->costs = adp_named_values(f->costs);
	if (!p->types || !p->ranks || !p->kinds || !p->kind_sizes || !p->dims ||
	    !p->minor_to_major || !p->costs)
		return false;
	for (i = 0, dims = 0; i < n; i++) {
		const struct sal_output_facts *o = &f->outputs[i];

		p->types[i] = (PJRT_Buffer_Type)o->type;
		p->ranks[i] = o->rank;
		p->kinds[i] = o->memory_kind.at;
		p->kind_sizes[i] = o->memory_kind.size;
		if (!adp_layout_parse(o->layout, o->rank, p->minor_to_major + dims))
			for (k = 0; k < o->rank; k++)
				p->minor_to_major[dims + k] = (int64_t)(o->rank - 1 - k);
		for (k = 0; k < o->rank; k++)
			p->dims[dims++] = o->dims[k];
	}
	p->habit = adp_habit_create(f);
	return true;
}

static PJRT_Error *loaded_create(struct adp_program *take_program, PJRT_LoadedExecutable **out)
{
	PJRT_LoadedExecutable *loaded = malloc(sizeof(*loaded));

	if (!loaded) {
		program_unref(take_program);
		return adp_out_of_memory();
	}
	loaded->program = take_program;
	*out = loaded;
	return NULL;
}

PJRT_Error *adp_program_create(PJRT_Client *client, uint64_t id, uint64_t fact_size,
			       PJRT_LoadedExecutable **out)
{
	struct adp_program *p = calloc(1, sizeof(*p));
	struct sal_err err = { 0 };
	PJRT_Error *error;

	if (!p)
		return adp_out_of_memory();
	atomic_init(&p->refs, 1);
	(void)pthread_mutex_init(&p->layout_lock, NULL);
	p->conn = adp_conn_ref(client->conn);
	p->client = adp_client_ref(client);
	p->id = id;
	if (fact_size == 0 || fact_size > FACTS_MAX)
		error = adp_fetch_nonsense();
	else
		error = adp_fetch_bytes(p, SAL_FETCH_FACTS, fact_size, &p->fact_bytes);
	if (!error &&
	    sal_program_facts_unpack(p->fact_bytes, (size_t)fact_size, &p->facts, &err) < 0)
		error = adp_fetch_nonsense();
	if (!error)
		error = check_outputs(p->facts);
	if (!error)
		error = find_devices(p);
	if (!error && !fill_lists(p))
		error = adp_out_of_memory();
	if (error) {
		program_unref(p);
		return error;
	}
	return loaded_create(p, out);
}

PJRT_Error *adp_Executable_Destroy(PJRT_Executable_Destroy_Args *args)
{
	if (args->executable) {
		program_unref(args->executable->program);
		free(args->executable);
	}
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args *args)
{
	if (args->executable) {
		program_unref(args->executable->program);
		free(args->executable);
	}
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
	args->executable = malloc(sizeof(*args->executable));
	if (!args->executable)
		return adp_out_of_memory();
	args->executable->program = program_ref(args->loaded_executable->program);
	return NULL;
}

PJRT_Error *
adp_LoadedExecutable_AddressableDevices(PJRT_LoadedExecutable_AddressableDevices_Args *args)
{
	const struct adp_program *p = args->executable->program;

	args->addressable_devices = p->devices;
	args->num_addressable_devices = p->facts->is_portable ? 0 : p->device_count;
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args *args)
{
	unload(args->executable->program);
	return NULL;
}

PJRT_Error *adp_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args *args)
{
	args->is_deleted = atomic_load(&args->executable->program->deleted);
	return NULL;
}
