/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/python/old.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Indices begin here: those of a newer JAX are below. */
#define FIRST (UINT64_C(1) << 32)
#define TARGET "xla_ffi_python_cpu_callback"
#define RAW_TARGET "xla_python_cpu_callback"

/* All functions of this process. */
static struct {
	pthread_mutex_t lock;
	bool is_here;
	void **functions; /* borrowed: our Python module's, for ever */
	size_t count, room;
} old = { .lock = PTHREAD_MUTEX_INITIALIZER };

__attribute__((visibility("default"))) void salus_old_jax(void)
{
	(void)pthread_mutex_lock(&old.lock);
	old.is_here = true;
	(void)pthread_mutex_unlock(&old.lock);
}

/* Under the lock. */
static bool make_room(void)
{
	size_t room = old.room ? 2 * old.room : 64;
	void **functions;

	if (old.count < old.room)
		return true;
	functions = realloc(old.functions, room * sizeof(*functions));
	if (!functions)
		return false;
	old.functions = functions;
	old.room = room;
	return true;
}

__attribute__((visibility("default"))) uint64_t salus_old_function(void *function)
{
	uint64_t index = 0;

	(void)pthread_mutex_lock(&old.lock);
	if (make_room()) {
		index = FIRST + old.count;
		old.functions[old.count++] = function;
	}
	(void)pthread_mutex_unlock(&old.lock);
	return index;
}

bool adp_old_is_here(void)
{
	bool is_here;

	(void)pthread_mutex_lock(&old.lock);
	is_here = old.is_here;
	(void)pthread_mutex_unlock(&old.lock);
	return is_here;
}

void *adp_old_find(uint64_t index)
{
	void *function = NULL;

	(void)pthread_mutex_lock(&old.lock);
	if (index >= FIRST && index - FIRST < old.count)
		function = old.functions[index - FIRST];
	(void)pthread_mutex_unlock(&old.lock);
	return function;
}

bool adp_old_may_call(const char *program, size_t size)
{
	return adp_old_is_here() && memmem(program, size, TARGET, sizeof(TARGET) - 1) != NULL;
}

bool adp_old_is_raw(const char *program, size_t size)
{
	return memmem(program, size, RAW_TARGET, sizeof(RAW_TARGET) - 1) != NULL;
}
