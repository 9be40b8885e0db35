/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuda_by_name - the vendor's CPU plugin, which calls its platform "cuda".
 *
 * It stands for a GPU where tests only ask what a framework does with the name of the platform. XLA
 * compiles for the CPU as before, so programs without instructions for GPUs run.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#include "pjrt_c_api.h"

static PJRT_Error *client_platform_name(PJRT_Client_PlatformName_Args *args)
{
	args->platform_name = "cuda";
	args->platform_name_size = 4;
	return NULL;
}

static PJRT_Error *topology_platform_name(PJRT_TopologyDescription_PlatformName_Args *args)
{
	args->platform_name = "cuda";
	args->platform_name_size = 4;
	return NULL;
}

static PJRT_Api table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The vendor's library stays loaded: its threads outlive every caller. */
static void load(void)
{
	void *library = dlopen(SAL_PJRT_PLUGIN, RTLD_NOW | RTLD_LOCAL);
	const PJRT_Api *(*get)(void) = NULL;

	if (library)
		*(void **)&get = dlsym(library, "GetPjrtApi");
	if (!get)
		return;
	table = *get();
	table.PJRT_Client_PlatformName = client_platform_name;
	table.PJRT_TopologyDescription_PlatformName = topology_platform_name;
}

const PJRT_Api *GetPjrtApi(void);

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void)
{
	(void)pthread_once(&once, load);
	return table.struct_size > 0 ? &table : NULL;
}
