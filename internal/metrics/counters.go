package metrics

import "strings"

// Metric is a quantity that drivers count under different names. Its name follows Prometheus's
// conventions, without the prefix rdma_port_ and the suffix _total.
type Metric struct {
	Name, Help string
}

// Origin is the source of a counter of a port.
type Origin uint8

// The origins in order of preference. If a port has counters of several origins for one metric, they
// count the same thing. Then only the counters of the first origin have the metric.
const (
	Standard Origin = iota // the directory counters of sysfs, which the InfiniBand specification defines
	Driver                 // netlink, or the directory hw_counters of sysfs
	Optional               // optional counters of netlink; they are off by default because they slow the device down
)

// Counter is a counter of a port or a device.
type Counter struct {
	Name   string  // the driver's name
	Metric *Metric // nil if the name has no counterpart in other drivers
	Value  uint64  // in the metric's unit
	Origin Origin
}

// Gauge reports whether the value may become smaller without a reset. bnxt_re lists the numbers of objects
// and their maxima among its counters, and mana lists a rate.
func (c *Counter) Gauge() bool {
	return strings.HasPrefix(c.Name, "active_") || strings.HasPrefix(c.Name, "watermark_") || c.Name == "current_rate"
}

// Metrics holds all metrics of ports.
var Metrics = []*Metric{
	transmitBytes, receiveBytes, transmitPackets, receivePackets,
	transmitUnicast, receiveUnicast, transmitMulticast, receiveMulticast,
	transmitDrops, receiveDrops, noBuffer, transmitErrors, receiveErrors, icrcErrors,
	constraintTransmit, constraintReceive, remotePhysical, relayErrors, vl15Dropped, waitTicks,
	linkDowned, linkRecoveries, linkIntegrity, symbolErrors, bufferOverruns,
	sends, receives, readsSent, readsReceived, writesSent, writesReceived, atomicsReceived,
	sendBytes, recvBytes, readBytes, readResponseBytes, writeBytes, writeReceivedBytes,
	retransmittedPackets, retransmittedBytes, ackTimeouts, retriesExceeded, rnrRetriesExceeded,
	rnrSent, rnrReceived, duplicates, outOfSequence, sequenceNAKs, impliedNAKs,
	requesterErrors, responderErrors, workRequestErrors,
	ecnMarked, cnpSent, cnpReceived, cnpHandled, cnpIgnored,
}

var (
	transmitBytes        = &Metric{"transmit_bytes", "Bytes sent, including those headers that the device counts."}
	receiveBytes         = &Metric{"receive_bytes", "Bytes received, including those headers that the device counts."}
	transmitPackets      = &Metric{"transmit_packets", "Packets sent."}
	receivePackets       = &Metric{"receive_packets", "Packets received."}
	transmitUnicast      = &Metric{"transmit_unicast_packets", "Unicast packets sent."}
	receiveUnicast       = &Metric{"receive_unicast_packets", "Unicast packets received."}
	transmitMulticast    = &Metric{"transmit_multicast_packets", "Multicast packets sent."}
	receiveMulticast     = &Metric{"receive_multicast_packets", "Multicast packets received."}
	transmitDrops        = &Metric{"transmit_drops", "Packets that the port dropped instead of sending them."}
	receiveDrops         = &Metric{"receive_drops", "Received packets that the device dropped."}
	noBuffer             = &Metric{"receive_no_buffer", "Packets for which a queue had no receive posted."}
	transmitErrors       = &Metric{"transmit_errors", "Packets that could not be sent."}
	receiveErrors        = &Metric{"receive_errors", "Received packets with an error."}
	icrcErrors           = &Metric{"icrc_errors", "RoCE packets with a wrong invariant CRC."}
	constraintTransmit   = &Metric{"transmit_constraint_errors", "Packets not sent because of raw filtering or a failed partition check."}
	constraintReceive    = &Metric{"receive_constraint_errors", "Packets dropped because of raw filtering or a failed partition check."}
	remotePhysical       = &Metric{"receive_remote_physical_errors", "Received packets that the sender marked as bad."}
	relayErrors          = &Metric{"receive_switch_relay_errors", "Received packets that a switch could not forward."}
	vl15Dropped          = &Metric{"vl15_drops", "Management datagrams dropped for lack of buffers."}
	waitTicks            = &Metric{"transmit_wait_ticks", "Ticks during which the port had data to send but no credits."}
	linkDowned           = &Metric{"link_downed", "Number of times that the link went down."}
	linkRecoveries       = &Metric{"link_error_recoveries", "Number of times that the link recovered from errors."}
	linkIntegrity        = &Metric{"link_integrity_errors", "Number of times that local errors of the link exceeded their threshold."}
	symbolErrors         = &Metric{"symbol_errors", "Minor errors of the physical link."}
	bufferOverruns       = &Metric{"buffer_overrun_errors", "Number of times that the input buffer was overrun."}
	sends                = &Metric{"sends", "SEND requests sent."}
	receives             = &Metric{"receives", "SEND requests received."}
	readsSent            = &Metric{"reads_sent", "READ requests sent."}
	readsReceived        = &Metric{"reads_received", "READ requests received."}
	writesSent           = &Metric{"writes_sent", "WRITE requests sent."}
	writesReceived       = &Metric{"writes_received", "WRITE requests received."}
	atomicsReceived      = &Metric{"atomics_received", "Atomic requests received."}
	sendBytes            = &Metric{"send_bytes", "Bytes of SENDs sent."}
	recvBytes            = &Metric{"recv_bytes", "Bytes of SENDs received."}
	readBytes            = &Metric{"read_bytes", "Bytes received in response to READs of this host."}
	readResponseBytes    = &Metric{"read_response_bytes", "Bytes sent in response to READs of peers."}
	writeBytes           = &Metric{"write_bytes", "Bytes of WRITEs sent."}
	writeReceivedBytes   = &Metric{"write_received_bytes", "Bytes of WRITEs received."}
	retransmittedPackets = &Metric{"retransmitted_packets", "Packets retransmitted."}
	retransmittedBytes   = &Metric{"retransmitted_bytes", "Bytes retransmitted."}
	ackTimeouts          = &Metric{"ack_timeouts", "Number of times that an acknowledgement did not arrive in time."}
	retriesExceeded      = &Metric{"retries_exceeded", "Requests that failed after the last retry."}
	rnrRetriesExceeded   = &Metric{"rnr_retries_exceeded", "Requests that failed because the peer posted no receive in time."}
	rnrSent              = &Metric{"rnr_naks_sent", "RNR NAKs sent, because this host had no receive posted."}
	rnrReceived          = &Metric{"rnr_naks_received", "RNR NAKs received, because the peer had no receive posted."}
	duplicates           = &Metric{"duplicate_requests", "Requests received more than once."}
	outOfSequence        = &Metric{"out_of_sequence_packets", "Packets received out of sequence, because earlier ones were lost or reordered."}
	sequenceNAKs         = &Metric{"sequence_naks_received", "NAKs received for a sequence error, because packets of this host were lost or reordered."}
	impliedNAKs          = &Metric{"implied_naks_received", "Responses that imply the loss of an earlier one."}
	requesterErrors      = &Metric{"requester_completion_errors", "Requests of this host that completed with an error."}
	responderErrors      = &Metric{"responder_completion_errors", "Receives of this host that completed with an error."}
	workRequestErrors    = &Metric{"work_request_errors", "READs and WRITEs of this host that failed."}
	ecnMarked            = &Metric{"ecn_marked_packets", "Packets received with an ECN mark, which a congested switch sets."}
	cnpSent              = &Metric{"cnp_sent", "Congestion notification packets sent."}
	cnpReceived          = &Metric{"cnp_received", "Congestion notification packets received."}
	cnpHandled           = &Metric{"cnp_handled", "Congestion notification packets that slowed down a queue pair."}
	cnpIgnored           = &Metric{"cnp_ignored", "Congestion notification packets that the device ignored."}
)

// meaning is the metric of a driver's counter. scale converts the unit; 0 means 1.
type meaning struct {
	metric *Metric
	scale  uint64
}

// meanings maps the names of drivers' counters. A name means the same for all drivers.
var meanings = map[string]meaning{
	// counters of sysfs: drivers/infiniband/core/sysfs.c
	"port_xmit_data": {transmitBytes, 4}, "port_rcv_data": {receiveBytes, 4},
	"port_xmit_packets": {metric: transmitPackets}, "port_rcv_packets": {metric: receivePackets},
	"unicast_xmit_packets": {metric: transmitUnicast}, "unicast_rcv_packets": {metric: receiveUnicast},
	"multicast_xmit_packets": {metric: transmitMulticast}, "multicast_rcv_packets": {metric: receiveMulticast},
	"port_xmit_discards": {metric: transmitDrops}, "port_rcv_errors": {metric: receiveErrors},
	"port_xmit_constraint_errors": {metric: constraintTransmit}, "port_rcv_constraint_errors": {metric: constraintReceive},
	"port_rcv_remote_physical_errors": {metric: remotePhysical}, "port_rcv_switch_relay_errors": {metric: relayErrors},
	"VL15_dropped": {metric: vl15Dropped}, "port_xmit_wait": {metric: waitTicks},
	"link_downed": {metric: linkDowned}, "link_error_recovery": {metric: linkRecoveries},
	"local_link_integrity_errors": {metric: linkIntegrity}, "symbol_error": {metric: symbolErrors},
	"excessive_buffer_overrun_errors": {metric: bufferOverruns},

	// mlx5
	"rx_read_requests": {metric: readsReceived}, "rx_write_requests": {metric: writesReceived}, "rx_atomic_requests": {metric: atomicsReceived},
	"out_of_buffer": {metric: noBuffer}, "out_of_sequence": {metric: outOfSequence}, "duplicate_request": {metric: duplicates},
	"packet_seq_err": {metric: sequenceNAKs}, "implied_nak_seq_err": {metric: impliedNAKs},
	"rnr_nak_retry_err": {metric: rnrReceived}, "local_ack_timeout_err": {metric: ackTimeouts},
	"req_cqe_error": {metric: requesterErrors}, "resp_cqe_error": {metric: responderErrors},
	"rx_icrc_encapsulated":       {metric: icrcErrors},
	"np_ecn_marked_roce_packets": {metric: ecnMarked}, "np_cnp_sent": {metric: cnpSent},
	"rp_cnp_handled": {metric: cnpHandled}, "rp_cnp_ignored": {metric: cnpIgnored},
	"cc_rx_ce_pkts": {metric: ecnMarked}, "cc_tx_cnp_pkts": {metric: cnpSent}, "cc_rx_cnp_pkts": {metric: cnpReceived},
	"rdma_tx_bytes": {metric: transmitBytes}, "rdma_rx_bytes": {metric: receiveBytes},
	"rdma_tx_packets": {metric: transmitPackets}, "rdma_rx_packets": {metric: receivePackets},

	// rxe
	"sent_pkts": {metric: transmitPackets}, "rcvd_pkts": {metric: receivePackets},
	"rdma_sends": {metric: sends}, "rdma_recvs": {metric: receives}, "send_err": {metric: transmitErrors},
	"out_of_seq_request": {metric: outOfSequence}, "rcvd_seq_err": {metric: sequenceNAKs},
	"send_rnr_err": {metric: rnrSent}, "rcvd_rnr_err": {metric: rnrReceived},
	"retry_exceeded_err": {metric: retriesExceeded}, "retry_rnr_exceeded_err": {metric: rnrRetriesExceeded},

	// efa
	"tx_bytes": {metric: transmitBytes}, "rx_bytes": {metric: receiveBytes},
	"tx_pkts": {metric: transmitPackets}, "rx_pkts": {metric: receivePackets}, "rx_drops": {metric: receiveDrops},
	"send_wrs": {metric: sends}, "recv_wrs": {metric: receives}, "send_bytes": {metric: sendBytes}, "recv_bytes": {metric: recvBytes},
	"rdma_read_wrs": {metric: readsSent}, "rdma_read_bytes": {metric: readBytes}, "rdma_read_resp_bytes": {metric: readResponseBytes},
	"rdma_write_wrs": {metric: writesSent}, "rdma_write_bytes": {metric: writeBytes}, "rdma_write_recv_bytes": {metric: writeReceivedBytes},
	"rdma_read_wr_err": {metric: workRequestErrors}, "rdma_write_wr_err": {metric: workRequestErrors},
	"retrans_pkts": {metric: retransmittedPackets}, "retrans_bytes": {metric: retransmittedBytes}, "retrans_timeout_events": {metric: ackTimeouts},

	// irdma; its older names begin with iw and tcp
	"ip4OutOctets": {metric: transmitBytes}, "ip6OutOctets": {metric: transmitBytes},
	"ip4InOctets": {metric: receiveBytes}, "ip6InOctets": {metric: receiveBytes},
	"ip4OutPkts": {metric: transmitPackets}, "ip6OutPkts": {metric: transmitPackets},
	"ip4InPkts": {metric: receivePackets}, "ip6InPkts": {metric: receivePackets},
	"ip4OutMcastPkts": {metric: transmitMulticast}, "ip6OutMcastPkts": {metric: transmitMulticast},
	"ip4InMcastPkts": {metric: receiveMulticast}, "ip6InMcastPkts": {metric: receiveMulticast},
	"ip4InDiscards": {metric: receiveDrops}, "ip6InDiscards": {metric: receiveDrops},
	"ip4OutNoRoutes": {metric: transmitDrops}, "ip6OutNoRoutes": {metric: transmitDrops},
	"OutRdmaSends": {metric: sends}, "InRdmaSends": {metric: receives},
	"OutRdmaReads": {metric: readsSent}, "InRdmaReads": {metric: readsReceived},
	"OutRdmaWrites": {metric: writesSent}, "InRdmaWrites": {metric: writesReceived},
	"iwOutRdmaSends": {metric: sends}, "iwInRdmaSends": {metric: receives},
	"iwOutRdmaReads": {metric: readsSent}, "iwInRdmaReads": {metric: readsReceived},
	"iwOutRdmaWrites": {metric: writesSent}, "iwInRdmaWrites": {metric: writesReceived},
	"RetransSegs": {metric: retransmittedPackets}, "tcpRetransSegs": {metric: retransmittedPackets},
	"RxECNMrkd": {metric: ecnMarked}, "cnpSent": {metric: cnpSent}, "cnpHandled": {metric: cnpHandled}, "cnpIgnored": {metric: cnpIgnored},
	"RNR sent": {metric: rnrSent}, "RNR received": {metric: rnrReceived}, "Nak Sequence Error": {metric: sequenceNAKs},
}

// interpret sets the metrics of the counters of a port.
func interpret(counters []Counter) {
	first := make(map[*Metric]Origin)
	for _, c := range counters {
		if m, ok := meanings[c.Name]; ok {
			if origin, seen := first[m.metric]; !seen || c.Origin < origin {
				first[m.metric] = c.Origin
			}
		}
	}
	for i := range counters {
		c := &counters[i]
		if m, ok := meanings[c.Name]; ok && first[m.metric] == c.Origin {
			c.Metric = m.metric
			c.Value *= max(m.scale, 1)
		}
	}
}
