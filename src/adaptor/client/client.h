/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client - PJRT_Client: the session as PJRT sees it. It has one device, or as many as the job wants.
 *
 * All facts arrive with the greeting. So nothing here can fail except Create.
 *
 * Owns: the connection, the facts, the devices. Threads: any.
 */
#ifndef SAL_ADAPTOR_CLIENT_CLIENT_H
#define SAL_ADAPTOR_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adaptor/client/device.h"
#include "adaptor/client/flags.h"
#include "adaptor/client/memory.h"
#include "adaptor/client/topology.h"
#include "adaptor/function.h"
#include "base/facts.h"

struct adp_conn;

struct PJRT_Client {
	/*
	 * The host's, and those of buffers and programs: at exit the host may destroy these later.
	 */
	_Atomic int refs;
	struct adp_conn *conn; /* owned */
	struct sal_device_facts *facts; /* owned; points into the connection's bytes */
	char *version; /* owned; the vendor's, marked as ours: see client.c */
	struct adp_flags flags; /* of the job when the client was created, as in XLA */
	size_t device_count;
	PJRT_Device *all; /* owned; the devices */
	/* Lists that PJRT gives out, owned. */
	PJRT_Device **devices;
	PJRT_DeviceDescription **descriptions;
	PJRT_Memory **memory_list;
	size_t memory_count; /* of all devices */
	PJRT_TopologyDescription topology;
	PJRT_NamedValue *topology_attributes; /* owned */
	_Atomic int64_t live_bytes; /* of buffers that exist or are being made */
	_Atomic int64_t
		peak_bytes; /* the most live_bytes was; for daemons that do not report a peak */
	_Atomic int64_t staying_bytes; /* of the arena, for copies of buffers; see host.c */
	_Atomic unsigned int dumped; /* programs, see program/dump.h */
	_Atomic uint64_t deleted_bytes; /* of buffers, since a deletion last woke the daemon */
};

PJRT_Client *adp_client_ref(PJRT_Client *client);
void adp_client_unref(PJRT_Client *client);
struct sal_text adp_client_version(const PJRT_Client *client);
/* The device is a CPU: JAX may use a buffer's bytes in place. */
bool adp_is_host_platform(const PJRT_Client *client);

ADP_FUNCTION(Client_Create);
ADP_FUNCTION(Client_Destroy);
ADP_FUNCTION(Client_PlatformName);
ADP_FUNCTION(Client_ProcessIndex);
ADP_FUNCTION(Client_PlatformVersion);
ADP_FUNCTION(Client_Devices);
ADP_FUNCTION(Client_AddressableDevices);
ADP_FUNCTION(Client_LookupDevice);
ADP_FUNCTION(Client_LookupAddressableDevice);
ADP_FUNCTION(Client_AddressableMemories);
ADP_FUNCTION(Client_DefaultDeviceAssignment);
ADP_FUNCTION(Client_TopologyDescription);
ADP_FUNCTION(Client_UpdateGlobalProcessInfo);
ADP_FUNCTION(Client_DmaMap);
ADP_FUNCTION(Client_DmaUnmap);

#endif
