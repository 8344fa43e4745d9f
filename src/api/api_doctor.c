/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/doctor.h"

#include "api/options.h"
#include "box/box_doctor.h"
#include "base/banned.h"

_Static_assert((int)DOCTOR_OK == HOLT_CHECK_OK && (int)DOCTOR_WARN == HOLT_CHECK_WARN &&
		       (int)DOCTOR_FAIL == HOLT_CHECK_FAIL,
	"one numbering of findings");

HOLT_API int holt_doctor_run(const char *home, holt_doctor **ret, holt_error **reterr)
{
	return ret ? doctor_run(home, ret, reterr) : api_null("ret", reterr);
}

HOLT_API size_t holt_doctor_count(const holt_doctor *doctor)
{
	return doctor->n;
}

HOLT_API int holt_doctor_check(const holt_doctor *doctor, size_t index, const char **ret_name,
	const char **ret_text, const char **ret_advice)
{
	if (index >= doctor->n)
		return -HOLT_EINVALID;
	const struct doctor_check *c = &doctor->checks[index];
	if (ret_name)
		*ret_name = c->name;
	if (ret_text)
		*ret_text = c->text;
	if (ret_advice)
		*ret_advice = c->advice;
	return c->status;
}

HOLT_API int holt_doctor_ok(const holt_doctor *doctor)
{
	for (size_t i = 0; i < doctor->n; i++) {
		if (doctor->checks[i].status == HOLT_CHECK_FAIL)
			return 0;
	}
	return 1;
}

HOLT_API const char *holt_doctor_json(const holt_doctor *doctor)
{
	return doctor->json;
}

HOLT_API void holt_doctor_free(holt_doctor *doctor)
{
	doctor_free(doctor);
}
