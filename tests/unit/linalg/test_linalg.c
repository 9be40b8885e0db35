/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of linear algebra, as XLA makes them: results, and what is refused. Needs LAPACK. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "linalg/frame.h"
#include "linalg/targets.h"

#define RANK_MAX 3

/* A call of a handler: buffers with guards around their bytes. */

#define GUARD_BYTES 64
#define GUARD 0xa5

struct buffer {
	XLA_FFI_Buffer ffi;
	int64_t dims[RANK_MAX];
	unsigned char *whole; /* owned */
	size_t bytes;
};

struct frame {
	XLA_FFI_CallFrame ffi;
	struct buffer args[LINALG_ARGS_MAX + 2], rets[LINALG_RETS_MAX + 2]; /* the last: none */
	void *arg_list[LINALG_ARGS_MAX + 1], *ret_list[LINALG_RETS_MAX + 1];
	XLA_FFI_ArgType arg_types[LINALG_ARGS_MAX + 1];
	XLA_FFI_RetType ret_types[LINALG_RETS_MAX + 1];
	XLA_FFI_ByteSpan names[LINALG_ATTRS_MAX], *name_list[LINALG_ATTRS_MAX];
	XLA_FFI_Scalar scalars[LINALG_ATTRS_MAX];
	XLA_FFI_AttrType attr_types[LINALG_ATTRS_MAX];
	void *attr_list[LINALG_ATTRS_MAX];
	uint8_t letters[LINALG_ATTRS_MAX];
	int32_t numbers[LINALG_ATTRS_MAX];
	XLA_FFI_Api api;
};

/* The last error that a handler made. */
static struct sal_err said;

static XLA_FFI_Error *make_error(XLA_FFI_Error_Create_Args *args)
{
	(void)sal_err_set(&said, (enum sal_code)args->errc, "%s", args->message);
	return (XLA_FFI_Error *)&said;
}

static size_t size_of(XLA_FFI_DataType type)
{
	return type == XLA_FFI_DataType_F32 || type == XLA_FFI_DataType_S32 ? 4
	       : type == XLA_FFI_DataType_C128				    ? 16
									    : 8;
}

static void *fill(struct buffer *b, XLA_FFI_DataType type, size_t rank, const int64_t *dims)
{
	b->bytes = size_of(type);
	for (size_t i = 0; i < rank; i++) {
		b->dims[i] = dims[i];
		b->bytes *= (size_t)dims[i];
	}
	b->whole = malloc(b->bytes + 2 * (size_t)GUARD_BYTES);
	assert_non_null(b->whole);
	memset(b->whole, GUARD, b->bytes + 2 * (size_t)GUARD_BYTES);
	b->ffi = (XLA_FFI_Buffer){ .struct_size = sizeof(b->ffi),
				   .dtype = type,
				   .data = b->whole + GUARD_BYTES,
				   .rank = (int64_t)rank,
				   .dims = b->dims };
	return b->ffi.data;
}

static struct frame *new_frame(void)
{
	struct frame *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->api.XLA_FFI_Error_Create = make_error;
	f->ffi = (XLA_FFI_CallFrame){
		.struct_size = sizeof(f->ffi),
		.api = &f->api,
		.stage = XLA_FFI_ExecutionStage_EXECUTE,
		.args = { .types = f->arg_types, .args = f->arg_list },
		.rets = { .types = f->ret_types, .rets = f->ret_list },
		.attrs = { .types = f->attr_types, .names = f->name_list, .attrs = f->attr_list },
	};
	return f;
}

#define DIMS(...)                                                               \
	sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), (const int64_t[]) \
	{                                                                       \
		__VA_ARGS__                                                     \
	}

static void *add_arg(struct frame *f, XLA_FFI_DataType type, size_t rank, const int64_t *dims)
{
	size_t i = (size_t)f->ffi.args.size++;

	f->arg_list[i] = &f->args[i].ffi;
	f->arg_types[i] = XLA_FFI_ArgType_BUFFER;
	return fill(&f->args[i], type, rank, dims);
}

static void *add_ret(struct frame *f, XLA_FFI_DataType type, size_t rank, const int64_t *dims)
{
	size_t i = (size_t)f->ffi.rets.size++;

	f->ret_list[i] = &f->rets[i].ffi;
	f->ret_types[i] = XLA_FFI_RetType_BUFFER;
	return fill(&f->rets[i], type, rank, dims);
}

static size_t add_attr(struct frame *f, const char *name)
{
	size_t i = (size_t)f->ffi.attrs.size++;

	f->names[i] = (XLA_FFI_ByteSpan){ name, strlen(name) };
	f->name_list[i] = &f->names[i];
	f->attr_types[i] = XLA_FFI_AttrType_SCALAR;
	f->attr_list[i] = &f->scalars[i];
	return i;
}

static void add_letter(struct frame *f, const char *name, char letter)
{
	size_t i = add_attr(f, name);

	f->letters[i] = (uint8_t)letter;
	f->scalars[i] = (XLA_FFI_Scalar){ XLA_FFI_DataType_U8, &f->letters[i] };
}

static void add_number(struct frame *f, const char *name, int32_t number)
{
	size_t i = add_attr(f, name);

	f->numbers[i] = number;
	f->scalars[i] = (XLA_FFI_Scalar){ XLA_FFI_DataType_S32, &f->numbers[i] };
}

static bool call(struct frame *f, const char *name)
{
	struct linalg_target target;

	said = (struct sal_err){ 0 };
	assert_true(sal_linalg_find((struct sal_text){ name, strlen(name) }, &target));
	return !((XLA_FFI_Handler *)target.handler)(&f->ffi);
}

static void check_guards(const struct buffer *b)
{
	for (size_t i = 0; i < GUARD_BYTES; i++) {
		assert_int_equal(b->whole[i], GUARD);
		assert_int_equal(b->whole[GUARD_BYTES + b->bytes + i], GUARD);
	}
}

/* Also proves that nothing was written outside of the buffers. */
static void free_frame(struct frame *f)
{
	for (size_t i = 0; f->args[i].whole; i++) {
		check_guards(&f->args[i]);
		free(f->args[i].whole);
	}
	for (size_t i = 0; f->rets[i].whole; i++) {
		check_guards(&f->rets[i]);
		free(f->rets[i].whole);
	}
	free(f);
}

static bool is_untouched(const struct buffer *b)
{
	for (size_t i = 0; i < b->bytes; i++)
		if (b->whole[GUARD_BYTES + i] != GUARD)
			return false;
	return true;
}

/* What XLA asks before anything else */

static void reports_a_version_that_plugins_accept(void **state)
{
	XLA_FFI_Metadata metadata = { .struct_size = sizeof(metadata) };
	XLA_FFI_Metadata_Extension extension = {
		.extension_base = { sizeof(extension), XLA_FFI_Extension_Metadata, NULL },
		.metadata = &metadata
	};

	(void)state;
	for (size_t i = 0; i < sal_linalg_target_count(); i++) {
		struct frame *f = new_frame();
		struct linalg_target target;

		metadata.api_version.minor_version = 99;
		f->ffi.extension_start = &extension.extension_base;
		sal_linalg_target(i, &target);
		assert_null(((XLA_FFI_Handler *)target.handler)(&f->ffi));
		assert_int_equal(metadata.api_version.major_version, 0);
		assert_int_equal(metadata.api_version.minor_version, 1);
		free_frame(f);
	}
}

static void knows_all_names(void **state)
{
	static const char *const known[] = {
		"lapack_spotrf_ffi",	    "lapack_zheevd_ffi", "lapack_dsyevd_ffi",
		"lapack_cungqr_ffi",	    "lapack_sormqr_ffi", "tridiagonal_solve_perturbed_ffi",
		"cpu_csr_sparse_dense_ffi", "dce_sink"
	};
	static const char *const unknown[] = { "lapack_spotrf", "lapack_zsyevd_ffi", "",
					       "lapack_spotrf_ffi2", "lapack_qpotrf_ffi" };
	struct linalg_target target;

	(void)state;
	assert_int_equal(sal_linalg_target_count(), 63);
	for (size_t i = 0; i < SAL_COUNT(known); i++) {
		assert_true(
			sal_linalg_find((struct sal_text){ known[i], strlen(known[i]) }, &target));
		assert_string_equal(target.name, known[i]);
	}
	for (size_t i = 0; i < SAL_COUNT(unknown); i++)
		assert_false(sal_linalg_find((struct sal_text){ unknown[i], strlen(unknown[i]) },
					     &target));
}

/* Results */

/* Two matrices, the second one not positive: info says so, and the first one is right. */
static void factors_a_batch(void **state)
{
	static const double a[8] = { 4, 2, 2, 5, -1, 0, 0, 1 };
	struct frame *f = new_frame();
	double *out;
	int32_t *info;

	(void)state;
	memcpy(add_arg(f, XLA_FFI_DataType_F64, DIMS(2, 2, 2)), a, sizeof(a));
	out = add_ret(f, XLA_FFI_DataType_F64, DIMS(2, 2, 2));
	info = add_ret(f, XLA_FFI_DataType_S32, DIMS(2));
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_dpotrf_ffi"));
	assert_true(out[0] == 2 && out[1] == 1 && out[3] == 2);
	assert_int_equal(info[0], 0);
	assert_int_equal(info[1], 1);
	assert_memory_equal(f->args[0].ffi.data, a, sizeof(a));
	free_frame(f);
}

static void finds_nan(void **state)
{
	static const float a[4] = { 4, 2, 2, 0.0F / 0.0F };
	struct frame *f = new_frame();
	int32_t *info;

	(void)state;
	memcpy(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 2)), a, sizeof(a));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 2));
	info = add_ret(f, XLA_FFI_DataType_S32, 0, NULL);
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_spotrf_ffi"));
	assert_int_equal(*info, 2);
	free_frame(f);
}

/* XLA may give the result the place of its argument. */
static void factors_in_place(void **state)
{
	static const float a[4] = { 4, 2, 2, 5 };
	struct frame *f = new_frame();
	float *in;

	(void)state;
	in = memcpy(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 2)), a, sizeof(a));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 2));
	f->rets[0].ffi.data = in;
	(void)add_ret(f, XLA_FFI_DataType_S32, 0, NULL);
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_spotrf_ffi"));
	assert_true(in[0] == 2 && in[1] == 1 && in[3] == 2);
	free_frame(f);
}

/* A rotation has two conjugate eigenvalues. Their vectors come as complex numbers. */
static void unpacks_conjugate_vectors(void **state)
{
	static const float a[4] = { 0, 1, -1, 0 };
	struct frame *f = new_frame();
	float *re, *im, *right, *left;

	(void)state;
	memcpy(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 2)), a, sizeof(a));
	re = add_ret(f, XLA_FFI_DataType_F32, DIMS(2));
	im = add_ret(f, XLA_FFI_DataType_F32, DIMS(2));
	left = add_ret(f, XLA_FFI_DataType_C64, DIMS(2, 2));
	right = add_ret(f, XLA_FFI_DataType_C64, DIMS(2, 2));
	(void)add_ret(f, XLA_FFI_DataType_S32, 0, NULL);
	add_letter(f, "compute_left", 'N');
	add_letter(f, "compute_right", 'V');
	assert_true(call(f, "lapack_sgeev_ffi"));
	assert_true(re[0] == 0 && re[1] == 0 && im[0] == 1 && im[1] == -1);
	for (size_t i = 0; i < 2; i++) { /* the second vector is the conjugate of the first */
		assert_true(right[2 * i] == right[4 + 2 * i]);
		assert_true(right[2 * i + 1] == -right[4 + 2 * i + 1]);
	}
	/* A vector that nobody wants shows no memory of others. */
	for (int i = 0; i < 8; i++)
		assert_true(left[i] == 0);
	free_frame(f);
}

/* LAPACK would not return from some matrices with NaN. */
static void refuses_nan_like_jax(void **state)
{
	static const double a[4] = { 1, 2, 0.0 / 0.0, 4 };
	struct frame *f = new_frame();
	int32_t *info;

	(void)state;
	memcpy(add_arg(f, XLA_FFI_DataType_F64, DIMS(2, 2)), a, sizeof(a));
	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(2));
	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(2));
	(void)add_ret(f, XLA_FFI_DataType_C128, DIMS(2, 2));
	(void)add_ret(f, XLA_FFI_DataType_C128, DIMS(2, 2));
	info = add_ret(f, XLA_FFI_DataType_S32, 0, NULL);
	add_letter(f, "compute_left", 'V');
	add_letter(f, "compute_right", 'V');
	assert_true(call(f, "lapack_dgeev_ffi"));
	assert_int_equal(*info, -4);
	free_frame(f);
}

/* A matrix of zeros has no solution. The nearest system that has one is solved. */
static void solves_singular_systems(void **state)
{
	struct frame *f = new_frame();
	double *b, *x;

	(void)state;
	for (int i = 0; i < 3; i++)
		memset(add_arg(f, XLA_FFI_DataType_F64, DIMS(3)), 0, 3 * sizeof(double));
	b = add_arg(f, XLA_FFI_DataType_F64, DIMS(3, 1));
	x = add_ret(f, XLA_FFI_DataType_F64, DIMS(3, 1));
	b[0] = b[1] = b[2] = 1;
	assert_true(call(f, "tridiagonal_solve_perturbed_ffi"));
	for (int i = 0; i < 3; i++)
		assert_true(x[i] > 1e10 && x[i] < 1e300);
	free_frame(f);
}

static void computes_nothing_of_nothing(void **state)
{
	struct frame *f = new_frame();
	int32_t *info;

	(void)state;
	(void)add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 0, 0));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 0, 0));
	info = add_ret(f, XLA_FFI_DataType_S32, DIMS(2));
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_spotrf_ffi"));
	assert_int_equal(info[0], 0);
	assert_int_equal(info[1], 0);
	free_frame(f);
}

/* What a hostile program might send */

/* The right call of svd, except for what change does. */
static struct frame *new_svd(char mode)
{
	struct frame *f = new_frame();

	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 3, 2)), 0, 48);
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 3, 2));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 2));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 3, 2));
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 2, 2));
	(void)add_ret(f, XLA_FFI_DataType_S32, DIMS(2));
	if (mode)
		add_letter(f, "mode", mode);
	return f;
}

static void is_refused(struct frame *f, const char *name)
{
	assert_false(call(f, name));
	assert_int_equal(said.code, SAL_INVALID_ARGUMENT);
	assert_non_null(strstr(said.text, "refused"));
	for (int64_t i = 0; i < f->ffi.rets.size; i++)
		assert_true(is_untouched(&f->rets[i]));
	free_frame(f);
}

static struct buffer *svd_buffer(struct frame *f, size_t i)
{
	return i == 0 ? &f->args[0] : &f->rets[i - 1];
}

static void refuses_wrong_arrays(void **state)
{
	struct frame *f;

	(void)state;
	f = new_svd('S');
	assert_true(call(f, "lapack_sgesdd_ffi"));
	free_frame(f);
	is_refused(new_svd('S'), "lapack_dgesdd_ffi"); /* another type */
	is_refused(new_svd('A'), "lapack_sgesdd_ffi"); /* U would not fit */
	is_refused(new_svd('O'), "lapack_sgesdd_ffi"); /* LAPACK has this mode, JAX has not */
	is_refused(new_svd(0), "lapack_sgesdd_ffi"); /* no mode */
	for (size_t i = 0; i < 6; i++) { /* each array once with a smaller batch, rank, type */
		f = new_svd('S');
		svd_buffer(f, i)->dims[0] = 1;
		is_refused(f, "lapack_sgesdd_ffi");
		f = new_svd('S');
		svd_buffer(f, i)->ffi.rank -= 1;
		is_refused(f, "lapack_sgesdd_ffi");
		f = new_svd('S');
		svd_buffer(f, i)->ffi.dtype = XLA_FFI_DataType_S8;
		is_refused(f, "lapack_sgesdd_ffi");
	}
	f = new_svd('S');
	f->ffi.rets.size = 4;
	is_refused(f, "lapack_sgesdd_ffi");
	f = new_svd('S');
	f->ffi.args.size = 0;
	is_refused(f, "lapack_sgesdd_ffi");
}

/* The attribute exists, but is a text. */
static void refuses_wrong_attributes(void **state)
{
	struct frame *f = new_svd('S');

	(void)state;
	f->attr_types[0] = XLA_FFI_AttrType_STRING;
	is_refused(f, "lapack_sgesdd_ffi");
	f = new_svd('S');
	f->scalars[0].dtype = XLA_FFI_DataType_F64;
	is_refused(f, "lapack_sgesdd_ffi");
}

static struct frame *new_hessenberg(int32_t low, int32_t high)
{
	struct frame *f = new_frame();

	memset(add_arg(f, XLA_FFI_DataType_F64, DIMS(3, 3)), 0, 72);
	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(3, 3));
	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(2));
	(void)add_ret(f, XLA_FFI_DataType_S32, 0, NULL);
	add_number(f, "low", low);
	add_number(f, "high", high);
	return f;
}

static void refuses_rows_outside(void **state)
{
	static const int32_t wrong[][2] = { { 0, 3 }, { 1, 4 }, { 3, 2 }, { -1, 3 }, { 1, 0 } };
	struct frame *f = new_hessenberg(1, 3);

	(void)state;
	assert_true(call(f, "lapack_dgehrd_ffi"));
	free_frame(f);
	for (size_t i = 0; i < SAL_COUNT(wrong); i++)
		is_refused(new_hessenberg(wrong[i][0], wrong[i][1]), "lapack_dgehrd_ffi");
}

/* More reflectors than columns: LAPACK would read behind them. */
static void refuses_too_many_reflectors(void **state)
{
	struct frame *f = new_frame();

	(void)state;
	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(3, 2)), 0, 24);
	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(3)), 0, 12);
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(3, 2));
	is_refused(f, "lapack_sorgqr_ffi");
	f = new_frame();
	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 3)), 0, 24);
	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(3)), 0, 12);
	memset(add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 4)), 0, 32);
	(void)add_ret(f, XLA_FFI_DataType_F32, DIMS(2, 4));
	add_number(f, "left", 1);
	add_number(f, "transpose", 0);
	is_refused(f, "lapack_sormqr_ffi");
}

/* Planning: shapes without data */

static struct linalg_array plan_array(int32_t element, size_t rank, const int64_t *dims)
{
	return (struct linalg_array){ .element = element, .rank = rank, .dims = dims };
}

static int plan_eigh(int64_t n, enum lapack_type type, uint64_t *out_bytes, struct sal_err *err)
{
	const int64_t square[] = { 2, n, n }, values[] = { 2, n };
	int32_t element = sal_linalg_element(type);
	struct linalg_call c = {
		.routine = &sal_linalg_syevd,
		.type = type,
		.is_plan = true,
		.err = err,
		.arg_count = 1,
		.ret_count = 3,
		.args = { plan_array(element, 3, square) },
		.rets = { plan_array(element, 3, square),
			  plan_array(sal_linalg_element(lapack_real(type)), 2, values),
			  plan_array(LINALG_S32, 1, values) },
	};

	return sal_linalg_prepare(&c, out_bytes);
}

static void plans_scratch(void **state)
{
	struct sal_err err = { 0 };
	uint64_t bytes;

	(void)state;
	for (int type = 0; type < LAPACK_TYPES; type++) {
		uint64_t least =
			UINT64_C(2) * 100 * 100 * lapack_bytes(lapack_real((enum lapack_type)type));

		assert_int_equal(plan_eigh(100, (enum lapack_type)type, &bytes, &err), SAL_OK);
		assert_true(bytes >= least && bytes < 8 * least);
	}
	assert_int_equal(plan_eigh(0, LAPACK_D, &bytes, &err), SAL_OK);
	assert_int_equal(bytes, 0);
}

/* Sizes at which LAPACK's 32-bit sums would wrap around. */
static void refuses_what_lapack_cannot_count(void **state)
{
	static const int64_t sizes[] = { 32768,	  46341,   65536,     92682,
					 1 << 20, 1 << 28, INT32_MAX, (int64_t)1 << 32,
					 -1 };
	struct sal_err err = { 0 };
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < SAL_COUNT(sizes); i++)
		assert_int_equal(plan_eigh(sizes[i], LAPACK_S, &bytes, &err),
				 -SAL_INVALID_ARGUMENT);
}

/* Blocks of small matrices */

#define MANY 43

/* One matrix of the batch. In the last bits all differ; one has a pivot of -1, another of NaN. */
static double element_of(int64_t i, int64_t row, int64_t column, int64_t n)
{
	if (row != column)
		return (double)((i + row) * (i + column) % 7) / 8;
	if (row == n / 2 && (i == 3 || i == 12))
		return i == 3 ? -1 : 0.0 / 0.0;
	return (double)(n + i) / 3 + 4;
}

static void set_element(void *to, enum lapack_type type, int64_t i, double value)
{
	if (type == LAPACK_S)
		((float *)to)[i] = (float)value;
	else
		((double *)to)[i] = value;
}

static double get_element(const void *from, enum lapack_type type, int64_t i)
{
	return type == LAPACK_S ? (double)((const float *)from)[i] : ((const double *)from)[i];
}

static struct frame *cholesky_of(enum lapack_type type, char uplo, int64_t n, int64_t first,
				 int64_t count)
{
	XLA_FFI_DataType element = (XLA_FFI_DataType)sal_linalg_element(type);
	struct frame *f = new_frame();
	void *a = add_arg(f, element, DIMS(count, n, n));

	(void)add_ret(f, element, DIMS(count, n, n));
	(void)add_ret(f, XLA_FFI_DataType_S32, DIMS(count));
	for (int64_t i = 0; i < count * n * n; i++)
		set_element(a, type, i, element_of(first + i / (n * n), i % n, i / n % n, n));
	add_letter(f, "uplo", uplo);
	assert_true(call(f, type == LAPACK_S ? "lapack_spotrf_ffi" : "lapack_dpotrf_ffi"));
	return f;
}

static void compare_with_single(const struct frame *all, enum lapack_type type, char uplo,
				int64_t n)
{
	double close = type == LAPACK_S ? 1e-5 : 1e-13;

	for (int64_t i = 0; i < MANY; i++) {
		struct frame *one = cholesky_of(type, uplo, n, i, 1);
		int32_t info = *(int32_t *)one->rets[1].ffi.data;

		assert_int_equal(((int32_t *)all->rets[1].ffi.data)[i], info);
		assert_int_equal(info != 0, i == 3 || i == 12);
		for (int64_t k = 0; k < n * n && info == 0; k++)
			assert_true(fabs(get_element(all->rets[0].ffi.data, type, i * n * n + k) -
					 get_element(one->rets[0].ffi.data, type, k)) < close);
		free_frame(one);
	}
}

/* A batch is factored in blocks, a single matrix by LAPACK: what both say is the same. */
static void factors_blocks_like_lapack(void **state)
{
	(void)state;
	for (int64_t n = 1; n <= 18; n++) {
		for (int i = 0; i < 4; i++) {
			enum lapack_type type = i % 2 ? LAPACK_D : LAPACK_S;
			char uplo = i / 2 ? 'U' : 'L';
			struct frame *all = cholesky_of(type, uplo, n, 0, MANY);

			compare_with_single(all, type, uplo, n);
			free_frame(all);
		}
	}
}

/* The place in a batch changes no bit: 43 matrices are five blocks and three more. */
static void factors_equal_matrices_equally(void **state)
{
	struct frame *f = new_frame();
	float *a = add_arg(f, XLA_FFI_DataType_F32, DIMS(MANY, 5, 5));
	float *out = add_ret(f, XLA_FFI_DataType_F32, DIMS(MANY, 5, 5));

	(void)state;
	(void)add_ret(f, XLA_FFI_DataType_S32, DIMS(MANY));
	for (int64_t i = 0; i < INT64_C(25) * MANY; i++)
		a[i] = (float)element_of(1, i % 5, i / 5 % 5, 5);
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_spotrf_ffi"));
	for (size_t i = 1; i < MANY; i++)
		assert_memory_equal(out + i * 25, out, 25 * sizeof(*out));
	free_frame(f);
}

/* Threads that help */

#define HELPERS 3

/* XLA's pool: each task has a thread. */
static struct {
	pthread_t threads[HELPERS];
	size_t started;
	bool refuses;
} pool;

struct pool_task {
	XLA_FFI_Task *task;
	void *data;
};

static void *run_task(void *ctx)
{
	struct pool_task *t = ctx;

	t->task(t->data);
	free(t);
	return NULL;
}

static XLA_FFI_Error *schedule(XLA_FFI_ThreadPool_Schedule_Args *args)
{
	struct pool_task *t;

	if (pool.refuses)
		return (XLA_FFI_Error *)&said;
	t = malloc(sizeof(*t));
	assert_non_null(t);
	*t = (struct pool_task){ args->task, args->data };
	assert_true(pool.started < HELPERS);
	assert_int_equal(pthread_create(&pool.threads[pool.started++], NULL, run_task, t), 0);
	return NULL;
}

static XLA_FFI_Error *count_threads(XLA_FFI_ThreadPool_NumThreads_Args *args)
{
	*args->num_threads = HELPERS + 1;
	return NULL;
}

static void drop_error(XLA_FFI_Error_Destroy_Args *args)
{
	(void)args;
}

static void join_pool(void)
{
	for (size_t i = 0; i < pool.started; i++)
		assert_int_equal(pthread_join(pool.threads[i], NULL), 0);
	pool.started = 0;
}

static struct frame *frame_with_pool(void)
{
	struct frame *f = new_frame();

	f->api.struct_size = sizeof(f->api);
	f->api.XLA_FFI_Error_Destroy = drop_error;
	f->api.XLA_FFI_ThreadPool_Schedule = schedule;
	f->api.XLA_FFI_ThreadPool_NumThreads = count_threads;
	return f;
}

/* Eigenvalues and vectors of a batch of symmetric matrices, which differ in their diagonals. */
static void eigh_of_batch(struct frame *f, int64_t batch, int64_t n)
{
	double *a = add_arg(f, XLA_FFI_DataType_F64, DIMS(batch, n, n));

	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(batch, n, n));
	(void)add_ret(f, XLA_FFI_DataType_F64, DIMS(batch, n));
	(void)add_ret(f, XLA_FFI_DataType_S32, DIMS(batch));
	for (int64_t i = 0; i < batch * n * n; i++) {
		int64_t number = i / (n * n), row = i / n % n, column = i % n, sum = row + column;

		a[i] = row == column ? (double)(number + row) : 1.0 / (double)(sum + 1);
	}
	add_letter(f, "mode", 'V');
	add_letter(f, "uplo", 'L');
	assert_true(call(f, "lapack_dsyevd_ffi"));
}

/* Threads change who solves a problem of the batch, and nothing else. */
static void spreads_a_batch(void **state)
{
	struct frame *alone = new_frame(), *f;

	(void)state;
	eigh_of_batch(alone, 64, 40);
	for (int i = 0; i < 2; i++) {
		pool.refuses = i == 1;
		f = frame_with_pool();
		eigh_of_batch(f, 64, 40);
		assert_int_equal(pool.started, pool.refuses ? 0 : HELPERS);
		join_pool();
		for (int r = 0; r < 3; r++)
			assert_memory_equal(f->rets[r].ffi.data, alone->rets[r].ffi.data,
					    alone->rets[r].bytes);
		free_frame(f);
	}
	pool.refuses = false;
	free_frame(alone);
}

static void spreads_no_small_batch(void **state)
{
	static const int64_t sizes[][2] = { { 1000, 8 }, { 1, 40 }, { 2, 40 } };
	struct frame *f;

	(void)state;
	for (size_t i = 0; i < SAL_COUNT(sizes); i++) {
		f = frame_with_pool();
		eigh_of_batch(f, sizes[i][0], sizes[i][1]);
		assert_int_equal(pool.started, 0);
		free_frame(f);
	}
	/* A plugin whose table ends before the functions for threads. */
	f = frame_with_pool();
	f->api.struct_size = offsetof(XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule);
	eigh_of_batch(f, 64, 40);
	assert_int_equal(pool.started, 0);
	free_frame(f);
}

/* Helpers that are late, or that do everything */

static struct {
	void (*task)(void *data);
	void *data;
} late;

static bool start_late(void *ctx, void (*task)(void *data), void *data)
{
	(void)ctx;
	late.task = task;
	late.data = data;
	return true;
}

static bool start_at_once(void *ctx, void (*task)(void *data), void *data)
{
	(void)ctx;
	task(data);
	return true;
}

static void count_solved(const void *ctx, void *scratch, int64_t first, int64_t end)
{
	int *solved = *(int *const *)ctx;

	memset(scratch, GUARD, 100);
	for (int64_t i = first; i < end; i++)
		solved[i]++;
}

/* The call returns without the helper, which then finds nothing to do. */
static void waits_for_no_late_helper(void **state)
{
	int solved[50] = { 0 }, *at = solved;
	const struct linalg_helpers helpers[] = { { .count = 1, .start = start_late },
						  { .count = 1, .start = start_at_once } };
	struct linalg_batch b = {
		.count = 50, .cost = 1e6, .scratch_bytes = 100, .solve = count_solved, .ctx = &at
	};

	(void)state;
	assert_int_equal(sal_linalg_workers(&b, NULL), 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(sal_linalg_workers(&b, &helpers[i]), 2);
		assert_int_equal(sal_linalg_solve(&b, &helpers[i], 2, NULL), SAL_OK);
		for (int k = 0; k < 50; k++)
			assert_int_equal(solved[k], i + 1);
	}
	b.ctx = NULL; /* whoever uses it now crashes */
	late.task(late.data);
	for (int k = 0; k < 50; k++)
		assert_int_equal(solved[k], 2);
}

/* Sparse matrices */

static void set_index(void *to, size_t i, int64_t value, bool is_wide)
{
	if (is_wide)
		((int64_t *)to)[i] = value;
	else
		((int32_t *)to)[i] = (int32_t)value;
}

/* [[2 0 0] [0 0 0] [3 4 0]] times a matrix of two columns. Returns the result. */
static float *sparse_frame(struct frame *f, bool is_wide, const int64_t starts[4],
			   const int64_t columns[3])
{
	XLA_FFI_DataType index = is_wide ? XLA_FFI_DataType_S64 : XLA_FFI_DataType_S32;
	float *numbers = add_arg(f, XLA_FFI_DataType_F32, DIMS(3)), *dense;
	void *starts_at = add_arg(f, index, DIMS(4)), *columns_at = add_arg(f, index, DIMS(3));

	for (size_t i = 0; i < 4; i++)
		set_index(starts_at, i, starts[i], is_wide);
	for (size_t i = 0; i < 3; i++) {
		numbers[i] = (float)(i + 2);
		set_index(columns_at, i, columns[i], is_wide);
	}
	dense = add_arg(f, XLA_FFI_DataType_F32, DIMS(3, 2));
	for (size_t i = 0; i < 6; i++)
		dense[i] = (float)(i + 1);
	return add_ret(f, XLA_FFI_DataType_F32, DIMS(3, 2));
}

static void multiplies_sparse_matrices(void **state)
{
	static const float right[] = { 2, 4, 0, 0, 15, 22 };

	(void)state;
	for (int is_wide = 0; is_wide < 2; is_wide++) {
		struct frame *f = new_frame();
		float *out =
			sparse_frame(f, is_wide, (int64_t[]){ 0, 1, 1, 3 }, (int64_t[]){ 0, 0, 1 });

		assert_true(call(f, "cpu_csr_sparse_dense_ffi"));
		assert_memory_equal(out, right, sizeof(right));
		free_frame(f);
	}
}

/* The job chooses the indices: none leads outside of the arrays. */
static void leaves_out_indices_outside(void **state)
{
	static const int64_t far[] = { INT64_MIN, -1, 3, 1 << 20, INT64_MAX };

	(void)state;
	for (size_t i = 0; i < SAL_COUNT(far); i++) {
		struct frame *f = new_frame();
		float *out = sparse_frame(f, true, (int64_t[]){ 0, 1, 1, 3 },
					  (int64_t[]){ far[i], 0, far[i] });

		assert_true(call(f, "cpu_csr_sparse_dense_ffi"));
		assert_true(out[0] == 0 && out[4] == 3 && out[5] == 6);
		free_frame(f);
		f = new_frame();
		(void)sparse_frame(f, true, (int64_t[]){ far[i], far[i], -(far[i] / 2), far[i] },
				   (int64_t[]){ 0, 0, 1 });
		assert_true(call(f, "cpu_csr_sparse_dense_ffi"));
		free_frame(f);
	}
}

static void refuses_wrong_sparse_matrices(void **state)
{
	(void)state;
	for (size_t i = 0; i < 5; i++) {
		struct frame *f = new_frame();

		(void)sparse_frame(f, false, (int64_t[]){ 0, 1, 1, 3 }, (int64_t[]){ 0, 0, 1 });
		if (i < 4)
			f->args[i].dims[0]--; /* all but the dense matrix must fit the others */
		else
			f->args[0].ffi.dtype = XLA_FFI_DataType_F64;
		assert_true(call(f, "cpu_csr_sparse_dense_ffi") == (i == 3));
		free_frame(f);
	}
}

static void sinks_anything(void **state)
{
	struct frame *f = new_frame();

	(void)state;
	(void)add_arg(f, XLA_FFI_DataType_F32, DIMS(2, 2));
	assert_true(call(f, "dce_sink"));
	(void)add_arg(f, XLA_FFI_DataType_F32, DIMS(1));
	assert_false(call(f, "dce_sink"));
	free_frame(f);
}

/* The wheel's OpenBLAS has names with a prefix. */
static void finds_names_with_a_prefix(void **state)
{
	struct sal_lapack lapack;

	(void)state;
	if (!*SAL_LAPACK || sal_lapack_load(SAL_LAPACK, &lapack, NULL) < 0)
		skip();
	assert_non_null(lapack.routines[LAPACK_SYEVD][LAPACK_Z]);
	assert_non_null(lapack.set_threads);
	assert_true(lapack.threads_max >= 1);
}

static void says_what_is_missing(void **state)
{
	struct sal_lapack lapack;
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(sal_lapack_load("/nowhere/liblapack.so", &lapack, &err),
			 -SAL_FAILED_PRECONDITION);
	assert_non_null(strstr(err.text, "SALUS_LAPACK"));
	assert_non_null(strstr(err.text, "/nowhere/liblapack.so"));
	assert_int_equal(sal_lapack_load("libm.so.6", &lapack, &err), -SAL_FAILED_PRECONDITION);
	assert_non_null(strstr(err.text, "strsm_"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_a_version_that_plugins_accept),
		cmocka_unit_test(knows_all_names),
		cmocka_unit_test(factors_a_batch),
		cmocka_unit_test(finds_nan),
		cmocka_unit_test(factors_in_place),
		cmocka_unit_test(unpacks_conjugate_vectors),
		cmocka_unit_test(refuses_nan_like_jax),
		cmocka_unit_test(solves_singular_systems),
		cmocka_unit_test(computes_nothing_of_nothing),
		cmocka_unit_test(refuses_wrong_arrays),
		cmocka_unit_test(refuses_wrong_attributes),
		cmocka_unit_test(refuses_rows_outside),
		cmocka_unit_test(refuses_too_many_reflectors),
		cmocka_unit_test(plans_scratch),
		cmocka_unit_test(refuses_what_lapack_cannot_count),
		cmocka_unit_test(factors_blocks_like_lapack),
		cmocka_unit_test(factors_equal_matrices_equally),
		cmocka_unit_test(spreads_a_batch),
		cmocka_unit_test(spreads_no_small_batch),
		cmocka_unit_test(waits_for_no_late_helper),
		cmocka_unit_test(multiplies_sparse_matrices),
		cmocka_unit_test(leaves_out_indices_outside),
		cmocka_unit_test(refuses_wrong_sparse_matrices),
		cmocka_unit_test(sinks_anything),
		cmocka_unit_test(finds_names_with_a_prefix),
		cmocka_unit_test(says_what_is_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
