/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client - the session as PJRT sees it: one client, one device, its memories and topology.
 *
 * All is known when the connection stands, so nothing here can fail but Create.
 */
#include "adaptor/adaptor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "wire/facts.h"

/* --- attributes ------------------------------------------------------------------------------------- */

PJRT_NamedValue *adp_named_values(struct sal_values values)
{
	PJRT_NamedValue *all = calloc(values.count + 1, sizeof(*all));
	size_t i;

	for (i = 0; all && i < values.count; i++) {
		const struct sal_value *v = &values.at[i];
		PJRT_NamedValue *n = &all[i];

		n->struct_size = PJRT_NamedValue_STRUCT_SIZE;
		n->name = v->name.at;
		n->name_size = v->name.size;
		n->type = (PJRT_NamedValue_Type)v->kind;
		n->value_size = 1;
		switch (v->kind) {
		case SAL_VALUE_TEXT:
			n->string_value = v->text.at;
			n->value_size = v->text.size;
			break;
		case SAL_VALUE_INT:
			n->int64_value = v->number;
			break;
		case SAL_VALUE_INTS:
			n->int64_array_value = v->numbers;
			n->value_size = v->number_count;
			break;
		case SAL_VALUE_FLOAT:
			n->float_value = v->real;
			break;
		case SAL_VALUE_BOOL:
			n->bool_value = v->number != 0;
			break;
		}
	}
	return all;
}

/*
 * Attributes of the plugin live as long as the process, and are asked for without a client: they are those
 * of the first daemon, copied.
 */
static struct {
	pthread_mutex_t lock;
	void *bytes;
	struct sal_device_facts *facts;
	PJRT_NamedValue *values;
	size_t count;
} plugin = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void keep_attributes(struct sal_text bytes)
{
	(void)pthread_mutex_lock(&plugin.lock);
	if (!plugin.bytes) {
		plugin.bytes = malloc(bytes.size);
		if (plugin.bytes)
			memcpy(plugin.bytes, bytes.at, bytes.size);
		if (plugin.bytes &&
		    sal_device_facts_unpack(plugin.bytes, bytes.size, &plugin.facts, NULL) >= 0)
			plugin.values = adp_named_values(plugin.facts->plugin_attributes);
		plugin.count = plugin.values ? plugin.facts->plugin_attributes.count : 0;
	}
	(void)pthread_mutex_unlock(&plugin.lock);
}

PJRT_Error *adp_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args)
{
	(void)pthread_mutex_lock(&plugin.lock);
	args->attributes = plugin.values;
	args->num_attributes = plugin.count;
	(void)pthread_mutex_unlock(&plugin.lock);
	return NULL;
}

/* --- create ----------------------------------------------------------------------------------------- */

/* Thousandths of a decimal number, 0 if it is none; not by strtod, whose point may be a comma here. */
static uint32_t read_weight(const char *text)
{
	uint64_t milli = 0;
	int digits = -1; /* behind the point; -1: before it */

	for (; *text && milli < UINT32_MAX; text++) {
		if (*text == '.' && digits < 0) {
			digits = 0;
			continue;
		}
		if (*text < '0' || *text > '9')
			break;
		if (digits < 3)
			milli = milli * 10 + (uint64_t)(*text - '0');
		digits += digits >= 0 && digits < 3;
	}
	for (digits = digits < 0 ? 0 : digits; digits < 3 && milli < UINT32_MAX; digits++)
		milli *= 10;
	return *text == '\0' && milli < UINT32_MAX ? (uint32_t)milli : 0;
}

/* P, or P,E. */
static int read_memory(const char *text, struct sal_hello *hello, struct sal_err *err)
{
	const char *comma = strchr(text, ',');
	char first[64];
	int rc;

	(void)snprintf(first, sizeof(first), "%.*s",
		       comma ? (int)(comma - text) : (int)strlen(text), text);
	rc = sal_bytes_parse(first, &hello->persist_bytes, err);
	if (rc >= 0 && comma)
		rc = sal_bytes_parse(comma + 1, &hello->ephem_bytes, err);
	return rc;
}

static int read_kind(const char *text, struct sal_hello *hello, struct sal_err *err)
{
	hello->kind = strcmp(text, "inference") == 0;
	if (hello->kind || strcmp(text, "training") == 0)
		return SAL_OK;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "SALUS_KIND is \"%s\", expected training or inference", text);
}

/* What the environment says of the job; nonsense is an error, not a guess. */
static int fill_hello(struct sal_hello *hello, struct sal_err *err)
{
	const char *name = getenv("SALUS_JOB_NAME");
	const char *memory = getenv("SALUS_MEMORY");
	const char *weight = getenv("SALUS_WEIGHT");
	const char *priority = getenv("SALUS_PRIORITY");
	const char *total = getenv("SALUS_TIME");
	const char *kind = getenv("SALUS_KIND");
	int rc = SAL_OK;

	*hello = (struct sal_hello){
		.magic = SAL_WIRE_MAGIC,
		.major = SAL_WIRE_MAJOR,
		.minor = SAL_WIRE_MINOR,
		.size = sizeof(*hello),
		.priority = 20,
		.weight_milli = 1000,
	};
	(void)snprintf(hello->name, sizeof(hello->name), "%s",
		       name && *name ? name : program_invocation_short_name);
	if (weight && *weight) {
		hello->weight_milli = read_weight(weight);
		if (hello->weight_milli == 0)
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "SALUS_WEIGHT is \"%s\"",
					   weight);
	}
	if (priority && *priority) {
		char *end;

		hello->priority = (uint32_t)strtoul(priority, &end, 10);
		if (*end || *priority < '0' || *priority > '9')
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "SALUS_PRIORITY is \"%s\"",
					   priority);
	}
	if (total && *total)
		rc = sal_duration_parse(total, &hello->total_ns, err);
	if (rc >= 0 && memory && *memory)
		rc = read_memory(memory, hello, err);
	if (rc >= 0 && kind && *kind)
		rc = read_kind(kind, hello, err);
	return rc;
}

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
	 * JAX names compiled programs in its cache on disk by this, among others. Ours are sealed, so they must not have
	 * the names of those that are compiled in-process.
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
	free(client->device_attributes);
	free(client->topology_attributes);
	free(client);
}

/* What is left of it knows of no daemon any more. */
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
	if (fill_hello(&hello, &err) < 0)
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
	if (!client->version || !client->device_attributes || !client->topology_attributes) {
		leave(client);
		return adp_out_of_memory();
	}
	keep_attributes(facts);
	args->client = client;
	return NULL;
}

PJRT_Error *adp_Client_Destroy(PJRT_Client_Destroy_Args *args)
{
	if (args->client)
		leave(args->client);
	return NULL;
}

/* --- facts ------------------------------------------------------------------------------------------ */

PJRT_Memory *adp_memory_of_kind(PJRT_Client *client, struct sal_text kind)
{
	size_t i;

	for (i = 0; i < client->memory_count; i++) {
		struct sal_text k = client->memories[i].facts->kind;

		if (k.size == kind.size && memcmp(k.at, kind.at, k.size) == 0)
			return &client->memories[i];
	}
	return &client->memories[client->facts->default_memory];
}

#define GIVE_TEXT(args, field, text)                \
	do {                                        \
		(args)->field = (text).at;          \
		(args)->field##_size = (text).size; \
		return NULL;                        \
	} while (0)

static struct sal_text version_of(const PJRT_Client *client)
{
	return (struct sal_text){ client->version, strlen(client->version) };
}

PJRT_Error *adp_Client_PlatformName(PJRT_Client_PlatformName_Args *args)
{
	GIVE_TEXT(args, platform_name, args->client->facts->platform_name);
}

PJRT_Error *adp_Client_PlatformVersion(PJRT_Client_PlatformVersion_Args *args)
{
	GIVE_TEXT(args, platform_version, version_of(args->client));
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

PJRT_Error *adp_DeviceDescription_Id(PJRT_DeviceDescription_Id_Args *args)
{
	args->id = args->device_description->client->facts->device_id;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_ProcessIndex(PJRT_DeviceDescription_ProcessIndex_Args *args)
{
	args->process_index = args->device_description->client->facts->process_index;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_Attributes(PJRT_DeviceDescription_Attributes_Args *args)
{
	args->attributes = args->device_description->client->device_attributes;
	args->num_attributes = args->device_description->client->facts->device_attributes.count;
	return NULL;
}

PJRT_Error *adp_DeviceDescription_Kind(PJRT_DeviceDescription_Kind_Args *args)
{
	GIVE_TEXT(args, device_kind, args->device_description->client->facts->kind);
}

PJRT_Error *adp_DeviceDescription_DebugString(PJRT_DeviceDescription_DebugString_Args *args)
{
	GIVE_TEXT(args, debug_string, args->device_description->client->facts->debug_string);
}

PJRT_Error *adp_DeviceDescription_ToString(PJRT_DeviceDescription_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, args->device_description->client->facts->to_string);
}

PJRT_Error *adp_Device_GetDescription(PJRT_Device_GetDescription_Args *args)
{
	args->device_description = &args->device->client->description;
	return NULL;
}

PJRT_Error *adp_Device_IsAddressable(PJRT_Device_IsAddressable_Args *args)
{
	args->is_addressable = true;
	return NULL;
}

PJRT_Error *adp_Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args *args)
{
	args->local_hardware_id = args->device->client->facts->local_hardware_id;
	return NULL;
}

PJRT_Error *adp_Device_AddressableMemories(PJRT_Device_AddressableMemories_Args *args)
{
	args->memories = args->device->client->memory_list;
	args->num_memories = args->device->client->memory_count;
	return NULL;
}

PJRT_Error *adp_Device_DefaultMemory(PJRT_Device_DefaultMemory_Args *args)
{
	PJRT_Client *client = args->device->client;

	args->memory = &client->memories[client->facts->default_memory];
	return NULL;
}

struct memory_now {
	int64_t live_bytes, peak_bytes, limit_bytes;
};

/*
 * Nobody is asked, so that it can be had while the daemon is busy, holds us up or is dead. What is on its way
 * counts as in use; the peak is what the daemon has accounted for, or what is in use if that is more.
 */
static struct memory_now look_at_memory(PJRT_Client *client)
{
	const struct sal_holding *told = adp_conn_holding(client->conn);
	struct memory_now now = { .live_bytes = atomic_load(&client->live_bytes) };

	if (!told) {
		now.peak_bytes = atomic_load(&client->peak_bytes);
		now.limit_bytes = (int64_t)adp_conn_memory(client->conn);
		return now;
	}
	now.peak_bytes = (int64_t)atomic_load_explicit(&told->peak_bytes, memory_order_relaxed);
	if (now.peak_bytes < now.live_bytes)
		now.peak_bytes = now.live_bytes;
	now.limit_bytes = (int64_t)atomic_load_explicit(&told->limit_bytes, memory_order_relaxed);
	return now;
}

PJRT_Error *adp_Device_MemoryStats(PJRT_Device_MemoryStats_Args *args)
{
	struct memory_now now = look_at_memory(args->device->client);
	size_t size = args->struct_size;

	if (size < offsetof(PJRT_Device_MemoryStats_Args, num_allocs))
		return adp_error(SAL_INVALID_ARGUMENT,
				 "salus: PJRT_Device_MemoryStats_Args is too short");
	memset((char *)args + offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use), 0,
	       (size < sizeof(*args) ? size : sizeof(*args)) -
		       offsetof(PJRT_Device_MemoryStats_Args, bytes_in_use));
	args->bytes_in_use = now.live_bytes;
	args->peak_bytes_in_use = now.peak_bytes;
	args->peak_bytes_in_use_is_set = true;
	if (size >= PJRT_STRUCT_SIZE(PJRT_Device_MemoryStats_Args, bytes_limit_is_set)) {
		args->bytes_limit = now.limit_bytes;
		args->bytes_limit_is_set = true;
	}
	return NULL;
}

PJRT_Error *adp_Memory_Id(PJRT_Memory_Id_Args *args)
{
	args->id = args->memory->facts->id;
	return NULL;
}

PJRT_Error *adp_Memory_Kind(PJRT_Memory_Kind_Args *args)
{
	GIVE_TEXT(args, kind, args->memory->facts->kind);
}

PJRT_Error *adp_Memory_Kind_Id(PJRT_Memory_Kind_Id_Args *args)
{
	args->kind_id = args->memory->facts->kind_id;
	return NULL;
}

PJRT_Error *adp_Memory_DebugString(PJRT_Memory_DebugString_Args *args)
{
	GIVE_TEXT(args, debug_string, args->memory->facts->debug_string);
}

PJRT_Error *adp_Memory_ToString(PJRT_Memory_ToString_Args *args)
{
	GIVE_TEXT(args, to_string, args->memory->facts->to_string);
}

PJRT_Error *adp_Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args *args)
{
	args->devices = args->memory->client->devices;
	args->num_devices = 1;
	return NULL;
}

/* --- topology: the client's own, never to be freed --------------------------------------------------- */

PJRT_Error *adp_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args *args)
{
	GIVE_TEXT(args, platform_name, args->topology->client->facts->platform_name);
}

PJRT_Error *
adp_TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args *args)
{
	GIVE_TEXT(args, platform_version, version_of(args->topology->client));
}

PJRT_Error *adp_TopologyDescription_GetDeviceDescriptions(
	PJRT_TopologyDescription_GetDeviceDescriptions_Args *args)
{
	args->descriptions = args->topology->client->descriptions;
	args->num_descriptions = 1;
	return NULL;
}

static void keep_topology(PJRT_SerializedTopology *serialized)
{
	(void)serialized; /* the bytes are the connection's */
}

PJRT_Error *adp_TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args *args)
{
	struct sal_text bytes = args->topology->client->facts->topology;

	if (bytes.size == 0)
		return adp_error(SAL_UNIMPLEMENTED,
				 "salus: the vendor's plugin cannot serialise its topology");
	args->serialized_bytes = bytes.at;
	args->serialized_bytes_size = bytes.size;
	args->serialized_topology = NULL;
	args->serialized_topology_deleter = keep_topology;
	return NULL;
}

PJRT_Error *adp_TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args *args)
{
	args->attributes = args->topology->client->topology_attributes;
	args->num_attributes = args->topology->client->facts->topology_attributes.count;
	return NULL;
}
