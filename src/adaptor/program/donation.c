/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/donation.h"

#include <stdlib.h>

#include "adaptor/buffer/buffer.h"
#include "adaptor/buffer/loan.h"
#include "adaptor/daemon/rings.h"
#include "adaptor/error.h"
#include "adaptor/program/program.h"
#include "base/array.h"
#include "wire/messages.h"

static bool is_retained(const PJRT_ExecuteOptions *options, uint32_t arg)
{
	size_t i;

	for (i = 0; i < options->num_non_donatable_input_indices; i++)
		if (options->non_donatable_input_indices[i] == (int64_t)arg)
			return true;
	return false;
}

static bool is_pinned(const PJRT_LoadedExecutable_Execute_Args *args, uint32_t arg)
{
	size_t list;

	for (list = 0; list < args->num_devices; list++)
		if (atomic_load(&args->argument_lists[list][arg]->pins) != 0)
			return true;
	return false;
}

bool adp_donation_init(struct adp_donation *d, const PJRT_LoadedExecutable_Execute_Args *args)
{
	const struct sal_program_facts *facts = args->executable->program->facts;
	size_t i;

	d->count = 0;
	d->args = d->few;
	if (facts->donated_count > SAL_COUNT(d->few))
		d->args = calloc(facts->donated_count, sizeof(*d->args));
	if (!d->args)
		return false;
	for (i = 0; i < facts->donated_count; i++) {
		uint32_t arg = facts->donated[i];

		if (arg < args->num_args && !is_retained(args->options, arg) &&
		    !is_pinned(args, arg))
			d->args[d->count++] = arg;
	}
	return true;
}

/* Marks the argument as deleted on all devices. False: somebody has pinned it, and it is as before. */
static bool claim(const PJRT_LoadedExecutable_Execute_Args *args, uint32_t arg, bool *out_marked)
{
	size_t list;

	for (list = 0; list < args->num_devices; list++)
		out_marked[list] = adp_buffer_forget(args->argument_lists[list][arg]);
	if (!is_pinned(args, arg))
		return true;
	for (list = 0; list < args->num_devices; list++)
		if (out_marked[list])
			adp_buffer_recover(args->argument_lists[list][arg]);
	return false;
}

void adp_donation_lend(struct adp_donation *d, const PJRT_LoadedExecutable_Execute_Args *args,
		       struct adp_loan *loan)
{
	bool marked[SAL_DEVICES_MAX]; /* else another thread has deleted it, and told the daemon */
	size_t i, list, count = 0;

	for (i = 0; i < d->count; i++) {
		uint32_t arg = d->args[i];

		if (!claim(args, arg, marked))
			continue;
		d->args[count++] = arg;
		for (list = 0; list < args->num_devices; list++)
			if (marked[list])
				adp_loan_add(loan, args->argument_lists[list][arg]);
	}
	d->count = count;
}

void adp_donation_fini(struct adp_donation *d)
{
	if (d->args != d->few)
		free(d->args);
}

/*
 * A donated buffer must be passed only once. Each call has its own mark: the donated arguments get
 * it, and no other argument may have it.
 */
static PJRT_Error *mark_donated(PJRT_Buffer *const *buffers, const struct adp_donation *d,
				uint64_t mark)
{
	size_t i;

	for (i = 0; i < d->count; i++)
		if (atomic_exchange_explicit(&buffers[d->args[i]]->mark, mark,
					     memory_order_relaxed) == mark)
			return adp_error(SAL_INVALID_ARGUMENT,
					 "Attempt to donate the same buffer twice in Execute() "
					 "(argument %u)",
					 d->args[i]);
	return NULL;
}

static PJRT_Error *check_others(PJRT_Buffer *const *buffers, size_t count,
				const struct adp_donation *d, uint64_t mark)
{
	size_t i, next = 0;

	for (i = 0; i < count; i++) {
		if (next < d->count && d->args[next] == i) {
			next++;
			continue;
		}
		if (atomic_load_explicit(&buffers[i]->mark, memory_order_relaxed) == mark)
			return adp_error(
				SAL_INVALID_ARGUMENT,
				"Attempt to use a buffer that was previously donated in the "
				"same call to Execute() (argument %zu)",
				i);
	}
	return NULL;
}

PJRT_Error *adp_donation_check(const struct adp_donation *d,
			       const PJRT_LoadedExecutable_Execute_Args *args)
{
	PJRT_Error *error = NULL;
	uint64_t mark;
	size_t list;

	if (d->count == 0)
		return NULL;
	mark = adp_next_id(args->executable->program->conn, 1);
	/* A buffer is on one device, so it cannot be in two lists. */
	for (list = 0; list < args->num_devices && !error; list++) {
		error = mark_donated(args->argument_lists[list], d, mark);
		if (!error)
			error = check_others(args->argument_lists[list], args->num_args, d, mark);
	}
	return error;
}
