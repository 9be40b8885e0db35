/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No wheel contains the extension's header. So its ABI is declared here, under our own names.
 * Callers do not fill in struct_size of every argument, so nothing here reads it.
 */
#include "adaptor/profiler.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/timeline.h"

/* One profile that a framework takes. */
struct profile {
	void *bytes; /* owned; an XSpace, once the framework has asked how long it is */
	size_t size;
};

/* The only error is lack of memory. */
struct profile_error {
	char unused;
};

static struct profile_error no_memory;

struct error_destroy_args {
	size_t struct_size;
	void *priv;
	struct profile_error *error;
};

struct error_message_args {
	size_t struct_size;
	void *priv;
	const struct profile_error *error;
	const char *message; /* out */
	size_t message_size; /* out */
};

struct error_code_args {
	size_t struct_size;
	void *priv;
	const struct profile_error *error;
	int code; /* out */
};

struct create_args {
	size_t struct_size;
	const char *options;
	size_t options_size;
	struct profile *profile; /* out */
};

/* Of destroy, start and stop. */
struct profile_args {
	size_t struct_size;
	struct profile *profile;
};

struct collect_args {
	size_t struct_size;
	struct profile *profile;
	uint8_t *buffer; /* in, out */
	size_t buffer_size; /* out */
};

struct adp_profiler_api {
	size_t struct_size;
	void *priv;
	void (*error_destroy)(struct error_destroy_args *args);
	void (*error_message)(struct error_message_args *args);
	struct profile_error *(*error_code)(struct error_code_args *args);
	struct profile_error *(*create)(struct create_args *args);
	struct profile_error *(*destroy)(struct profile_args *args);
	struct profile_error *(*start)(struct profile_args *args);
	struct profile_error *(*stop)(struct profile_args *args);
	struct profile_error *(*collect)(struct collect_args *args);
};

static void error_destroy(struct error_destroy_args *args)
{
	(void)args; /* the error is static */
}

static void error_message(struct error_message_args *args)
{
	static const char text[] = "salus: out of memory";

	args->message = text;
	args->message_size = sizeof(text) - 1;
}

static struct profile_error *error_code(struct error_code_args *args)
{
	args->code = PJRT_Error_Code_RESOURCE_EXHAUSTED;
	return NULL;
}

static struct profile_error *profile_create(struct create_args *args)
{
	args->profile = calloc(1, sizeof(*args->profile));
	return args->profile ? NULL : &no_memory;
}

static struct profile_error *profile_destroy(struct profile_args *args)
{
	if (args->profile)
		free(args->profile->bytes);
	free(args->profile);
	return NULL;
}

static struct profile_error *profile_start(struct profile_args *args)
{
	(void)args;
	adp_timeline_start();
	return NULL;
}

static struct profile_error *profile_stop(struct profile_args *args)
{
	(void)args;
	adp_timeline_stop();
	return NULL;
}

/*
 * The first call has no buffer and gets ours. Older frameworks call again with a buffer of their own
 * of that size. No bytes are an empty XSpace.
 */
static struct profile_error *profile_collect(struct collect_args *args)
{
	struct profile *p = args->profile;

	if (!args->buffer) {
		free(p->bytes);
		p->bytes = adp_timeline_write(&p->size);
		args->buffer = p->bytes;
	} else if (p->size > 0 && args->buffer != p->bytes) {
		memcpy(args->buffer, p->bytes, p->size);
	}
	args->buffer_size = p->size;
	return NULL;
}

static const struct adp_profiler_api profiler_api = {
	.struct_size = sizeof(struct adp_profiler_api),
	.error_destroy = error_destroy,
	.error_message = error_message,
	.error_code = error_code,
	.create = profile_create,
	.destroy = profile_destroy,
	.start = profile_start,
	.stop = profile_stop,
	.collect = profile_collect,
};

const struct adp_profiler_extension adp_profiler = {
	.base = {
		.struct_size = sizeof(struct adp_profiler_extension),
		.type = PJRT_Extension_Type_Profiler,
	},
	.api = &profiler_api,
};
