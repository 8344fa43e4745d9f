/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/job.h"

#include "api/job_options.h"
#include "api/options.h"
#include "box/box_home.h"
#include "base/banned.h"

_Static_assert(HOLT_JOBS_RUNNING == HOME_JOBS_RUNNING && HOLT_JOBS_MAX == HOME_JOBS_MAX,
	"the limits of jobs are written twice");

int api_job_read(const holt_job_options *options, struct job_work *ret, holt_error **reterr)
{
	holt_job_options o;

	if (!options)
		return api_null("options", reterr);
	const int r = options_read(&o, sizeof o, sizeof o, options, "holt_job_options", reterr);
	if (r < 0)
		return r;
	if (!o.run)
		return api_null("options.run", reterr);
	*ret = (struct job_work){.run = o.run, .done = o.done, .user = o.user};
	return 0;
}

HOLT_API int holt_job_start(
	holt_home *home, const holt_job_options *options, holt_job **ret, holt_error **reterr)
{
	struct job_work work;

	if (!home || !ret)
		return api_null(home ? "ret" : "home", reterr);
	const int r = api_job_read(options, &work, reterr);
	return r < 0 ? r : job_start(home->executor, &work, ret, reterr);
}

HOLT_API int holt_job_event_fd(holt_job *job, int *ret_fd, holt_error **reterr)
{
	if (!job || !ret_fd)
		return api_null(job ? "ret_fd" : "job", reterr);
	return job_event_fd(job, ret_fd, reterr);
}

HOLT_API void holt_job_cancel(holt_job *job)
{
	if (job)
		job_cancel(job);
}

HOLT_API int holt_job_wait(holt_job *job, uint64_t timeout_ms, int *ret, holt_error **reterr)
{
	if (!job || !ret)
		return api_null(job ? "ret" : "job", reterr);
	return job_wait(job, timeout_ms, ret, reterr);
}

HOLT_API void holt_job_free(holt_job *job)
{
	job_free(job);
}
