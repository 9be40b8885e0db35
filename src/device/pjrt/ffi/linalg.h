/* SPDX-License-Identifier: Apache-2.0 */
/* linalg - makes the custom calls of linear algebra (linalg/targets.h) known to a plugin. */
#ifndef SAL_DEVICE_PJRT_FFI_LINALG_H
#define SAL_DEVICE_PJRT_FFI_LINALG_H

#include "base/err.h"

struct sal_device;

/*
 * Registers the handlers, for this whole process. Plugins of other devices than the host get none.
 * Call this when the device's facts and extensions are known.
 */
int sal_vendor_register(const struct sal_device *d, struct sal_err *err);

#endif
