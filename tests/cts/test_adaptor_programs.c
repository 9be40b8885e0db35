/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: compilation, facts, lifetime, and the serialised form. */
#include "support/plugin_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static void run_add(struct bed *t, PJRT_LoadedExecutable *p)
{
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL;

	ok(try_execute(
		&(struct run){ .loaded = p, .args = args, .arg_count = 2, .outputs = &sum }));
	expect_vector(sum, 11, 2);
	buffer_destroy(sum);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
}

static void a_program_compiles_and_runs(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);

	run_add(t, p);
	loaded_destroy(p);
}

static void a_broken_program_is_explained(void **state)
{
	struct bed *t = *state;
	const char *text = t->subject->program(PROGRAM_BROKEN);
	PJRT_LoadedExecutable *p = NULL;

	refused(try_compile(t, text, strlen(text), &p), t->subject->broken_code,
		t->subject->broken_words);
	assert_null(p);
	p = compile(t, PROGRAM_ADD); /* the failure broke nothing */
	run_add(t, p);
	loaded_destroy(p);
}

static void an_empty_program_is_refused(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = NULL;

	assert_true(code_of(try_compile(t, "", 0, &p)) != 0);
	assert_null(p);
	p = compile(t, PROGRAM_ADD); /* the client still works */
	loaded_destroy(p);
}

/* Options may be empty. The vendor refuses empty options, and the fake device ignores options. */
static void empty_options_are_options(void **state)
{
	struct bed *t = *state;
	const char *text = t->subject->program(PROGRAM_ADD);
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE,
				 .code = (char *)text,
				 .code_size = strlen(text),
				 .format = "mlir",
				 .format_size = 4 };
	ARGS(Client_Compile, a, .client = t->client, .program = &program, .compile_options = "");
	int code = code_of(api->PJRT_Client_Compile(&a));

	assert_int_equal(code, t->subject->is_fake ? 0 : SAL_INTERNAL);
	if (code == 0)
		loaded_destroy(a.executable);
	loaded_destroy(compile(t, PROGRAM_ADD)); /* the client still works */
}

static void odd_formats_are_refused(void **state)
{
	static const char *const formats[] = { "", "a-format-with-a-very-long-name-indeed" };
	struct bed *t = *state;
	const char *text = "nonsense";
	size_t i;

	for (i = 0; i < 2; i++) {
		PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE,
					 .code = (char *)text,
					 .code_size = strlen(text),
					 .format = formats[i],
					 .format_size = strlen(formats[i]) };
		ARGS(Client_Compile, a, .client = t->client, .program = &program,
		     .compile_options = t->subject->options,
		     .compile_options_size = t->subject->options_size);

		assert_true(code_of(api->PJRT_Client_Compile(&a)) != 0);
	}
	loaded_destroy(compile(t, PROGRAM_ADD));
}

/* A CompileOptionsProto that is not a protocol buffer, and one that asks for two replicas. */
static void bad_options_are_refused(void **state)
{
	static const char garbage[] = { (char)0xff, (char)0xff, (char)0xff };
	static const char two[] = { 0x1a, 0x04, 0x20, 0x02, 0x28, 0x01 };
	struct bed *t = *state;
	const char *text = t->subject->program(PROGRAM_ADD);
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE,
				 .code = (char *)text,
				 .code_size = strlen(text),
				 .format = "mlir",
				 .format_size = 4 };
	ARGS(Client_Compile, a, .client = t->client, .program = &program,
	     .compile_options = garbage, .compile_options_size = sizeof(garbage));
	ARGS(Client_Compile, b, .client = t->client, .program = &program, .compile_options = two,
	     .compile_options_size = sizeof(two));

	refused(api->PJRT_Client_Compile(&a), SAL_INVALID_ARGUMENT, "CompileOptionsProto");
	if (!t->subject->is_fake) /* the fake device ignores options */
		assert_true(code_of(api->PJRT_Client_Compile(&b)) != 0);
	loaded_destroy(compile(t, PROGRAM_ADD));
}

/* A program larger than a segment of the arena, filled up with comments. */
static void a_huge_program_compiles(void **state)
{
	struct bed *t = *state;
	const char *text = t->subject->program(PROGRAM_ADD);
	size_t size = 80u << 20, used = strlen(text), i;
	char *huge = malloc(size + 1);
	PJRT_LoadedExecutable *p = NULL;

	host_deadline(200);
	memcpy(huge, text, used);
	for (i = used; i < size; i++)
		huge[i] = i % 64 == 0	? '\n'
			  : i % 64 == 1 ? (t->subject->is_fake ? '#' : '/')
			  : i % 64 == 2 ? (t->subject->is_fake ? '#' : '/')
					: 'x';
	huge[used] = '\n';
	for (i = used + 1; i % 64 != 0; i++)
		huge[i] = ' ';
	/* Whole lines only. */
	size -= size % 64;
	huge[size] = '\0';
	ok(try_compile(t, huge, size, &p));
	run_add(t, p);
	loaded_destroy(p);
	free(huge);
}

static long admin_number(struct bed *t, const char *name)
{
	char answer[65536], key[64], *at;

	daemon_ask(&t->daemon, "{\"op\":\"ps\"}\n", answer, sizeof(answer));
	(void)snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(answer, key);
	assert_non_null(at);
	return strtol(at + strlen(key), NULL, 10);
}

static void the_same_program_is_compiled_once(void **state)
{
	struct bed *t = *state;
	char text[4096];
	PJRT_LoadedExecutable *a, *b;
	PJRT_Client *first = t->client;
	long before;

	(void)snprintf(text, sizeof(text), "%s\n%s once\n", t->subject->program(PROGRAM_ADD),
		       t->subject->is_fake ? "#" : "//");
	before = admin_number(t, "compiled");
	a = compile_text(t, text);
	b = compile_text(t, text);
	assert_ptr_not_equal(a, b);
	assert_int_equal(admin_number(t, "compiled"), before + 1);
	loaded_destroy(a);
	run_add(t, b);
	t->client = client_create();
	a = compile_text(t, text);
	assert_int_equal(admin_number(t, "compiled"), before + 1);
	loaded_destroy(a);
	client_destroy(t->client);
	t->client = first;
	run_add(t, b);
	loaded_destroy(b);
}

static void facts_are_known(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_SWAP);
	PJRT_Executable *e = executable_of(p);
	ARGS(Executable_Name, name, .executable = e);
	ARGS(Executable_NumReplicas, replicas, .executable = e);
	ARGS(Executable_NumPartitions, partitions, .executable = e);
	ARGS(Executable_NumOutputs, outputs, .executable = e);
	ARGS(Executable_SizeOfGeneratedCodeInBytes, code, .executable = e);
	ARGS(Executable_OutputElementTypes, types, .executable = e);
	ARGS(Executable_OutputDimensions, dims, .executable = e);
	ARGS(Executable_OutputMemoryKinds, kinds, .executable = e);
	ARGS(Executable_GetCostAnalysis, costs, .executable = e);
	ARGS(Executable_GetCompiledMemoryStats, stats, .executable = e);
	ARGS(LoadedExecutable_AddressableDevices, devices, .executable = p);
	ARGS(LoadedExecutable_GetDeviceAssignment, assignment, .executable = p);
	size_t i;

	ok(api->PJRT_Executable_Name(&name));
	assert_true(name.executable_name_size > 0);
	ok(api->PJRT_Executable_NumReplicas(&replicas));
	ok(api->PJRT_Executable_NumPartitions(&partitions));
	ok(api->PJRT_Executable_NumOutputs(&outputs));
	assert_int_equal(replicas.num_replicas, 1);
	assert_int_equal(partitions.num_partitions, 1);
	assert_int_equal(outputs.num_outputs, 2);
	ok(api->PJRT_Executable_SizeOfGeneratedCodeInBytes(&code));
	ok(api->PJRT_Executable_OutputElementTypes(&types));
	ok(api->PJRT_Executable_OutputDimensions(&dims));
	ok(api->PJRT_Executable_OutputMemoryKinds(&kinds));
	assert_int_equal(types.num_output_types, 2);
	assert_int_equal(dims.num_outputs, 2);
	assert_int_equal(kinds.num_outputs, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(types.output_types[i], F32);
		assert_int_equal(dims.dim_sizes[i], 1);
		assert_int_equal(dims.dims[i], LANES);
		assert_true(kinds.memory_kind_sizes[i] > 0);
	}
	ok(api->PJRT_Executable_GetCostAnalysis(&costs));
	for (i = 0; i < costs.num_properties; i++)
		assert_true(costs.properties[i].name_size > 0);
	ok(api->PJRT_Executable_GetCompiledMemoryStats(&stats));
	assert_int_equal(stats.output_size_in_bytes >= 32, 1);
	assert_true(stats.temp_size_in_bytes >= 0);
	ok(api->PJRT_LoadedExecutable_AddressableDevices(&devices));
	assert_int_equal(devices.num_addressable_devices, 1);
	assert_ptr_equal(devices.addressable_devices[0], t->device);
	ok(api->PJRT_LoadedExecutable_GetDeviceAssignment(&assignment));
	assert_non_null(assignment.serialized_device_assignment_deleter);
	assignment.serialized_device_assignment_deleter(assignment.serialized_device_assignment);
	executable_destroy(e);
	loaded_destroy(p);
}

static void fingerprints_tell_programs_apart(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD), *q = compile(t, PROGRAM_SWAP);
	PJRT_Executable *e = executable_of(p), *f = executable_of(q);
	ARGS(Executable_Fingerprint, a, .executable = e);
	ARGS(Executable_Fingerprint, b, .executable = f);
	ARGS(LoadedExecutable_Fingerprint, c, .executable = p);

	ok(api->PJRT_Executable_Fingerprint(&a));
	ok(api->PJRT_Executable_Fingerprint(&b));
	ok(api->PJRT_LoadedExecutable_Fingerprint(&c));
	assert_int_equal(a.executable_fingerprint_size, c.executable_fingerprint_size);
	assert_memory_equal(a.executable_fingerprint, c.executable_fingerprint,
			    a.executable_fingerprint_size);
	assert_true(a.executable_fingerprint_size != b.executable_fingerprint_size ||
		    memcmp(a.executable_fingerprint, b.executable_fingerprint,
			   a.executable_fingerprint_size) != 0);
	executable_destroy(e);
	executable_destroy(f);
	loaded_destroy(p);
	loaded_destroy(q);
}

/*
 * An older caller's struct ends before the fields for host memory: the plugin does not write them.
 */
static void shorter_memory_stats_are_respected(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Executable *e = executable_of(p);
	size_t size = offsetof(PJRT_Executable_GetCompiledMemoryStats_Args,
			       host_generated_code_size_in_bytes);
	PJRT_Executable_GetCompiledMemoryStats_Args *a = malloc(sizeof(*a));

	memset(a, 0x5a, sizeof(*a));
	a->struct_size = size;
	a->executable = e;
	ok(api->PJRT_Executable_GetCompiledMemoryStats(a));
	assert_true(a->output_size_in_bytes >= 16);
	assert_int_equal(((unsigned char *)a)[size], 0x5a);
	assert_int_equal(((unsigned char *)a)[sizeof(*a) - 1], 0x5a);
	free(a);
	executable_destroy(e);
	loaded_destroy(p);
}

static void executables_outlive_the_loaded(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Executable *e = executable_of(p), *f = executable_of(p);
	ARGS(Executable_NumOutputs, outputs, .executable = e);

	assert_ptr_not_equal(e, f);
	loaded_destroy(p);
	executable_destroy(f);
	ok(api->PJRT_Executable_NumOutputs(&outputs));
	assert_int_equal(outputs.num_outputs, 1);
	executable_destroy(e);
}

static bool loaded_is_deleted(PJRT_LoadedExecutable *p)
{
	ARGS(LoadedExecutable_IsDeleted, a, .executable = p);

	ok(api->PJRT_LoadedExecutable_IsDeleted(&a));
	return a.is_deleted;
}

static void what_is_deleted_does_not_run(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD), *same = compile(t, PROGRAM_ADD);
	PJRT_Executable *e = executable_of(p);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sum = NULL;
	ARGS(Executable_Name, name, .executable = e);

	assert_false(loaded_is_deleted(p));
	ok(CALL(LoadedExecutable_Delete, .executable = p));
	ok(CALL(LoadedExecutable_Delete, .executable = p));
	assert_true(loaded_is_deleted(p));
	assert_false(loaded_is_deleted(same));
	refused(try_execute(&(struct run){
			.loaded = p, .args = args, .arg_count = 2, .outputs = &sum }),
		SAL_INVALID_ARGUMENT, "deleted");
	assert_null(sum);
	ok(api->PJRT_Executable_Name(&name)); /* known facts stay known */
	assert_true(name.executable_name_size > 0);
	run_add(t, same);
	executable_destroy(e);
	loaded_destroy(p);
	loaded_destroy(same);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
}

/* Deleting a program lets its running iterations end. */
static void what_runs_survives_its_deletion(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Buffer *args[] = { put_vector(t, 1), put_vector(t, 10) }, *sums[50];
	int i;

	for (i = 0; i < 50; i++)
		ok(try_execute(&(struct run){
			.loaded = p, .args = args, .arg_count = 2, .outputs = &sums[i] }));
	loaded_destroy(p);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	for (i = 0; i < 50; i++) {
		expect_vector(sums[i], 11, 2);
		buffer_destroy(sums[i]);
	}
}

static void the_optimised_program_can_be_had(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD);
	PJRT_Executable *e = executable_of(p);
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	ARGS(Executable_OptimizedProgram, a, .executable = e, .program = &program);
	size_t size;

	ok(api->PJRT_Executable_OptimizedProgram(&a));
	size = program.code_size;
	assert_true(size > 0);
	assert_true(program.format_size > 0);
	program.code = malloc(size + 1);
	program.code_size = size - 1;
	refused(api->PJRT_Executable_OptimizedProgram(&a), SAL_INVALID_ARGUMENT, NULL);
	program.code_size = size;
	memset(program.code, 0, size);
	ok(api->PJRT_Executable_OptimizedProgram(&a));
	if (t->subject->is_fake)
		assert_memory_equal(program.code, "fake 1\n", 7);
	else
		assert_memory_not_equal(program.code, "\0\0\0\0", 4);
	free(program.code);
	executable_destroy(e);
	loaded_destroy(p);
}

/* A program larger than the plugin stores in its own process. */
static void a_large_optimised_program_can_be_had(void **state)
{
	struct bed *t = *state;
	const char *text = t->subject->program(PROGRAM_ADD);
	size_t size = 100000, used = strlen(text);
	char *large = malloc(size), *got = malloc(size);
	PJRT_LoadedExecutable *p = NULL;
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	ARGS(Executable_OptimizedProgram, a, .program = &program);

	memset(large, '#', size);
	memcpy(large, text, used); // NOLINT(bugprone-not-null-terminated-result): no string
	for (size_t i = used; i < size; i += 50)
		large[i] = '\n';
	if (!t->subject->is_fake) /* the fake's optimised program is its text */
		size = used;
	ok(try_compile(t, large, size, &p));
	a.executable = executable_of(p);
	for (int i = 0; i < 2 && t->subject->is_fake; i++) {
		program.code = NULL;
		ok(api->PJRT_Executable_OptimizedProgram(&a));
		assert_int_equal(program.code_size, size);
		program.code = got;
		memset(got, 0, size);
		ok(api->PJRT_Executable_OptimizedProgram(&a));
		assert_memory_equal(got, large, size);
	}
	executable_destroy(a.executable);
	loaded_destroy(p);
	free(large);
	free(got);
}

/* Serialised */

static char *serialize(PJRT_LoadedExecutable *p, size_t *out_size)
{
	PJRT_Executable *e = executable_of(p);
	ARGS(Executable_Serialize, a, .executable = e);
	char *copy;

	ok(api->PJRT_Executable_Serialize(&a));
	assert_true(a.serialized_bytes_size > 0);
	copy = malloc(a.serialized_bytes_size + 1);
	memcpy(copy, a.serialized_bytes, a.serialized_bytes_size);
	*out_size = a.serialized_bytes_size;
	a.serialized_executable_deleter(a.serialized_executable);
	executable_destroy(e);
	return copy;
}

static PJRT_Error *deserialize(struct bed *t, const char *bytes, size_t size,
			       PJRT_LoadedExecutable **out)
{
	ARGS(Executable_DeserializeAndLoad, a, .client = t->client, .serialized_executable = bytes,
	     .serialized_executable_size = size);
	PJRT_Error *error = api->PJRT_Executable_DeserializeAndLoad(&a);

	*out = a.loaded_executable;
	return error;
}

static void a_program_survives_the_round_trip(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD), *q = NULL;
	PJRT_Executable *e;
	size_t size;
	char *blob = serialize(p, &size);

	loaded_destroy(p);
	client_destroy(t->client);
	t->client = client_create(); /* another session can load the program, too */
	{
		ARGS(Client_Devices, a, .client = t->client);

		ok(api->PJRT_Client_Devices(&a));
		t->device = a.devices[0];
	}
	ok(deserialize(t, blob, size, &q));
	e = executable_of(q);
	{
		ARGS(Executable_NumOutputs, outputs, .executable = e);

		ok(api->PJRT_Executable_NumOutputs(&outputs));
		assert_int_equal(outputs.num_outputs, 1);
	}
	executable_destroy(e);
	run_add(t, q);
	loaded_destroy(q);
	free(blob);
}

static void a_tampered_blob_is_refused(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD), *q = NULL;
	size_t size, i;
	char *blob = serialize(p, &size);

	for (i = 0; i < size; i += 1 + size / 37) {
		blob[i] ^= 0x40;
		assert_true(code_of(deserialize(t, blob, size, &q)) != 0);
		assert_null(q);
		blob[i] ^= 0x40;
	}
	assert_true(code_of(deserialize(t, blob, size - 1, &q)) != 0);
	assert_true(code_of(deserialize(t, blob, 1, &q)) != 0);
	assert_true(code_of(deserialize(t, "garbage garbage garbage", 23, &q)) != 0);
	assert_true(code_of(deserialize(t, blob, 0, &q)) != 0);
	ok(deserialize(t, blob, size, &q)); /* the client still works */
	run_add(t, q);
	loaded_destroy(q);
	loaded_destroy(p);
	free(blob);
}

/* Without a cache, each daemon has a key of its own. */
static void a_blob_of_another_key_is_refused(void **state)
{
	struct bed *t = *state;
	struct host_daemon other = { 0 };
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_ADD), *q = NULL;
	PJRT_Client *first = t->client;
	size_t size;
	char *blob = serialize(p, &size);

	daemon_start(&other, t->subject->plugin, NULL);
	t->client = client_create();
	assert_true(code_of(deserialize(t, blob, size, &q)) != 0);
	assert_null(q);
	client_destroy(t->client);
	daemon_stop(&other);
	t->client = first;
	(void)setenv("SALUS_SOCKET", t->daemon.socket, 1);
	ok(deserialize(t, blob, size, &q));
	loaded_destroy(q);
	loaded_destroy(p);
	free(blob);
}

/* A crash of the compiler fails this compilation and nothing else. */
static void a_crash_of_the_compiler_is_survived(void **state)
{
	struct bed *t = *state;
	PJRT_LoadedExecutable *p = NULL;
	const char *text = "fake 1\noutput f32 4 = fill 1\ncrash\n";

	if (!t->subject->is_fake)
		skip();
	assert_true(code_of(try_compile(t, text, strlen(text), &p)) != 0);
	text = "fake 1\nreject 9 because of this sentence\n";
	refused(try_compile(t, text, strlen(text), &p), 9, "because of this sentence");
	p = compile(t, PROGRAM_ADD);
	run_add(t, p);
	loaded_destroy(p);
}

/* Layouts: the extension, as in xla/pjrt/extensions/layouts */

struct layout_serialize {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	void *layout;
	const char *bytes;
	size_t size;
	void *backing;
	void (*delete_backing)(void *backing);
};

struct layout_args {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	void *object; /* a layout or a buffer */
	void *layout;
};

struct layout_outputs {
	size_t struct_size;
	PJRT_Extension_Base *extension_start;
	PJRT_Executable *executable;
	size_t count;
	void **layouts;
};

struct layout_extension {
	PJRT_Extension_Base base;
	PJRT_Error *(*destroy)(struct layout_args *args);
	PJRT_Error *(*serialize)(struct layout_serialize *args);
	void *client_default;
	PJRT_Error *(*of_buffer)(struct layout_args *args);
	void *topology_default;
	PJRT_Error *(*of_outputs)(struct layout_outputs *args);
};

static const struct layout_extension *layouts(void)
{
	const PJRT_Extension_Base *e = api->extension_start;

	while (e && e->type != PJRT_Extension_Type_Layouts)
		e = e->next;
	return (const struct layout_extension *)e;
}

static void layouts_are_row_major(void **state)
{
	struct bed *t = *state;
	const struct layout_extension *e = layouts();
	PJRT_LoadedExecutable *p = compile(t, PROGRAM_SWAP);
	struct layout_outputs outputs = { .struct_size = sizeof(outputs),
					  .executable = executable_of(p) };
	struct layout_serialize s = { .struct_size = sizeof(s) };
	const int64_t dims[] = { 2, 2 };
	const int32_t data[4] = { 1, 2, 3, 4 };
	PJRT_Buffer *b = put(
		t, &(struct array){
			   .type = PJRT_Buffer_Type_S32, .dims = dims, .rank = 2, .data = data });
	struct layout_args of_buffer = { .struct_size = sizeof(of_buffer), .object = b };

	assert_non_null(e);
	ok(e->of_outputs(&outputs));
	assert_int_equal(outputs.count, 2);
	s.layout = outputs.layouts[1];
	ok(e->serialize(&s));
	assert_true(s.size >= 3);
	assert_memory_equal(s.bytes, "{0", 2);
	s.delete_backing(s.backing);
	ok(e->of_buffer(&of_buffer));
	s.layout = of_buffer.layout;
	ok(e->serialize(&s));
	assert_int_equal(s.size, 5);
	assert_memory_equal(s.bytes, "{1,0}", 5);
	s.delete_backing(s.backing);
	ok(e->destroy(&(struct layout_args){ .struct_size = sizeof(of_buffer),
					     .object = of_buffer.layout }));
	executable_destroy(outputs.executable);
	loaded_destroy(p);
	buffer_destroy(b);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(a_program_compiles_and_runs),
		T(a_broken_program_is_explained),
		T(an_empty_program_is_refused),
		T(empty_options_are_options),
		T(odd_formats_are_refused),
		T(bad_options_are_refused),
		T(a_huge_program_compiles),
		T(the_same_program_is_compiled_once),
		T(facts_are_known),
		T(fingerprints_tell_programs_apart),
		T(shorter_memory_stats_are_respected),
		T(executables_outlive_the_loaded),
		T(what_is_deleted_does_not_run),
		T(what_runs_survives_its_deletion),
		T(the_optimised_program_can_be_had),
		T(a_large_optimised_program_can_be_had),
		T(a_program_survives_the_round_trip),
		T(a_tampered_blob_is_refused),
		T(a_blob_of_another_key_is_refused),
		T(a_crash_of_the_compiler_is_survived),
		T(layouts_are_row_major),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
