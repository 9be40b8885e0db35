/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a client: its device, memories and topology. JAX aborts when one of these calls
 * fails, and uses the pointers for the lifetime of the client.
 */
#include "support/plugin_host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

static void expect_text(const char *at, size_t size)
{
	assert_non_null(at);
	assert_true(size > 0);
}

static PJRT_DeviceDescription *description(PJRT_Device *device)
{
	ARGS(Device_GetDescription, a, .device = device);

	ok(api->PJRT_Device_GetDescription(&a));
	assert_non_null(a.device_description);
	return a.device_description;
}

static PJRT_TopologyDescription *topology(PJRT_Client *client)
{
	/*
	 * PJRT 0.81 returns the topology as const, but the topology functions take a pointer to
	 * non-const.
	 */
	ARGS(Client_TopologyDescription, a, .client = client);

	ok(api->PJRT_Client_TopologyDescription(&a));
	assert_non_null(a.topology);
	return (PJRT_TopologyDescription *)a.topology;
}

static void expect_values(const PJRT_NamedValue *values, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		assert_true(values[i].struct_size > 0);
		expect_text(values[i].name, values[i].name_size);
		assert_true(values[i].type >= PJRT_NamedValue_kString &&
			    values[i].type <= PJRT_NamedValue_kBool);
		if (values[i].type == PJRT_NamedValue_kInt64List)
			assert_non_null(values[i].int64_array_value);
	}
}

static void platform_is_the_vendors(void **state)
{
	struct bed *t = *state;
	ARGS(Client_PlatformName, name, .client = t->client);
	ARGS(Client_PlatformVersion, version, .client = t->client);
	ARGS(Client_ProcessIndex, index, .client = t->client);

	ok(api->PJRT_Client_PlatformName(&name));
	ok(api->PJRT_Client_PlatformVersion(&version));
	ok(api->PJRT_Client_ProcessIndex(&index));
	expect_text(name.platform_name, name.platform_name_size);
	expect_text(version.platform_version, version.platform_version_size);
	assert_int_equal(index.process_index, 0);
	if (!t->subject->is_fake)
		assert_memory_equal(name.platform_name, "cpu", 3);
}

static void plugin_attributes_outlive_clients(void **state)
{
	struct bed *t = *state;
	ARGS(Plugin_Attributes, before);
	ARGS(Plugin_Attributes, after);

	ok(api->PJRT_Plugin_Attributes(&before));
	assert_true(before.num_attributes > 0);
	expect_values(before.attributes, before.num_attributes);
	client_destroy(t->client);
	t->client = NULL;
	expect_values(before.attributes, before.num_attributes);
	t->client = client_create();
	ok(api->PJRT_Plugin_Attributes(&after));
	assert_ptr_equal(after.attributes, before.attributes);
	assert_int_equal(after.num_attributes, before.num_attributes);
}

static void stablehlo_version_is_passed_on(void **state)
{
	ARGS(Plugin_Attributes, a);
	bool found = false;
	size_t i;

	if (((struct bed *)*state)->subject->is_fake)
		skip();
	ok(api->PJRT_Plugin_Attributes(&a));
	for (i = 0; i < a.num_attributes; i++) {
		const PJRT_NamedValue *v = &a.attributes[i];

		if (v->name_size != strlen("stablehlo_current_version") ||
		    memcmp(v->name, "stablehlo_current_version", v->name_size) != 0)
			continue;
		assert_int_equal(v->type, PJRT_NamedValue_kInt64List);
		assert_int_equal(v->value_size, 3);
		found = true;
	}
	assert_true(found);
}

static void devices_are_one_and_the_same(void **state)
{
	struct bed *t = *state;
	ARGS(Client_Devices, all, .client = t->client);
	ARGS(Client_Devices, again, .client = t->client);
	ARGS(Client_AddressableDevices, ours, .client = t->client);
	ARGS(Device_IsAddressable, addressable, .device = t->device);
	PJRT_DeviceDescription *d = description(t->device);
	ARGS(DeviceDescription_Id, id, .device_description = d);
	ARGS(Device_LocalHardwareId, local, .device = t->device);
	ARGS(DeviceDescription_ProcessIndex, index, .device_description = d);

	ok(api->PJRT_Client_Devices(&all));
	ok(api->PJRT_Client_Devices(&again));
	ok(api->PJRT_Client_AddressableDevices(&ours));
	assert_int_equal(all.num_devices, 1);
	assert_ptr_equal(all.devices, again.devices);
	assert_ptr_equal(all.devices[0], ours.addressable_devices[0]);
	assert_ptr_equal(all.devices[0], t->device);
	assert_ptr_equal(description(t->device), d);
	ok(api->PJRT_Device_IsAddressable(&addressable));
	assert_true(addressable.is_addressable);
	ok(api->PJRT_DeviceDescription_Id(&id));
	ok(api->PJRT_Device_LocalHardwareId(&local));
	ok(api->PJRT_DeviceDescription_ProcessIndex(&index));
	assert_int_equal(index.process_index, 0);
	{
		ARGS(Client_LookupDevice, by_id, .client = t->client, .id = id.id);
		ARGS(Client_LookupAddressableDevice, by_local, .client = t->client,
		     .local_hardware_id = local.local_hardware_id);

		ok(api->PJRT_Client_LookupDevice(&by_id));
		assert_ptr_equal(by_id.device, t->device);
		ok(api->PJRT_Client_LookupAddressableDevice(&by_local));
		assert_ptr_equal(by_local.addressable_device, t->device);
	}
}

static void unknown_devices_are_refused(void **state)
{
	static const int ids[] = { -1, 1, 7, 999, INT32_MAX, INT32_MIN };
	struct bed *t = *state;
	size_t i;

	for (i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		ARGS(DeviceDescription_Id, id, .device_description = description(t->device));

		ok(api->PJRT_DeviceDescription_Id(&id));
		if (ids[i] == id.id)
			continue;
		refused(CALL(Client_LookupDevice, .client = t->client, .id = ids[i]),
			SAL_INVALID_ARGUMENT, "device");
		refused(CALL(Client_LookupAddressableDevice, .client = t->client,
			     .local_hardware_id = ids[i]),
			SAL_INVALID_ARGUMENT, "device");
	}
}

static void descriptions_are_readable(void **state)
{
	struct bed *t = *state;
	PJRT_DeviceDescription *d = description(t->device);
	ARGS(DeviceDescription_Kind, kind, .device_description = d);
	ARGS(DeviceDescription_DebugString, debug, .device_description = d);
	ARGS(DeviceDescription_ToString, text, .device_description = d);
	ARGS(DeviceDescription_Attributes, attributes, .device_description = d);

	ok(api->PJRT_DeviceDescription_Kind(&kind));
	ok(api->PJRT_DeviceDescription_DebugString(&debug));
	ok(api->PJRT_DeviceDescription_ToString(&text));
	ok(api->PJRT_DeviceDescription_Attributes(&attributes));
	expect_text(kind.device_kind, kind.device_kind_size);
	expect_text(debug.debug_string, debug.debug_string_size);
	expect_text(text.to_string, text.to_string_size);
	expect_values(attributes.attributes, attributes.num_attributes);
}

static void memories_are_consistent(void **state)
{
	struct bed *t = *state;
	ARGS(Client_AddressableMemories, of_client, .client = t->client);
	ARGS(Device_AddressableMemories, of_device, .device = t->device);
	bool has_default = false;
	size_t i, k;

	ok(api->PJRT_Client_AddressableMemories(&of_client));
	ok(api->PJRT_Device_AddressableMemories(&of_device));
	assert_true(of_client.num_addressable_memories > 0);
	assert_int_equal(of_device.num_memories, of_client.num_addressable_memories);
	for (i = 0; i < of_device.num_memories; i++) {
		PJRT_Memory *m = of_device.memories[i];
		ARGS(Memory_Id, id, .memory = m);
		ARGS(Memory_Kind, kind, .memory = m);
		ARGS(Memory_Kind_Id, kind_id, .memory = m);
		ARGS(Memory_DebugString, debug, .memory = m);
		ARGS(Memory_ToString, text, .memory = m);
		ARGS(Memory_AddressableByDevices, by, .memory = m);

		assert_ptr_equal(m, of_client.addressable_memories[i]);
		has_default = has_default || m == t->memory;
		ok(api->PJRT_Memory_Id(&id));
		ok(api->PJRT_Memory_Kind(&kind));
		ok(api->PJRT_Memory_Kind_Id(&kind_id));
		ok(api->PJRT_Memory_DebugString(&debug));
		ok(api->PJRT_Memory_ToString(&text));
		ok(api->PJRT_Memory_AddressableByDevices(&by));
		expect_text(kind.kind, kind.kind_size);
		expect_text(debug.debug_string, debug.debug_string_size);
		expect_text(text.to_string, text.to_string_size);
		assert_int_equal(by.num_devices, 1);
		assert_ptr_equal(by.devices[0], t->device);
		for (k = 0; k < i; k++) {
			ARGS(Memory_Id, other, .memory = of_device.memories[k]);

			ok(api->PJRT_Memory_Id(&other));
			assert_int_not_equal(other.id, id.id);
		}
	}
	assert_true(has_default);
}

static void default_assignment_has_edges(void **state)
{
	struct bed *t = *state;
	int ids[4] = { -7, -7, -7, -7 };
	ARGS(DeviceDescription_Id, id, .device_description = description(t->device));

	ok(api->PJRT_DeviceDescription_Id(&id));
	ok(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 1,
		.num_partitions = 1, .default_assignment = ids, .default_assignment_size = 1));
	assert_int_equal(ids[0], id.id);
	ok(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 1,
		.num_partitions = 1, .default_assignment = ids, .default_assignment_size = 4));
	assert_int_equal(ids[1], -7);
	refused(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 1,
		     .num_partitions = 1, .default_assignment = ids, .default_assignment_size = 0),
		SAL_FAILED_PRECONDITION, NULL);
	refused(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 2,
		     .num_partitions = 1, .default_assignment = ids, .default_assignment_size = 2),
		SAL_INVALID_ARGUMENT, "one device");
	refused(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 1,
		     .num_partitions = 3, .default_assignment = ids, .default_assignment_size = 4),
		SAL_INVALID_ARGUMENT, NULL);
	refused(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = 0,
		     .num_partitions = 1, .default_assignment = ids, .default_assignment_size = 1),
		SAL_INVALID_ARGUMENT, NULL);
	refused(CALL(Client_DefaultDeviceAssignment, .client = t->client, .num_replicas = -1,
		     .num_partitions = -1, .default_assignment = ids, .default_assignment_size = 1),
		SAL_INVALID_ARGUMENT, NULL);
	assert_int_equal(ids[1], -7);
}

static void topology_is_the_clients(void **state)
{
	struct bed *t = *state;
	PJRT_TopologyDescription *d = topology(t->client);
	ARGS(TopologyDescription_PlatformName, name, .topology = d);
	ARGS(TopologyDescription_PlatformVersion, version, .topology = d);
	ARGS(TopologyDescription_GetDeviceDescriptions, devices, .topology = d);
	ARGS(TopologyDescription_Attributes, attributes, .topology = d);
	ARGS(TopologyDescription_Serialize, bytes, .topology = d);
	ARGS(Client_PlatformName, client_name, .client = t->client);
	char text[256];
	int code;

	assert_ptr_equal(topology(t->client), d);
	ok(api->PJRT_TopologyDescription_PlatformName(&name));
	ok(api->PJRT_TopologyDescription_PlatformVersion(&version));
	ok(api->PJRT_TopologyDescription_GetDeviceDescriptions(&devices));
	ok(api->PJRT_TopologyDescription_Attributes(&attributes));
	ok(api->PJRT_Client_PlatformName(&client_name));
	assert_int_equal(name.platform_name_size, client_name.platform_name_size);
	assert_memory_equal(name.platform_name, client_name.platform_name, name.platform_name_size);
	expect_text(version.platform_version, version.platform_version_size);
	assert_int_equal(devices.num_descriptions, 1);
	assert_ptr_equal(devices.descriptions[0], description(t->device));
	expect_values(attributes.attributes, attributes.num_attributes);
	code = explain(api->PJRT_TopologyDescription_Serialize(&bytes), text, sizeof(text));
	assert_int_equal(code,
			 t->subject->is_fake ? SAL_UNIMPLEMENTED : 0); /* as from the vendor */
	if (code == 0) {
		expect_text(bytes.serialized_bytes, bytes.serialized_bytes_size);
		assert_non_null(bytes.serialized_topology_deleter);
		bytes.serialized_topology_deleter(bytes.serialized_topology);
	}
	/* The client owns the topology: destroying the topology has no effect. */
	ok(CALL(TopologyDescription_Destroy, .topology = d));
	assert_ptr_equal(topology(t->client), d);
	ok(api->PJRT_TopologyDescription_PlatformName(&name));
}

static PJRT_Device_MemoryStats_Args stats(struct bed *t)
{
	ARGS(Device_MemoryStats, a, .device = t->device);

	ok(api->PJRT_Device_MemoryStats(&a));
	assert_true(a.peak_bytes_in_use_is_set);
	assert_true(a.bytes_limit_is_set);
	return a;
}

static void expect_in_use(struct bed *t, int64_t bytes, int64_t peak_bytes)
{
	PJRT_Device_MemoryStats_Args now = stats(t);

	assert_int_equal(now.bytes_in_use, bytes);
	assert_int_equal(now.peak_bytes_in_use, peak_bytes);
}

/* Sets the job's memory limit, as `salus set` does. 0 removes the limit. */
static void set_limit(struct bed *t, unsigned long long bytes)
{
	char question[256], answer[4096];

	daemon_expect_sessions(&t->daemon, 1); /* the last test's session has the same name */
	(void)snprintf(question, sizeof(question),
		       "{\"op\":\"set\", \"job\":\"%s\", \"memory\":%llu}\n",
		       program_invocation_short_name, bytes);
	daemon_ask(&t->daemon, question, answer, sizeof(answer));
	assert_non_null(strstr(answer, "\"ok\":true"));
}

static PJRT_Buffer *put_bytes(struct bed *t, int64_t bytes)
{
	void *data = calloc(1, (size_t)bytes);
	PJRT_Buffer *b = put(
		t, &(struct array){
			   .type = PJRT_Buffer_Type_S8, .dims = &bytes, .rank = 1, .data = data });

	free(data);
	return b;
}

static void memory_stats_are_the_sessions_own(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *a, *b;

	expect_in_use(t, 0, 0);
	a = put_vector(t, 1);
	b = put_vector(t, 2);
	expect_in_use(t, 32, 32); /* counts also uploads under way */
	assert_int_equal(ready_code(b), 0);
	ok(CALL(Buffer_Delete, .buffer = a));
	expect_in_use(t, 16, 32);
	buffer_destroy(a);
	buffer_destroy(b);
	expect_in_use(t, 0, 32);
}

static void the_limit_is_what_was_set(void **state)
{
	struct bed *t = *state;
	int64_t all = stats(t).bytes_limit;

	assert_true(all > 4096);
	set_limit(t, 4096);
	assert_int_equal(stats(t).bytes_limit, 4096);
	set_limit(t, (unsigned long long)all * 2); /* the device has no more */
	assert_int_equal(stats(t).bytes_limit, all);
	set_limit(t, 4096);
	set_limit(t, 0);
	assert_int_equal(stats(t).bytes_limit, all);
}

/* Deleting the buffer of a refused upload does not subtract its bytes again. */
static void a_refused_upload_is_not_in_use(void **state)
{
	static const int64_t sizes[] = { 100, 5000, 3 << 20 };
	struct bed *t = *state;
	PJRT_Buffer *b;
	size_t i;

	set_limit(t, 1);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		b = put_bytes(t, sizes[i]);
		assert_int_equal(ready_code(b), SAL_RESOURCE_EXHAUSTED);
		expect_in_use(t, 0, 0);
		ok(CALL(Buffer_Delete, .buffer = b));
		expect_in_use(t, 0, 0);
		buffer_destroy(b);
		expect_in_use(t, 0, 0);
	}
	set_limit(t, 0);
	b = put_bytes(t, sizes[0]);
	assert_int_equal(ready_code(b), 0);
	expect_in_use(t, 100, 100);
	buffer_destroy(b);
}

/*
 * The plugin learns of a refused large upload without a question from the job. The uses of its
 * buffer fail.
 */
static void a_refused_upload_is_noticed(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *refused, *copy = NULL;
	char *bytes = malloc(3 << 20);

	set_limit(t, 1 << 20);
	refused = put_bytes(t, 3 << 20);
	assert_int_equal(code_of(try_get(refused, bytes, 3 << 20)), SAL_RESOURCE_EXHAUSTED);
	expect_in_use(t, 0, 0);
	{
		ARGS(Buffer_CopyToDevice, a, .buffer = refused, .dst_device = t->device);

		ok(api->PJRT_Buffer_CopyToDevice(&a));
		copy = a.dst_buffer;
	}
	assert_int_equal(code_of(try_get(copy, bytes, 3 << 20)), SAL_RESOURCE_EXHAUSTED);
	expect_in_use(t, 0, 0);
	buffer_destroy(copy);
	buffer_destroy(refused);
	expect_in_use(t, 0, 0);
	free(bytes);
}

static void refused_outputs_are_not_in_use(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *args[2] = { put_vector(t, 1), put_vector(t, 2) }, *out[2];
	PJRT_LoadedExecutable *swap = compile(t, PROGRAM_SWAP);
	PJRT_Event *done = NULL;
	struct run run = {
		.loaded = swap, .args = args, .arg_count = 2, .outputs = out, .done = &done
	};

	assert_int_equal(ready_code(args[0]) | ready_code(args[1]), 0);
	set_limit(t, 1);
	ok(try_execute(&run));
	buffer_destroy(out[0]); /* before or after the failure is known */
	assert_int_equal(await(done), SAL_RESOURCE_EXHAUSTED);
	expect_in_use(t, 32, 32);
	buffer_destroy(out[1]);
	expect_in_use(t, 32, 32);
	set_limit(t, 0);
	ok(try_execute(&run));
	assert_int_equal(await(done), 0);
	assert_int_equal(stats(t).bytes_in_use, 64);
	buffer_destroy(out[0]);
	buffer_destroy(out[1]);
	buffer_destroy(args[0]);
	buffer_destroy(args[1]);
	assert_int_equal(stats(t).bytes_in_use, 0);
	loaded_destroy(swap);
}

/* A user may ask for memory statistics because a job hangs: the call must not wait. */
static void memory_stats_wait_for_nobody(void **state)
{
	struct bed *t = *state;
	PJRT_Buffer *a = put_vector(t, 1), *b;

	assert_int_equal(ready_code(a), 0);
	set_limit(t, 4096);
	daemon_freeze(&t->daemon);
	b = put_bytes(t, 3000);
	expect_in_use(t, 3016, 3016);
	assert_int_equal(stats(t).bytes_limit, 4096);
	buffer_destroy(b);
	expect_in_use(t, 16, 16);
	daemon_thaw(&t->daemon);
	buffer_destroy(a);
}

/* An older caller's struct is shorter: the plugin must not touch the memory behind it. */
static void shorter_structs_are_respected(void **state)
{
	struct bed *t = *state;
	size_t size = offsetof(PJRT_Device_MemoryStats_Args, num_allocs);
	PJRT_Device_MemoryStats_Args *a = malloc(sizeof(*a));

	memset(a, 0x5a, sizeof(*a));
	a->struct_size = size;
	a->device = t->device;
	ok(api->PJRT_Device_MemoryStats(a));
	assert_int_equal(a->bytes_in_use, 0);
	assert_int_equal(((unsigned char *)a)[size], 0x5a);
	free(a);
}

static void longer_structs_are_fine(void **state)
{
	struct bed *t = *state;
	struct {
		PJRT_Client_Devices_Args a;
		unsigned char more[64];
	} devices = { .a = { .struct_size = sizeof(devices), .client = t->client } };

	memset(devices.more, 0x5a, sizeof(devices.more));
	ok(api->PJRT_Client_Devices(&devices.a));
	assert_int_equal(devices.a.num_devices, 1);
	assert_int_equal(devices.more[0], 0x5a);
}

/* Some calls of the wrapper leave extension_start uninitialised: the plugin never follows it. */
static void extensions_of_arguments_are_ignored(void **state)
{
	struct bed *t = *state;
	PJRT_Client_Devices_Args a = {
		.struct_size = PJRT_Client_Devices_Args_STRUCT_SIZE,
		.extension_start = (PJRT_Extension_Base *)0x1,
		.client = t->client,
	};

	ok(api->PJRT_Client_Devices(&a));
	assert_int_equal(a.num_devices, 1);
}

static void harmless_calls_do_nothing(void **state)
{
	struct bed *t = *state;
	char page[64];

	ok(CALL(Client_DmaMap, .client = t->client, .data = page, .size = sizeof(page)));
	ok(CALL(Client_DmaUnmap, .client = t->client, .data = page));
	ok(CALL(Client_UpdateGlobalProcessInfo, .client = t->client));
}

static void two_clients_are_two_sessions(void **state)
{
	struct bed *t = *state;
	PJRT_Client *other = client_create();
	ARGS(Client_Devices, a, .client = other);

	daemon_expect_sessions(&t->daemon, 2);
	ok(api->PJRT_Client_Devices(&a));
	assert_ptr_not_equal(a.devices[0], t->device);
	client_destroy(other);
	daemon_expect_sessions(&t->daemon, 1);
}

/* The environment gives the job's name. Odd names must do no harm. */
static void jobs_have_names(void **state)
{
	struct bed *t = *state;
	PJRT_Client *other;
	char answer[65536], name[400];

	(void)setenv("SALUS_JOB_NAME", "the-job-by-its-name", 1);
	other = client_create();
	daemon_ask(&t->daemon, "{\"op\":\"ps\"}\n", answer, sizeof(answer));
	assert_non_null(strstr(answer, "the-job-by-its-name"));
	client_destroy(other);
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)setenv("SALUS_JOB_NAME", name, 1);
	client_destroy(client_create());
	(void)setenv("SALUS_JOB_NAME", "\xff\xfe\"\\", 1);
	client_destroy(client_create());
	(void)unsetenv("SALUS_JOB_NAME");
	daemon_expect_sessions(&t->daemon, 1);
}

#define T(test) cmocka_unit_test_setup_teardown(test, bed_setup, bed_teardown)

static int run_suite(void)
{
	const struct CMUnitTest tests[] = {
		T(platform_is_the_vendors),
		T(plugin_attributes_outlive_clients),
		T(stablehlo_version_is_passed_on),
		T(devices_are_one_and_the_same),
		T(unknown_devices_are_refused),
		T(descriptions_are_readable),
		T(memories_are_consistent),
		T(default_assignment_has_edges),
		T(topology_is_the_clients),
		T(memory_stats_are_the_sessions_own),
		T(the_limit_is_what_was_set),
		T(a_refused_upload_is_not_in_use),
		T(a_refused_upload_is_noticed),
		T(refused_outputs_are_not_in_use),
		T(memory_stats_wait_for_nobody),
		T(shorter_structs_are_respected),
		T(longer_structs_are_fine),
		T(extensions_of_arguments_are_ignored),
		T(harmless_calls_do_nothing),
		T(two_clients_are_two_sessions),
		T(jobs_have_names),
	};

	return cmocka_run_group_tests(tests, bed_open, bed_close);
}

int main(int argc, char **argv)
{
	return host_main(argc, argv, run_suite);
}
