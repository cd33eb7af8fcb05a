package netlinkrdma

import (
	"strconv"

	"github.com/goverbs/goverbs/internal/abi"
)

// attrNames holds the attributes this package reads, for its errors.
var attrNames = map[uint16]string{
	abi.RDMA_NLDEV_ATTR_DEV_INDEX:              "DEV_INDEX",
	abi.RDMA_NLDEV_ATTR_DEV_NAME:               "DEV_NAME",
	abi.RDMA_NLDEV_ATTR_PORT_INDEX:             "PORT_INDEX",
	abi.RDMA_NLDEV_ATTR_CAP_FLAGS:              "CAP_FLAGS",
	abi.RDMA_NLDEV_ATTR_FW_VERSION:             "FW_VERSION",
	abi.RDMA_NLDEV_ATTR_NODE_GUID:              "NODE_GUID",
	abi.RDMA_NLDEV_ATTR_SYS_IMAGE_GUID:         "SYS_IMAGE_GUID",
	abi.RDMA_NLDEV_ATTR_SUBNET_PREFIX:          "SUBNET_PREFIX",
	abi.RDMA_NLDEV_ATTR_LID:                    "LID",
	abi.RDMA_NLDEV_ATTR_SM_LID:                 "SM_LID",
	abi.RDMA_NLDEV_ATTR_LMC:                    "LMC",
	abi.RDMA_NLDEV_ATTR_PORT_STATE:             "PORT_STATE",
	abi.RDMA_NLDEV_ATTR_PORT_PHYS_STATE:        "PORT_PHYS_STATE",
	abi.RDMA_NLDEV_ATTR_DEV_NODE_TYPE:          "DEV_NODE_TYPE",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY:            "RES_SUMMARY",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY:      "RES_SUMMARY_ENTRY",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME: "RES_SUMMARY_ENTRY_NAME",
	abi.RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR: "RES_SUMMARY_ENTRY_CURR",
	abi.RDMA_NLDEV_ATTR_NDEV_INDEX:             "NDEV_INDEX",
	abi.RDMA_NLDEV_ATTR_NDEV_NAME:              "NDEV_NAME",
	abi.RDMA_NLDEV_ATTR_DEV_PROTOCOL:           "DEV_PROTOCOL",
	abi.RDMA_NLDEV_ATTR_CHARDEV_NAME:           "CHARDEV_NAME",
	abi.RDMA_NLDEV_ATTR_CHARDEV_ABI:            "CHARDEV_ABI",
	abi.RDMA_NLDEV_ATTR_CHARDEV:                "CHARDEV",
	abi.RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID:       "UVERBS_DRIVER_ID",
}

func attrName(typ uint16) string {
	if name, ok := attrNames[typ]; ok {
		return name
	}
	return strconv.Itoa(int(typ))
}
