/* SPDX-License-Identifier: Apache-2.0 */
/* topology - the topology of the devices. It belongs to the client: destroying it does nothing. */
#ifndef SAL_ADAPTOR_CLIENT_TOPOLOGY_H
#define SAL_ADAPTOR_CLIENT_TOPOLOGY_H

#include "adaptor/function.h"

struct PJRT_TopologyDescription {
	PJRT_Client *client; /* borrowed: whose it is */
};

ADP_FUNCTION(TopologyDescription_Destroy);
ADP_FUNCTION(TopologyDescription_PlatformName);
ADP_FUNCTION(TopologyDescription_PlatformVersion);
ADP_FUNCTION(TopologyDescription_GetDeviceDescriptions);
ADP_FUNCTION(TopologyDescription_Serialize);
ADP_FUNCTION(TopologyDescription_Attributes);

#endif
