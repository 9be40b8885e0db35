/* SPDX-License-Identifier: Apache-2.0 */
/* Errors, and the plugin inside this one. */
#include "discrete/discrete.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const PJRT_Api *disc_inner;

void disc_die(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	(void)fprintf(stderr, "discrete: ");
	(void)vfprintf(stderr, format, list);
	(void)fprintf(stderr, "\n");
	va_end(list);
	abort();
}

PJRT_Error *disc_load(void)
{
	const PJRT_Api *(*get)(void);
	void *library = dlopen(SAL_PJRT_PLUGIN, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	void *symbol = library ? dlsym(library, "GetPjrtApi") : NULL;

	if (!symbol)
		return disc_error(PJRT_Error_Code_NOT_FOUND, "%s", dlerror());
	memcpy(&get, &symbol, sizeof(get));
	disc_inner = get();
	return NULL;
}

PJRT_Error *disc_error(PJRT_Error_Code code, const char *format, ...)
{
	PJRT_Error *error = disc_new(1, sizeof(*error));
	va_list list;

	va_start(list, format);
	error->code = code;
	(void)vsnprintf(error->text, sizeof(error->text), format, list);
	va_end(list);
	return error;
}

PJRT_Error *disc_wrap(PJRT_Error *take_inner)
{
	PJRT_Error_Message_Args message = { .struct_size = PJRT_Error_Message_Args_STRUCT_SIZE,
					    .error = take_inner };
	PJRT_Error_GetCode_Args code = { .struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE,
					 .error = take_inner };
	PJRT_Error_Destroy_Args destroy = { .struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE,
					    .error = take_inner };
	PJRT_Error *error;

	if (!take_inner)
		return NULL;
	disc_inner->PJRT_Error_Message(&message);
	(void)disc_inner->PJRT_Error_GetCode(&code);
	error = disc_error(code.code, "%.*s", (int)message.message_size, message.message);
	disc_inner->PJRT_Error_Destroy(&destroy);
	return error;
}

void disc_error_destroy(PJRT_Error *take_error)
{
	free(take_error);
}

PJRT_Error *disc_await_inner(PJRT_Event *take_inner)
{
	PJRT_Event_Await_Args await = { .struct_size = PJRT_Event_Await_Args_STRUCT_SIZE,
					.event = take_inner };
	PJRT_Event_Destroy_Args destroy = { .struct_size = PJRT_Event_Destroy_Args_STRUCT_SIZE,
					    .event = take_inner };
	PJRT_Error *error;

	if (!take_inner)
		return NULL;
	error = disc_wrap(disc_inner->PJRT_Event_Await(&await));
	disc_error_destroy(disc_wrap(disc_inner->PJRT_Event_Destroy(&destroy)));
	return error;
}

/* The entries: the only ones that the reporter may call */

static void error_destroy(PJRT_Error_Destroy_Args *args)
{
	disc_error_destroy(args->error);
}

static void error_message(PJRT_Error_Message_Args *args)
{
	args->message = args->error->text;
	args->message_size = strlen(args->error->text);
}

static PJRT_Error *error_get_code(PJRT_Error_GetCode_Args *args)
{
	args->code = args->error->code;
	return NULL;
}

void disc_error_entries(PJRT_Api *api)
{
	api->PJRT_Error_Destroy = error_destroy;
	api->PJRT_Error_Message = error_message;
	api->PJRT_Error_GetCode = error_get_code;
}
