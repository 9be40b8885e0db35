/* SPDX-License-Identifier: Apache-2.0 */
/* option: the value decides the type, unless the text names one. */
#include "device/option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct sal_plugin_option parsed(const char *text, enum sal_value_kind kind,
				       struct sal_plugin_option *out)
{
	struct sal_err err = { 0 };

	if (sal_plugin_option_parse(text, out, &err) < 0)
		fail_msg("%s: %s", text, err.text);
	if (out->value.kind != kind)
		fail_msg("%s: kind %d", text, (int)out->value.kind);
	assert_int_equal(out->value.name.size, 1);
	assert_memory_equal(out->value.name.at, "a", 1);
	return *out;
}

static void is_text(const char *text, const char *value)
{
	struct sal_plugin_option o;

	(void)parsed(text, SAL_VALUE_TEXT, &o);
	assert_int_equal(o.value.text.size, strlen(value));
	assert_memory_equal(o.value.text.at, value, strlen(value));
}

static void is_number(const char *text, enum sal_value_kind kind, int64_t value)
{
	struct sal_plugin_option o;

	assert_int_equal(parsed(text, kind, &o).value.number, value);
}

static void is_real(const char *text, float value)
{
	struct sal_plugin_option o;

	assert_true(parsed(text, SAL_VALUE_FLOAT, &o).value.real == value);
}

static void values_have_types(void **state)
{
	(void)state;
	is_number("a=12", SAL_VALUE_INT, 12);
	is_number("a=-9223372036854775808", SAL_VALUE_INT, INT64_MIN);
	is_number("a=true", SAL_VALUE_BOOL, 1);
	is_number("a=false", SAL_VALUE_BOOL, 0);
	is_real("a=0.5", 0.5F);
	is_real("a=1e3", 1000);
	is_text("a=cuda_async", "cuda_async");
	is_text("a=x=y:z", "x=y:z");
	is_text("a=", "");
	is_text("a=1,2", "1,2");
	is_text("a=inf", "inf");
	is_text("a=e", "e");
}

static void types_can_be_named(void **state)
{
	struct sal_plugin_option o;

	(void)state;
	is_text("a:text=12", "12");
	is_real("a:float=2", 2);
	is_number("a:int=7", SAL_VALUE_INT, 7);
	(void)parsed("a:ints=3,-4,5", SAL_VALUE_INTS, &o);
	assert_int_equal(o.value.number_count, 3);
	assert_int_equal(o.value.numbers[1], -4);
	(void)parsed("a:ints=3", SAL_VALUE_INTS, &o);
	assert_int_equal(o.value.number_count, 1);
	(void)parsed("a:ints=", SAL_VALUE_INTS, &o);
	assert_int_equal(o.value.number_count, 0);
}

static void other_texts_are_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"a",
		"=1",
		"a:int=x",
		"a:int=1.5",
		"a:bool=1",
		"a:number=1",
		"a:float=x",
		"a:ints=1,x",
		"a:int=",
		"a:ints=1 ,2",
		"a:int=99999999999999999999",
		"a:ints=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
	};
	char longest[SAL_PLUGIN_OPTION_BYTES + 1];
	struct sal_plugin_option o;
	struct sal_err err;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		err = (struct sal_err){ 0 };
		if (sal_plugin_option_parse(texts[i], &o, &err) != -SAL_INVALID_ARGUMENT)
			fail_msg("\"%s\" was taken", texts[i]);
		assert_true(err.text[0] != '\0');
	}
	memset(longest, 'a', sizeof(longest));
	longest[1] = '=';
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(sal_plugin_option_parse(longest, &o, NULL), -SAL_INVALID_ARGUMENT);
	longest[sizeof(longest) - 2] = '\0';
	assert_int_equal(sal_plugin_option_parse(longest, &o, NULL), SAL_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_types),
		cmocka_unit_test(types_can_be_named),
		cmocka_unit_test(other_texts_are_refused),
	};

	return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
