/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late - arrays that the daemon learns about only if it needs them.
 *
 * JAX puts every operand of a Python callback onto the device, and most callbacks only read it: with
 * numpy, or to print it. An upload and a download would take longer than the callback. So a small
 * array that a callback uploads stays in this process. It is *late*: reading it asks nobody, and
 * its upload is sent when a program or a copy first uses it.
 *
 * A *view* is an array in the caller's own memory, of any size. The caller may write to the memory
 * between two uses. So the daemon never knows the view itself: each use uploads a copy of what the
 * memory holds at that moment (adp_view_copy in upload.h), and reading the view asks nobody.
 *
 * Threads: any.
 */
#ifndef SAL_ADAPTOR_BUFFER_LATE_H
#define SAL_ADAPTOR_BUFFER_LATE_H

#include <stdbool.h>

#include "adaptor/buffer/buffer.h"

/* May the calling thread keep its upload of such an array back? */
bool adp_late_is_possible(PJRT_Client *client, const struct adp_shape *shape);
/*
 * Keep the upload back. Returns where to copy the array to, or NULL for lack of memory. Call this
 * before other threads know the buffer.
 */
void *adp_late_keep(PJRT_Buffer *buffer);
/* An array in the caller's memory, which is the caller's again when the buffer is destroyed. */
PJRT_Error *adp_view_create(const PJRT_Client_CreateViewOfDeviceBuffer_Args *args,
			    const struct adp_shape *shape, PJRT_Buffer **out_buffer);
/* The view ends: tells its owner. */
void adp_view_end(PJRT_Buffer *buffer);
/* The daemon has to know the buffer now: sends the upload if it is late. Not for views. */
PJRT_Error *adp_late_send(PJRT_Buffer *buffer);
/* The buffer is deleted. True: it was late, so the daemon need not be told. */
bool adp_late_forget(PJRT_Buffer *buffer);

#endif
