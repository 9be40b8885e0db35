/* SPDX-License-Identifier: Apache-2.0 */
/* Clients, their one device and its two memories. */
#include "discrete/discrete.h"

#include <string.h>

#define TEXT(text, at, size) ((at) = (text), (size) = sizeof(text) - 1)

static PJRT_Error *create_inner(PJRT_Client *c)
{
	static const char name[] = "cpu_device_count";
	const PJRT_NamedValue option = {
		.struct_size = PJRT_NamedValue_STRUCT_SIZE,
		.name = name,
		.name_size = sizeof(name) - 1,
		.type = PJRT_NamedValue_kInt64,
		.int64_value = 1,
		.value_size = 1,
	};
	PJRT_Client_Create_Args create = { .struct_size = PJRT_Client_Create_Args_STRUCT_SIZE,
					   .create_options = &option,
					   .num_options = 1 };
	PJRT_Client_AddressableDevices_Args list = {
		.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE,
	};
	PJRT_Device_DefaultMemory_Args memory = {
		.struct_size = PJRT_Device_DefaultMemory_Args_STRUCT_SIZE,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Client_Create(&create));

	if (error)
		return error;
	c->inner = list.client = create.client;
	error = disc_wrap(disc_inner->PJRT_Client_AddressableDevices(&list));
	if (error)
		return error;
	c->inner_device = memory.device = list.addressable_devices[0];
	error = disc_wrap(disc_inner->PJRT_Device_DefaultMemory(&memory));
	c->inner_memory = memory.memory;
	return error;
}

static void fill(PJRT_Client *c)
{
	c->device = (PJRT_Device){ .client = c, .about = { .client = c } };
	c->devices[0] = &c->device;
	c->memories[0] = (PJRT_Memory){ .client = c, .id = 0, .kind = "device" };
	c->memories[1] = (PJRT_Memory){ .client = c, .id = 1, .kind = "pinned_host" };
	for (size_t i = 0; i < 2; i++)
		c->memory_list[i] = &c->memories[i];
	disc_queue_start(&c->compute);
	disc_queue_start(&c->h2d);
	disc_queue_start(&c->d2h);
}

static PJRT_Error *client_create(PJRT_Client_Create_Args *args)
{
	PJRT_Error *error;
	PJRT_Client *c;

	DISC_ENTER(PJRT_Client_Create_Args, args);
	c = disc_new(1, sizeof(*c));
	error = disc_options_read(args->create_options, args->num_options, &c->options);
	if (!error)
		error = disc_memory_join(c);
	if (!error) {
		error = create_inner(c);
		if (error)
			disc_memory_leave();
	}
	if (error) {
		free(c);
		return error;
	}
	fill(c);
	args->client = c;
	return NULL;
}

static PJRT_Error *client_destroy(PJRT_Client_Destroy_Args *args)
{
	PJRT_Client_Destroy_Args destroy = { .struct_size = PJRT_Client_Destroy_Args_STRUCT_SIZE,
					     .client = args->client->inner };
	PJRT_Client *c = args->client;

	DISC_ENTER(PJRT_Client_Destroy_Args, args);
	disc_queue_stop(&c->h2d);
	disc_queue_stop(&c->compute);
	disc_queue_stop(&c->d2h);
	if (c->stores > 0 || c->used_bytes != 0)
		disc_die("a client with %u buffers and %lld bytes was destroyed", c->stores,
			 (long long)c->used_bytes);
	disc_memory_leave();
	free(c);
	return disc_wrap(disc_inner->PJRT_Client_Destroy(&destroy));
}

static PJRT_Error *client_platform_name(PJRT_Client_PlatformName_Args *args)
{
	DISC_ENTER(PJRT_Client_PlatformName_Args, args);
	args->platform_name = args->client->options.platform;
	args->platform_name_size = strlen(args->platform_name);
	return NULL;
}

static PJRT_Error *client_platform_version(PJRT_Client_PlatformVersion_Args *args)
{
	DISC_ENTER(PJRT_Client_PlatformVersion_Args, args);
	TEXT("discrete 1", args->platform_version, args->platform_version_size);
	return NULL;
}

static PJRT_Error *client_devices(PJRT_Client_Devices_Args *args)
{
	DISC_ENTER(PJRT_Client_Devices_Args, args);
	args->devices = args->client->devices;
	args->num_devices = 1;
	return NULL;
}

static PJRT_Error *client_addressable_devices(PJRT_Client_AddressableDevices_Args *args)
{
	DISC_ENTER(PJRT_Client_AddressableDevices_Args, args);
	args->addressable_devices = args->client->devices;
	args->num_addressable_devices = 1;
	return NULL;
}

static PJRT_Error *client_topology(PJRT_Client_TopologyDescription_Args *args)
{
	DISC_ENTER(PJRT_Client_TopologyDescription_Args, args);
	return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "there is no topology");
}

/* The device */

static PJRT_Error *device_description(PJRT_Device_GetDescription_Args *args)
{
	DISC_ENTER(PJRT_Device_GetDescription_Args, args);
	args->device_description = &args->device->about;
	return NULL;
}

static PJRT_Error *device_hardware_id(PJRT_Device_LocalHardwareId_Args *args)
{
	DISC_ENTER(PJRT_Device_LocalHardwareId_Args, args);
	args->local_hardware_id = 0;
	return NULL;
}

static PJRT_Error *device_memories(PJRT_Device_AddressableMemories_Args *args)
{
	DISC_ENTER(PJRT_Device_AddressableMemories_Args, args);
	args->memories = args->device->client->memory_list;
	args->num_memories = 2;
	return NULL;
}

static PJRT_Error *device_default_memory(PJRT_Device_DefaultMemory_Args *args)
{
	DISC_ENTER(PJRT_Device_DefaultMemory_Args, args);
	args->memory = &args->device->client->memories[0];
	return NULL;
}

/* Like XLA's GPU client, each client has an allocator of its own, with its own numbers. */
static PJRT_Error *device_stats(PJRT_Device_MemoryStats_Args *args)
{
	const PJRT_Client *c = args->device->client;

	DISC_ENTER(PJRT_Device_MemoryStats_Args, args);
	pthread_mutex_lock(&disc_lock);
	args->bytes_in_use = c->used_bytes;
	args->peak_bytes_in_use = c->peak_bytes;
	args->largest_alloc_size = c->largest_bytes;
	args->num_allocs = c->allocations;
	pthread_mutex_unlock(&disc_lock);
	args->bytes_limit = c->options.memory_limit;
	args->peak_bytes_in_use_is_set = args->largest_alloc_size_is_set = true;
	args->num_allocs_is_set = args->bytes_limit_is_set = true;
	return NULL;
}

/* Its description */

static PJRT_Error *about_id(PJRT_DeviceDescription_Id_Args *args)
{
	DISC_ENTER(PJRT_DeviceDescription_Id_Args, args);
	args->id = 0;
	return NULL;
}

static PJRT_Error *about_process(PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	DISC_ENTER(PJRT_DeviceDescription_ProcessIndex_Args, args);
	args->process_index = 0;
	return NULL;
}

static PJRT_Error *about_kind(PJRT_DeviceDescription_Kind_Args *args)
{
	DISC_ENTER(PJRT_DeviceDescription_Kind_Args, args);
	TEXT("Discrete Test Device", args->device_kind, args->device_kind_size);
	return NULL;
}

static PJRT_Error *about_debug(PJRT_DeviceDescription_DebugString_Args *args)
{
	DISC_ENTER(PJRT_DeviceDescription_DebugString_Args, args);
	TEXT("discrete:0", args->debug_string, args->debug_string_size);
	return NULL;
}

static PJRT_Error *about_text(PJRT_DeviceDescription_ToString_Args *args)
{
	DISC_ENTER(PJRT_DeviceDescription_ToString_Args, args);
	TEXT("DiscreteDevice(id=0)", args->to_string, args->to_string_size);
	return NULL;
}

/* Memories */

static PJRT_Error *memory_id(PJRT_Memory_Id_Args *args)
{
	DISC_ENTER(PJRT_Memory_Id_Args, args);
	args->id = args->memory->id;
	return NULL;
}

static PJRT_Error *memory_kind(PJRT_Memory_Kind_Args *args)
{
	DISC_ENTER(PJRT_Memory_Kind_Args, args);
	args->kind = args->memory->kind;
	args->kind_size = strlen(args->kind);
	return NULL;
}

static PJRT_Error *memory_kind_id(PJRT_Memory_Kind_Id_Args *args)
{
	DISC_ENTER(PJRT_Memory_Kind_Id_Args, args);
	args->kind_id = 100 + args->memory->id;
	return NULL;
}

static PJRT_Error *memory_debug(PJRT_Memory_DebugString_Args *args)
{
	DISC_ENTER(PJRT_Memory_DebugString_Args, args);
	args->debug_string = args->memory->kind;
	args->debug_string_size = strlen(args->debug_string);
	return NULL;
}

static PJRT_Error *memory_text(PJRT_Memory_ToString_Args *args)
{
	DISC_ENTER(PJRT_Memory_ToString_Args, args);
	args->to_string = args->memory->kind;
	args->to_string_size = strlen(args->to_string);
	return NULL;
}

void disc_client_entries(PJRT_Api *api)
{
	api->PJRT_Client_Create = client_create;
	api->PJRT_Client_Destroy = client_destroy;
	api->PJRT_Client_PlatformName = client_platform_name;
	api->PJRT_Client_PlatformVersion = client_platform_version;
	api->PJRT_Client_Devices = client_devices;
	api->PJRT_Client_AddressableDevices = client_addressable_devices;
	api->PJRT_Client_TopologyDescription = client_topology;
	api->PJRT_Device_GetDescription = device_description;
	api->PJRT_Device_LocalHardwareId = device_hardware_id;
	api->PJRT_Device_AddressableMemories = device_memories;
	api->PJRT_Device_DefaultMemory = device_default_memory;
	api->PJRT_Device_MemoryStats = device_stats;
	api->PJRT_DeviceDescription_Id = about_id;
	api->PJRT_DeviceDescription_ProcessIndex = about_process;
	api->PJRT_DeviceDescription_Kind = about_kind;
	api->PJRT_DeviceDescription_DebugString = about_debug;
	api->PJRT_DeviceDescription_ToString = about_text;
	api->PJRT_Memory_Id = memory_id;
	api->PJRT_Memory_Kind = memory_kind;
	api->PJRT_Memory_Kind_Id = memory_kind_id;
	api->PJRT_Memory_DebugString = memory_debug;
	api->PJRT_Memory_ToString = memory_text;
}
