/* SPDX-License-Identifier: Apache-2.0 */
/* What frameworks other than JAX rely on: XLA_FLAGS, and the Profiler extension. */
#include "support/plugin_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* Compiles with a client that was created under these flags. */
static PJRT_Error *compile_under(struct bed *t, const char *flags, const char *options, size_t size)
{
	const char *text = t->subject->program(PROGRAM_ADD);
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE,
				 .code = (char *)text,
				 .code_size = strlen(text),
				 .format = "mlir",
				 .format_size = 4 };
	PJRT_Client *client;
	PJRT_Error *error;

	assert_int_equal(flags ? setenv("XLA_FLAGS", flags, 1) : unsetenv("XLA_FLAGS"), 0);
	client = client_create();
	assert_int_equal(unsetenv("XLA_FLAGS"), 0);
	ARGS(Client_Compile, a, .client = client, .program = &program, .compile_options = options,
	     .compile_options_size = size);
	error = api->PJRT_Client_Compile(&a);
	if (!error)
		loaded_destroy(a.executable);
	client_destroy(client);
	return error;
}

static PJRT_Error *compile_plain(struct bed *t, const char *flags)
{
	return compile_under(t, flags, t->subject->options, t->subject->options_size);
}

static void flags_reach_the_compiler(void **state)
{
	struct bed *t = *state;

	ok(compile_plain(t, NULL));
	ok(compile_plain(t, "--xla_cpu_enable_fast_math=false"));
	ok(compile_plain(t, "--xla_dump_to=/no/such/folder"));
	refused(compile_plain(t, "--xla_no_such_thing=1"), SAL_INVALID_ARGUMENT,
		"xla_no_such_thing");
	refused(compile_plain(t, "--xla_cpu_enable_fast_math=true --xla_gpu_ptx_file=/etc/passwd"),
		SAL_INVALID_ARGUMENT, "xla_gpu_ptx_file");
	if (!t->subject->is_fake) /* the fake device reads no options */
		refused(compile_plain(t, "--xla_backend_optimization_level=much"),
			SAL_INVALID_ARGUMENT, "xla_backend_optimization_level");
}

/* JAX sends its flags as debug options: ours must not come on top of them. */
static void flags_of_the_framework_stay(void **state)
{
	/*
	 * Build options: debug options (xla_cpu_enable_fast_math, and 32 for
	 * xla_cpu_parallel_codegen_split_count), one replica, one partition.
	 */
	static const char options[] = { 0x1a,	    0x0c, 0x1a, 0x06, (char)0x98, 0x06, 0x01,
					(char)0x98, 0x14, 0x20, 0x20, 0x01,	  0x28, 0x01 };
	struct bed *t = *state;

	ok(compile_under(t, "--xla_no_such_thing=1", options, sizeof(options)));
}

/* The extension as frameworks declare it. */
struct profile_args {
	size_t struct_size;
	void *profile;
};

struct create_args {
	size_t struct_size;
	const char *options;
	size_t options_size;
	void *profile;
};

struct collect_args {
	size_t struct_size;
	void *profile;
	uint8_t *buffer;
	size_t buffer_size;
};

struct profiler_api {
	size_t struct_size;
	void *priv;
	void (*error_destroy)(void *args);
	void (*error_message)(void *args);
	void *(*error_code)(void *args);
	void *(*create)(struct create_args *args);
	void *(*destroy)(struct profile_args *args);
	void *(*start)(struct profile_args *args);
	void *(*stop)(struct profile_args *args);
	void *(*collect)(struct collect_args *args);
};

struct profiler_extension {
	PJRT_Extension_Base base;
	const struct profiler_api *api;
	int64_t trace_context;
};

static const struct profiler_extension *find_profiler(void)
{
	const PJRT_Extension_Base *e;

	for (e = api->extension_start; e; e = e->next)
		if (e->type == PJRT_Extension_Type_Profiler)
			return (const struct profiler_extension *)e;
	return NULL;
}

static void a_profile_can_be_taken(void **state)
{
	const struct profiler_extension *e = find_profiler();
	struct create_args create = { .struct_size = sizeof(create) };
	struct profile_args args = { .struct_size = 0 }; /* frameworks leave it unset */
	struct collect_args collect = { .buffer_size = 7 };
	int turn;

	(void)state;
	assert_non_null(e);
	assert_true(e->base.struct_size >= sizeof(*e));
	assert_true(e->api->struct_size >= sizeof(*e->api));
	for (turn = 0; turn < 2; turn++) {
		assert_null(e->api->create(&create));
		assert_non_null(create.profile);
		args.profile = collect.profile = create.profile;
		assert_null(e->api->start(&args));
		assert_null(e->api->stop(&args));
		collect.buffer = NULL;
		assert_null(e->api->collect(&collect));
		assert_int_equal(collect.buffer_size, 0); /* an empty message */
		assert_null(e->api->destroy(&args));
	}
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(flags_reach_the_compiler),
		T(flags_of_the_framework_stay),
		T(a_profile_can_be_taken),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
