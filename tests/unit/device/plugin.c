/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A PJRT plugin with the fault that the variable SAL_TEST_PLUGIN names.
 *
 * No test calls its entries: a bad plugin must be refused before that. The exception is "tail": a
 * plugin from the future, which has longer argument structs than our header. Its
 * PJRT_Plugin_Initialize fails with a message that contains the struct size it received.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pjrt_c_api.h>

/* The only symbol of a plugin. */
const PJRT_Api *GetPjrtApi(void);

static char message[64];

static PJRT_Error *unused(void *args)
{
	(void)args;
	abort();
}

static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *args)
{
	snprintf(message, sizeof(message), "got\n\n  %zu more",
		 args->struct_size - PJRT_Plugin_Initialize_Args_STRUCT_SIZE);
	return (PJRT_Error *)message;
}

static PJRT_Error *get_code(PJRT_Error_GetCode_Args *args)
{
	args->code = PJRT_Error_Code_ABORTED;
	return NULL;
}

static void get_message(PJRT_Error_Message_Args *args)
{
	args->message = message;
	args->message_size = strlen(message);
}

static void destroy(PJRT_Error_Destroy_Args *args)
{
	(void)args;
}

const PJRT_Api *GetPjrtApi(void)
{
	static PJRT_Api api;
	const char *wrong = getenv("SAL_TEST_PLUGIN");
	PJRT_Error *(*stub)(void *) = unused;

	if (!wrong || strcmp(wrong, "nothing") == 0)
		return NULL;
	for (size_t at = offsetof(PJRT_Api, PJRT_Error_Destroy); at < sizeof(api);
	     at += sizeof(stub))
		memcpy((char *)&api + at, &stub, sizeof(stub));
	api.struct_size = PJRT_Api_STRUCT_SIZE;
	api.pjrt_api_version.major_version = PJRT_API_MAJOR;
	api.pjrt_api_version.minor_version = PJRT_API_MINOR;
	api.PJRT_Plugin_Initialize = initialize;
	api.PJRT_Error_GetCode = get_code;
	api.PJRT_Error_Message = get_message;
	api.PJRT_Error_Destroy = destroy;
	if (strcmp(wrong, "major") == 0)
		api.pjrt_api_version.major_version = PJRT_API_MAJOR + 1;
	else if (strcmp(wrong, "old") == 0)
		api.pjrt_api_version.minor_version = 56;
	else if (strcmp(wrong, "short") == 0)
		api.struct_size = offsetof(PJRT_Api, PJRT_Client_Compile);
	else if (strcmp(wrong, "empty") == 0)
		api.struct_size = sizeof(size_t);
	else if (strcmp(wrong, "hole") == 0)
		api.PJRT_LoadedExecutable_Execute = NULL;
	else if (strcmp(wrong, "tail") == 0)
		api.pjrt_api_version.minor_version = PJRT_API_MINOR + 1;
	return &api;
}
