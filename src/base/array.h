/* SPDX-License-Identifier: Apache-2.0 */
/* array - how many elements an array has. Not for pointers. */
#ifndef SAL_BASE_ARRAY_H
#define SAL_BASE_ARRAY_H

#define SAL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
