/* SPDX-License-Identifier: Apache-2.0 */
/* wait - a download that is complete when the call returns, for both devices. */
#ifndef SAL_DEVICE_WAIT_H
#define SAL_DEVICE_WAIT_H

#include "device/device.h"

int sal_download_and_wait(const struct sal_device_ops *ops, struct sal_buffer *b, void *dst,
			  size_t size, struct sal_err *err);

#endif
