/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const code_names[] = {
	[SAL_OK] = "OK",
	[SAL_CANCELLED] = "CANCELLED",
	[SAL_UNKNOWN] = "UNKNOWN",
	[SAL_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
	[SAL_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
	[SAL_NOT_FOUND] = "NOT_FOUND",
	[SAL_ALREADY_EXISTS] = "ALREADY_EXISTS",
	[SAL_PERMISSION_DENIED] = "PERMISSION_DENIED",
	[SAL_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
	[SAL_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
	[SAL_ABORTED] = "ABORTED",
	[SAL_OUT_OF_RANGE] = "OUT_OF_RANGE",
	[SAL_UNIMPLEMENTED] = "UNIMPLEMENTED",
	[SAL_INTERNAL] = "INTERNAL",
	[SAL_UNAVAILABLE] = "UNAVAILABLE",
	[SAL_DATA_LOSS] = "DATA_LOSS",
	[SAL_UNAUTHENTICATED] = "UNAUTHENTICATED",
};

int sal_err_set(struct sal_err *err, enum sal_code code, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list args;
	int length;

	if ((int)code < SAL_CANCELLED || code > SAL_UNAUTHENTICATED)
		code = SAL_UNKNOWN;
	if (!err)
		return -(int)code;

	/* Formats into a copy first: an argument may be err->text itself. */
	text[0] = '\0';
	va_start(args, fmt);
	length = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (length >= (int)sizeof(text))
		memcpy(text + sizeof(text) - sizeof("..."), "...", sizeof("..."));

	err->code = code;
	memcpy(err->text, text, sizeof(text));
	return -(int)code;
}

const char *sal_code_name(int code)
{
	if (code < -SAL_UNAUTHENTICATED || code > SAL_UNAUTHENTICATED)
		return code_names[SAL_UNKNOWN];
	return code_names[abs(code)];
}

void sal_bug(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: bug: ", file, line);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	fflush(stderr);
	abort();
}
