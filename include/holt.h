/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_H
#define HOLT_H

/* Everything of libholt: local micro-VM sandboxes. */

#include "holt/base.h"
#include "holt/types.h"
#include "holt/home.h"
#include "holt/image.h"
#include "holt/image_pull.h"
#include "holt/box.h"
#include "holt/config.h"
#include "holt/context.h"
#include "holt/exec.h"
#include "holt/events.h"
#include "holt/files.h"
#include "holt/identity.h"
#include "holt/job.h"
#include "holt/provider.h"
#include "holt/sandbox.h"
#include "holt/search.h"
#include "holt/serializer.h"
#include "holt/sys/backend.h"
#include "holt/sys/pool.h"
#include "holt/templates.h"
#include "holt/doctor.h"

#endif
