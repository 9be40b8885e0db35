/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adaptor/client/attributes.h"
#include "adaptor/client/hello.h"
#include "adaptor/daemon/conn.h"
#include "adaptor/error.h"
#include "wire/facts.h"

/* The facts of a device: those of the first lie in the facts themselves. */
static struct sal_chip_facts chip_facts(const struct sal_device_facts *f, size_t number)
{
	if (number > 0)
		return f->others[number - 1];
	return (struct sal_chip_facts){
		.device_id = f->device_id,
		.local_hardware_id = f->local_hardware_id,
		.kind = f->kind,
		.debug_string = f->debug_string,
		.to_string = f->to_string,
		.attributes = f->device_attributes,
		.memories = f->memories,
		.memory_count = f->memory_count,
		.default_memory = f->default_memory,
	};
}

static void fill_device(PJRT_Client *client, uint32_t number)
{
	PJRT_Device *d = &client->all[number];
	size_t i;

	d->client = client;
	d->number = number;
	d->facts = chip_facts(client->facts, number);
	d->description.device = d;
	d->attributes = adp_named_values(d->facts.attributes);
	d->memory_count = d->facts.memory_count < ADP_MEMORIES_MAX ? d->facts.memory_count
								   : ADP_MEMORIES_MAX;
	client->devices[number] = d;
	client->descriptions[number] = &d->description;
	for (i = 0; i < d->memory_count; i++) {
		d->memories[i] = (PJRT_Memory){ d, &d->facts.memories[i] };
		d->memory_list[i] = &d->memories[i];
		client->memory_list[client->memory_count++] = &d->memories[i];
	}
}

/* False for lack of memory. */
static bool fill_client(PJRT_Client *client)
{
	size_t count = client->facts->other_count + 1;
	bool ok = true;
	uint32_t i;

	client->topology.client = client;
	client->all = calloc(count, sizeof(*client->all));
	client->devices = calloc(count, sizeof(PJRT_Device *));
	client->descriptions = calloc(count, sizeof(PJRT_DeviceDescription *));
	client->memory_list = calloc(count * ADP_MEMORIES_MAX, sizeof(PJRT_Memory *));
	if (!client->all || !client->devices || !client->descriptions || !client->memory_list)
		return false;
	client->device_count = count;
	for (i = 0; i < count; i++) {
		fill_device(client, i);
		ok &= client->all[i].attributes != NULL;
	}
	/*
	 * JAX uses the version in the names of its cache of compiled programs on disk. Our programs
	 * are sealed, so they must not have the names of programs that are compiled in-process.
	 */
	if (asprintf(&client->version, "%.*s; salus", (int)client->facts->platform_version.size,
		     client->facts->platform_version.at) < 0)
		client->version = NULL;
	client->topology_attributes = adp_named_values(client->facts->topology_attributes);
	return ok && client->version && client->topology_attributes;
}

PJRT_Client *adp_client_ref(PJRT_Client *client)
{
	(void)atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
	return client;
}

void adp_client_unref(PJRT_Client *client)
{
	size_t i;

	if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) > 1)
		return;
	adp_conn_unref(client->conn);
	free(client->facts);
	free(client->version);
	adp_flags_fini(&client->flags);
	for (i = 0; i < client->device_count; i++)
		free(client->all[i].attributes);
	free(client->all);
	free(client->devices);
	free(client->descriptions);
	free(client->memory_list);
	free(client->topology_attributes);
	free(client);
}

/* Closes the connection; buffers and programs may still refer to the client. */
static void leave(PJRT_Client *client)
{
	adp_conn_close(client->conn);
	adp_client_unref(client);
}

static PJRT_Error *explain(const struct sal_err *err, const char *path)
{
	if (err->code != SAL_UNAVAILABLE)
		return adp_error(err->code, "salus: %s", err->text);
	return adp_error(
		SAL_UNAVAILABLE,
		"salus: no salusd answers at %s (%s). Start the job with `salus run -- ...`, "
		"which starts one if need be, or set SALUS_SOCKET to the socket of one that runs",
		path, err->text);
}

static bool has_usual_memories(const struct sal_device_facts *f)
{
	size_t i;

	for (i = 0; i <= f->other_count; i++) {
		struct sal_chip_facts c = chip_facts(f, i);

		if (c.memory_count == 0 || c.default_memory >= ADP_MEMORIES_MAX)
			return false;
	}
	return true;
}

PJRT_Error *adp_Client_Create(PJRT_Client_Create_Args *args)
{
	const char *path = getenv("SALUS_SOCKET");
	struct sal_err err = { 0 };
	struct sal_hello hello;
	struct sal_text facts;
	PJRT_Client *client;

	if (!path || !*path)
		return adp_error(SAL_FAILED_PRECONDITION,
				 "salus: SALUS_SOCKET is not set. Start the job with "
				 "`salus run -- ...`, or set it to the socket of a running salusd");
	if (adp_hello_fill(&hello, args->create_options, args->num_options, &err) < 0)
		return adp_error(err.code, "salus: what the environment says of the job: %s",
				 err.text);
	client = calloc(1, sizeof(*client));
	if (!client)
		return adp_out_of_memory();
	atomic_init(&client->refs, 1);
	if (adp_conn_open(path, &hello, &client->conn, &err) < 0) {
		free(client);
		return explain(&err, path);
	}
	facts = adp_conn_facts(client->conn);
	if (sal_device_facts_unpack(facts.at, facts.size, &client->facts, &err) < 0) {
		leave(client);
		return explain(&err, path);
	}
	if (!has_usual_memories(client->facts)) {
		leave(client);
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: a device without memory, or with too many kinds of it");
	}
	if (!fill_client(client) || !adp_flags_init(&client->flags, getenv("XLA_FLAGS"))) {
		leave(client);
		return adp_out_of_memory();
	}
	adp_attributes_remember(facts);
	adp_hello_note();
	args->client = client;
	return NULL;
}

PJRT_Error *adp_Client_Destroy(PJRT_Client_Destroy_Args *args)
{
	if (args->client)
		leave(args->client);
	return NULL;
}

struct sal_text adp_client_version(const PJRT_Client *client)
{
	return (struct sal_text){ client->version, strlen(client->version) };
}

bool adp_is_host_platform(const PJRT_Client *client)
{
	struct sal_text name = client->facts->platform_name;

	return name.size == 3 && memcmp(name.at, "cpu", 3) == 0;
}

PJRT_Error *adp_Client_PlatformName(PJRT_Client_PlatformName_Args *args)
{
	ADP_GIVE_TEXT(args, platform_name, args->client->facts->platform_name);
}

PJRT_Error *adp_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args)
{
	ADP_GIVE_TEXT(args, platform_version, adp_client_version(args->client));
}

PJRT_Error *adp_Client_ProcessIndex(PJRT_Client_ProcessIndex_Args *args)
{
	args->process_index = args->client->facts->process_index;
	return NULL;
}

PJRT_Error *adp_Client_Devices(PJRT_Client_Devices_Args *args)
{
	args->devices = args->client->devices;
	args->num_devices = args->client->device_count;
	return NULL;
}

PJRT_Error *adp_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args)
{
	args->addressable_devices = args->client->devices;
	args->num_addressable_devices = args->client->device_count;
	return NULL;
}

PJRT_Error *adp_Client_LookupDevice(PJRT_Client_LookupDevice_Args *args)
{
	size_t i;

	for (i = 0; i < args->client->device_count; i++) {
		args->device = args->client->devices[i];
		if (args->device->facts.device_id == args->id)
			return NULL;
	}
	args->device = NULL;
	return adp_error(SAL_INVALID_ARGUMENT, "No matching device found for device_id %d",
			 args->id);
}

PJRT_Error *adp_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args *args)
{
	size_t i;

	for (i = 0; i < args->client->device_count; i++) {
		args->addressable_device = args->client->devices[i];
		if (args->addressable_device->facts.local_hardware_id == args->local_hardware_id)
			return NULL;
	}
	args->addressable_device = NULL;
	return adp_error(SAL_INVALID_ARGUMENT, "No matching device found for local_hardware_id %d",
			 args->local_hardware_id);
}

PJRT_Error *adp_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args *args)
{
	args->addressable_memories = args->client->memory_list;
	args->num_addressable_memories = args->client->memory_count;
	return NULL;
}

static PJRT_Error *no_such_devices(const PJRT_Client_DefaultDeviceAssignment_Args *args)
{
	size_t devices = args->client->device_count;

	if (devices == 1)
		return adp_error(
			SAL_INVALID_ARGUMENT,
			"salus: %d replicas of %d partitions asked for, there is one device; "
			"`salus run --devices` gives the job more",
			args->num_replicas, args->num_partitions);
	return adp_error(SAL_INVALID_ARGUMENT,
			 "salus: %d replicas of %d partitions asked for, there are %zu devices",
			 args->num_replicas, args->num_partitions, devices);
}

PJRT_Error *adp_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args)
{
	size_t devices = args->client->device_count, i;
	int64_t wanted = (int64_t)args->num_replicas * args->num_partitions;

	if (args->num_replicas < 1 || args->num_partitions < 1 || wanted > (int64_t)devices)
		return no_such_devices(args);
	if (args->default_assignment_size < (size_t)wanted)
		return adp_error(SAL_FAILED_PRECONDITION,
				 "salus: no room for the device assignment");
	for (i = 0; i < (size_t)wanted; i++)
		args->default_assignment[i] = args->client->devices[i]->facts.device_id;
	return NULL;
}

PJRT_Error *adp_Client_TopologyDescription(PJRT_Client_TopologyDescription_Args *args)
{
	args->topology = &args->client->topology;
	return NULL;
}

PJRT_Error *adp_Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_Client_DmaMap(PJRT_Client_DmaMap_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_Client_DmaUnmap(PJRT_Client_DmaUnmap_Args *args)
{
	(void)args;
	return NULL;
}
