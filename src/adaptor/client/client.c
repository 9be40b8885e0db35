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

static void fill_client(PJRT_Client *client)
{
	size_t i;

	client->device.client = client;
	client->devices[0] = &client->device;
	client->description.client = client;
	client->descriptions[0] = &client->description;
	client->topology.client = client;
	client->memory_count = client->facts->memory_count < ADP_MEMORIES_MAX
				       ? client->facts->memory_count
				       : ADP_MEMORIES_MAX;
	for (i = 0; i < client->memory_count; i++) {
		client->memories[i] = (PJRT_Memory){ client, &client->facts->memories[i] };
		client->memory_list[i] = &client->memories[i];
	}
	/*
	 * JAX uses the version in the names of its cache of compiled programs on disk. Our programs
	 * are sealed, so they must not have the names of programs that are compiled in-process.
	 */
	if (asprintf(&client->version, "%.*s; salus", (int)client->facts->platform_version.size,
		     client->facts->platform_version.at) < 0)
		client->version = NULL;
	client->device_attributes = adp_named_values(client->facts->device_attributes);
	client->topology_attributes = adp_named_values(client->facts->topology_attributes);
}

PJRT_Client *adp_client_ref(PJRT_Client *client)
{
	(void)atomic_fetch_add_explicit(&client->refs, 1, memory_order_relaxed);
	return client;
}

void adp_client_unref(PJRT_Client *client)
{
	if (atomic_fetch_sub_explicit(&client->refs, 1, memory_order_acq_rel) > 1)
		return;
	adp_conn_unref(client->conn);
	free(client->facts);
	free(client->version);
	adp_flags_fini(&client->flags);
	free(client->device_attributes);
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
	if (adp_hello_fill(&hello, &err) < 0)
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
	if (client->facts->memory_count == 0 || client->facts->default_memory >= ADP_MEMORIES_MAX) {
		leave(client);
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: a device without memory, or with too many kinds of it");
	}
	fill_client(client);
	if (!client->version || !client->device_attributes || !client->topology_attributes ||
	    !adp_flags_init(&client->flags, getenv("XLA_FLAGS"))) {
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
	args->num_devices = 1;
	return NULL;
}

PJRT_Error *adp_Client_AddressableDevices(PJRT_Client_AddressableDevices_Args *args)
{
	args->addressable_devices = args->client->devices;
	args->num_addressable_devices = 1;
	return NULL;
}

PJRT_Error *adp_Client_LookupDevice(PJRT_Client_LookupDevice_Args *args)
{
	if (args->id != args->client->facts->device_id)
		return adp_error(SAL_INVALID_ARGUMENT, "No matching device found for device_id %d",
				 args->id);
	args->device = &args->client->device;
	return NULL;
}

PJRT_Error *adp_Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args *args)
{
	if (args->local_hardware_id != args->client->facts->local_hardware_id)
		return adp_error(SAL_INVALID_ARGUMENT,
				 "No matching device found for local_hardware_id %d",
				 args->local_hardware_id);
	args->addressable_device = &args->client->device;
	return NULL;
}

PJRT_Error *adp_Client_AddressableMemories(PJRT_Client_AddressableMemories_Args *args)
{
	args->addressable_memories = args->client->memory_list;
	args->num_addressable_memories = args->client->memory_count;
	return NULL;
}

PJRT_Error *adp_Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args *args)
{
	if (args->num_replicas != 1 || args->num_partitions != 1)
		return adp_error(
			SAL_INVALID_ARGUMENT,
			"salus: %d replicas of %d partitions asked for, there is one device",
			args->num_replicas, args->num_partitions);
	if (args->default_assignment_size < 1)
		return adp_error(SAL_FAILED_PRECONDITION,
				 "salus: no room for the device assignment");
	args->default_assignment[0] = args->client->facts->device_id;
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
