package sli

// Network is the source of the calls that are echoes, and the target of the samples
// that a step network leaves.
const Network = "network"

// Names of samples of a step network.
const (
	NetworkReceived        = "network_received_bytes_total"          // by step: what came out of its streams
	NetworkSegments        = "network_sent_segments_total"           // by step: of the sending end's kernel, those sent again among them
	NetworkRetransmits     = "network_retransmitted_segments_total"  // by step: likewise
	NetworkArrived         = "network_received_segments_total"       // by step: of the receiving end's kernel
	NetworkFarCPU          = "network_far_cpu_seconds_total"         // by step: of all cores of the receiving end's machine, where that is a worker's
	NetworkStreamRoundTrip = "network_stream_round_trip_seconds"     // by step: TCP's own smoothed estimate under load
	NetworkPacketsSent     = "network_device_sent_packets_total"     // by namespace, device and its kind, as those that follow
	NetworkPacketsReceived = "network_device_received_packets_total" //
	NetworkBytesSent       = "network_device_sent_bytes_total"       // with the headers of the device's own layer
	NetworkBytesReceived   = "network_device_received_bytes_total"   //
	NetworkDropsSent       = "network_device_sent_dropped_total"     //
	NetworkDropsReceived   = "network_device_received_dropped_total" //
)

// networkIndicators are the indicators of paths that a step network measures.
func networkIndicators() []Indicator {
	const source = "windtunnel's own echoes and streams"
	ends := map[string][]string{"step": nil, "end": {"from", "to"}}
	return []Indicator{
		{Name: "network-round-trip", Unit: "seconds", Text: "from an echo's sending to its answer, by the kernel's stamp of receipt; one that is lost took longer than was waited",
			Source: source, Labels: anyLabels("step"), Statistics: distributionStatistics()[:7]},
		{Name: "network-loss", Unit: "ratio", Text: "echoes without an answer, as a share of all",
			Source: source, Labels: anyLabels("step"), Statistics: []string{"mean"}},
		{Name: "network-throughput", Unit: "bit/s", Text: "what came out of a step's streams: mean is that of all its time, the others are of its stretches of 100 ms",
			Source: source, Labels: anyLabels("step"), Statistics: []string{"mean", "min", "max", "p1", "p10", "p50", "p90", "p99"}},
		{Name: "network-turns-round-trip", Unit: "seconds", Text: "of a path that is measured in turns: the median over turns of a quantile of each turn's round trips; with than, of what it is longer than another path's in the same turn",
			Source: source, Labels: anyLabels("path", "than"), Statistics: []string{"p50", "p90", "p99"}},
		{Name: "network-turns-throughput", Unit: "bit/s", Text: "of a path that is measured in turns: the median over turns of the mean of each turn's streams; with than, of what it is more than another path's in the same turn",
			Source: source, Labels: anyLabels("path", "than"), Statistics: []string{"mean"}},
		// The whole machine's, since packets are passed on in interrupts that are no process' own.
		{Name: "network-cpu", Unit: "seconds/GB", Text: "CPU of the whole machine while a step's streams went, for each 1e9 bytes that came out of them; with end: to, of the machine of the worker that received them",
			Source: source, Labels: ends, Statistics: []string{"mean"}},
		// Segments, since a device that takes them in bundles counts a bundle as one packet.
		{Name: "network-packet-cpu", Unit: "seconds", Text: "CPU of the whole machine while a step's streams went, for each TCP segment that the sending end's kernel sent for them, those sent again among them; with end: to, of the machine of the worker that received them, for each that its kernel took",
			Source: source, Labels: ends, Statistics: []string{"mean"}},
		{Name: "network-segments", Unit: "segments", Text: "segments of streams that the sending end's kernel sent, those sent again among them",
			Source: "TCP_INFO", Labels: anyLabels("step"), Statistics: []string{"sum", "rate", "max"}, Kind: Counter, Family: NetworkSegments},
		{Name: "network-retransmits", Unit: "segments", Text: "segments of streams that the sending end's kernel sent again",
			Source: "TCP_INFO", Labels: anyLabels("step"), Statistics: []string{"sum", "rate", "max"}, Kind: Counter, Family: NetworkRetransmits, Shown: []string{"sum"}},
		{Name: "network-packets", Unit: "packets", Text: "packets that a network device of an end of a path sent, while it was measured",
			Source: "the kernel's counters of devices", Labels: anyLabels("namespace", "device", "kind"), Per: []string{"namespace", "device"},
			Statistics: []string{"sum", "rate", "max"}, Kind: Counter, Family: NetworkPacketsSent},
		{Name: "network-drops", Unit: "packets", Text: "packets that a network device of an end of a path dropped instead of sending them",
			Source: "the kernel's counters of devices", Labels: anyLabels("namespace", "device", "kind"), Per: []string{"namespace", "device"},
			Statistics: []string{"sum", "rate", "max"}, Kind: Counter, Family: NetworkDropsSent},
	}
}
