package netlinkrdma

// replyGoldens are of replies that are neither a device nor an object.
var replyGoldens = []golden{
	{"character device", whole(parseCharDev), attr(73, u32(18)) + attr(0, "") + attr(72, u64(0x100a04)) + attr(71, u64(4)) + attr(70, "rdma_cm\x00"),
		CharDev{Name: "rdma_cm", ABI: 4, Major: 10, Minor: 260, DriverID: 18}, 72},
	{"resources", whole(parseResources),
		attr(15,
			attr(16, attr(17, "qp\x00")+attr(0, "")+attr(18, u64(1<<40)))+attr(4000, "?")+attr(nestedFlag|16, attr(18, u64(0))+attr(17, "novel\x00"))),
		[]Resource{{"qp", 1 << 40}, {"novel", 0}}, 0},
}
