/* SPDX-License-Identifier: Apache-2.0 */
/* attributes - named values as PJRT gives them out, and those of the plugin itself. */
#ifndef SAL_ADAPTOR_CLIENT_ATTRIBUTES_H
#define SAL_ADAPTOR_CLIENT_ATTRIBUTES_H

#include "adaptor/function.h"
#include "base/facts.h"

/* A list to be freed; its texts stay those of values. NULL for lack of memory. */
PJRT_NamedValue *adp_named_values(struct sal_values values);
/* Copies the plugin's attributes out of packed device facts; only the first call does. */
void adp_attributes_remember(struct sal_text facts);

ADP_FUNCTION(Plugin_Initialize);
ADP_FUNCTION(Plugin_Attributes);

#endif
