// SPDX-License-Identifier: GPL-2.0
// Gives soft devices the one operation without which the kernel moves no device
// to another network namespace. There is nothing to do in it while no process
// has the device open, which the test sees to.

#include <linux/module.h>
#include <rdma/ib_verbs.h>

static char *devices[4];
static int count;
module_param_array(devices, charp, &count, 0);

static void nothing(struct ib_ucontext *context)
{
}

static int __init gvmovable_init(void)
{
	int i;

	for (i = 0; i < count; i++) {
		struct ib_device *device = ib_device_get_by_name(devices[i], RDMA_DRIVER_UNKNOWN);

		if (!device)
			return -ENODEV;
		device->ops.disassociate_ucontext = nothing;
		ib_device_put(device);
	}
	return 0;
}

// No way out: the devices point here.
module_init(gvmovable_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Lets soft RDMA devices be moved to another network namespace");
