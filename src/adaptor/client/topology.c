/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/topology.h"

#include "adaptor/client/client.h"
#include "adaptor/error.h"

PJRT_Error *adp_TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_TopologyDescription_PlatformName(PJRT_TopologyDescription_PlatformName_Args *args)
{
	ADP_GIVE_TEXT(args, platform_name, args->topology->client->facts->platform_name);
}

PJRT_Error *
adp_TopologyDescription_PlatformVersion(PJRT_TopologyDescription_PlatformVersion_Args *args)
{
	ADP_GIVE_TEXT(args, platform_version, adp_client_version(args->topology->client));
}

PJRT_Error *adp_TopologyDescription_GetDeviceDescriptions(
	PJRT_TopologyDescription_GetDeviceDescriptions_Args *args)
{
	args->descriptions = args->topology->client->descriptions;
	args->num_descriptions = args->topology->client->device_count;
	return NULL;
}

static void free_nothing(PJRT_SerializedTopology *serialized)
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
	args->serialized_topology_deleter = free_nothing;
	return NULL;
}

PJRT_Error *adp_TopologyDescription_Attributes(PJRT_TopologyDescription_Attributes_Args *args)
{
	args->attributes = args->topology->client->topology_attributes;
	args->num_attributes = args->topology->client->facts->topology_attributes.count;
	return NULL;
}
