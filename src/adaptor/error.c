/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct PJRT_Error {
	int code;
	char *message; /* owned, unless the error is static */
};

static PJRT_Error out_of_memory = { SAL_RESOURCE_EXHAUSTED, "salus: out of host memory" };

PJRT_Error *adp_out_of_memory(void)
{
	return &out_of_memory;
}

PJRT_Error *adp_error(int code, const char *fmt, ...)
{
	PJRT_Error *error;
	va_list args;
	int n;

	if (code == 0)
		return NULL;
	error = malloc(sizeof(*error));
	if (!error)
		return adp_out_of_memory();
	va_start(args, fmt);
	n = vasprintf(&error->message, fmt, args);
	va_end(args);
	if (n < 0) {
		free(error);
		return adp_out_of_memory();
	}
	error->code = code < 0 ? -code : code;
	return error;
}

void adp_error_read(const PJRT_Error *error, int *out_code, const char **out_text)
{
	*out_code = error ? error->code : 0;
	*out_text = error ? error->message : "";
}

PJRT_Error *adp_error_from(const struct sal_err *err)
{
	return adp_error(err->code, "%s", err->text);
}

void adp_Error_Destroy(PJRT_Error_Destroy_Args *args)
{
	if (!args->error || args->error == &out_of_memory)
		return;
	free(args->error->message);
	free(args->error);
}

void adp_Error_Message(PJRT_Error_Message_Args *args)
{
	args->message = args->error->message;
	args->message_size = strlen(args->error->message);
}

PJRT_Error *adp_Error_GetCode(PJRT_Error_GetCode_Args *args)
{
	args->code = (PJRT_Error_Code)args->error->code;
	return NULL;
}
