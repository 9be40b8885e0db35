/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program - PJRT_Executable and PJRT_LoadedExecutable: two views of one compiled program.
 *
 * Everything about a program arrives after its compilation and does not change. Owns: its facts, a
 * reference to the client. Threads: any.
 */
#ifndef SAL_ADAPTOR_PROGRAM_PROGRAM_H
#define SAL_ADAPTOR_PROGRAM_PROGRAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptor/function.h"
#include "base/facts.h"

struct adp_conn;
struct adp_habit;
struct adp_optimized;

struct adp_program {
	_Atomic int refs;
	struct adp_conn *conn; /* owned reference */
	PJRT_Client *client; /* owned reference */
	uint64_t id;
	struct sal_program_facts *facts; /* owned */
	void *fact_bytes; /* owned */
	/* Owned; the devices that run it, one list of arguments each; one NULL: it is portable. */
	PJRT_Device **devices;
	size_t device_count;
	PJRT_NamedValue *costs; /* owned */
	PJRT_Buffer_Type *types; /* owned */
	int64_t *dims; /* owned */
	size_t *ranks; /* owned */
	const char **kinds; /* owned */
	size_t *kind_sizes; /* owned */
	pthread_mutex_t layout_lock;
	int64_t *minor_to_major; /* owned; of all outputs, as dims */
	void **layouts; /* owned; made when asked for, see layouts.c */
	struct adp_habit *habit; /* owned reference, or NULL: see prefetch.h */
	_Atomic(struct adp_optimized *)
		optimized; /* owned; NULL: nobody has asked yet; see fetch.c */
	_Atomic bool deleted;
	bool calls_old; /* it may call Python functions of an old JAX: see python/old.h */
};

struct PJRT_Executable {
	struct adp_program *program; /* owned reference */
};

struct PJRT_LoadedExecutable {
	struct adp_program *program; /* owned reference */
};

/*
 * Fetches the facts of program `id`, which the daemon has compiled or loaded, and makes the loaded
 * executable.
 */
PJRT_Error *adp_program_create(PJRT_Client *client, uint64_t id, uint64_t fact_size,
			       PJRT_LoadedExecutable **out);

ADP_FUNCTION(Executable_Destroy);
ADP_FUNCTION(LoadedExecutable_Destroy);
ADP_FUNCTION(LoadedExecutable_GetExecutable);
ADP_FUNCTION(LoadedExecutable_AddressableDevices);
ADP_FUNCTION(LoadedExecutable_Delete);
ADP_FUNCTION(LoadedExecutable_IsDeleted);

#endif
